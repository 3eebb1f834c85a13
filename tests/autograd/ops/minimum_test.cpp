// minimum: the smaller of two.
#include "attune/autograd/ops/minimum.h"

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

TEST_CASE("minimum") {
  check_op({.name = "minimum",
            .f = [](Var a, Var b) { return minimum(a, b); },
            .reference = elementwise([](double a, double b) { return std::fmin(a, b); }),
            .inputs = apart(),
            .broadcasts = true,
            .points = {{{1, 2}, 1, {1, 0}},
                       {{3, 2}, 2, {0, 1}},
                       {{2, 2}, 2, {0.5, 0.5}},
                       {{-kInf, -kInf}, -kInf, {0.5, 0.5}},
                       {{-kInf, 1}, -kInf, {1, 0}},
                       {{kNan, 1}, kNan},
                       {{1, kNan}, kNan},
                       {{kNan, kInf}, kNan}},
            .errors = {{[] {
                          minimum(zeros({2, 3}), zeros({2}));
                        },
                        "minimum: [2, 3] and [2] do not broadcast: sizes 3 and 2 differ"}}});
}

TEST_CASE("minimum: with a number, on either side") {
  check_op({.name = "minimum, with a number",
            .f = [](Var x) { return minimum(x, 2.5); },
            .reference = elementwise([](double x) { return std::fmin(x, 2.5); }),
            .inputs = {{real({3, 5})}, {real({3, 5}, 3, 4)}},
            .points = {{{2.5}, 2.5, {0.5}}}});
  check_op({.name = "minimum, of a number",
            .f = [](Var x) { return minimum(2.5, x); },
            .reference = elementwise([](double x) { return std::fmin(2.5, x); }),
            .inputs = {{real({3, 5})}, {real({3, 5}, 3, 4)}}});
}
