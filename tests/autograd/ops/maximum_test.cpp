// maximum: the larger of two.
#include "attune/autograd/ops/maximum.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

namespace {

// The first operand above the second or below, always by more than a difference could bridge.
std::vector<Inputs> apart() {
  std::vector<Inputs> inputs = odd_sizes(2);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i][i % 2] = real(inputs[i][0].shape, 2.25, 4);
  return inputs;
}

}  // namespace

TEST_CASE("maximum") {
  check_op({.name = "maximum",
            .f = [](Var a, Var b) { return maximum(a, b); },
            .reference = elementwise([](double a, double b) { return std::fmax(a, b); }),
            .inputs = apart(),
            .broadcasts = true,
            .points = {{{1, 2}, 2, {0, 1}},
                       {{3, 2}, 3, {1, 0}},
                       {{2, 2}, 2, {0.5, 0.5}},
                       {{kInf, kInf}, kInf, {0.5, 0.5}},
                       {{-kInf, 1}, 1, {0, 1}},
                       {{3e38, 3e38}, 3e38, {0.5, 0.5}},
                       {{kNan, 1}, kNan},
                       {{1, kNan}, kNan},
                       {{kNan, -kInf}, kNan}},
            .errors = {{[] {
                          maximum(zeros({2, 3}), zeros({2}));
                        },
                        "maximum: [2, 3] and [2] do not broadcast: sizes 3 and 2 differ"}}});
}

TEST_CASE("maximum: with a number, on either side") {
  check_op({.name = "maximum, with a number",
            .f = [](Var x) { return maximum(x, 2.5); },
            .reference = elementwise([](double x) { return std::fmax(x, 2.5); }),
            .inputs = {{real({3, 5})}, {real({3, 5}, 3, 4)}},
            .points = {{{2.5}, 2.5, {0.5}}}});
  check_op({.name = "maximum, of a number",
            .f = [](Var x) { return maximum(2.5, x); },
            .reference = elementwise([](double x) { return std::fmax(2.5, x); }),
            .inputs = {{real({3, 5})}, {real({3, 5}, 3, 4)}}});
}
