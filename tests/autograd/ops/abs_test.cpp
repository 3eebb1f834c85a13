// abs: the absolute value.
#include "attune/autograd/ops/abs.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

namespace {

// Numbers on both sides of 0, and none so near that a difference would reach across.
std::vector<Inputs> both_sides() {
  std::vector<Inputs> inputs = odd_sizes(1, 0.25, 4);
  for (const Inputs& negative : odd_sizes(1, -4, -0.25)) inputs.push_back(negative);
  return inputs;
}

}  // namespace

TEST_CASE("abs") {
  check_op({.name = "abs",
            .f = [](Var x) { return abs(x); },
            .reference = elementwise([](double x) { return std::abs(x); }),
            .inputs = both_sides(),
            .points = {{{2}, 2, {1}},
                       {{-3}, 3, {-1}},
                       {{0}, 0, {0}},
                       {{-0.0}, 0, {0}},
                       {{-kInf}, kInf, {-1}},
                       {{kNan}, kNan, {kNan}}}});
}

TEST_CASE("abs: of -0 is +0") {
  const Tensor x = tensor({-0.0}, f64);
  const NoGrad scope;
  CHECK_FALSE(std::signbit(abs(Var(x)).value().at({0})));
}
