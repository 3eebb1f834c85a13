// leaky_relu: x above 0, slope * x below.
#include "attune/autograd/ops/leaky_relu.h"

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

TEST_CASE("leaky_relu") {
  check_op({.name = "leaky_relu",
            .f = [](Var x) { return leaky_relu(x, 0.25); },
            .reference = elementwise([](double x) { return x > 0 ? x : 0.25 * x; }),
            .inputs = both_sides(),
            .points = {{{2}, 2, {1}},
                       {{-3}, -0.75, {0.25}},
                       {{0}, 0, {0.25}},
                       {{-kInf}, -kInf, {0.25}},
                       {{kNan}, kNan}}});
}

TEST_CASE("leaky_relu: a slope of 0.01 unless given") {
  check_op({.name = "leaky_relu, as it comes",
            .f = [](Var x) { return leaky_relu(x); },
            .reference = elementwise([](double x) { return x > 0 ? x : 0.01 * x; }),
            .inputs = {{real({3, 5}, -4, -0.25)}},
            .points = {{{-1}, -0.01, {0.01}}}});
}
