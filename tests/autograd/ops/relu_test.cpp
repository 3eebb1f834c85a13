// relu: max(x, 0).
#include "attune/autograd/ops/relu.h"

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

TEST_CASE("relu") {
  check_op({.name = "relu",
            .f = [](Var x) { return relu(x); },
            .reference = elementwise([](double x) { return std::fmax(x, 0); }),
            .inputs = both_sides(),
            .points = {{{2}, 2, {1}},
                       {{-3}, 0, {0}},
                       {{0}, 0, {0}},
                       {{-kInf}, 0, {0}},
                       {{kInf}, kInf, {1}},
                       {{kNan}, kNan}}});
}

TEST_CASE("relu: an infinite gradient does not pass below 0") {
  const Tensor numbers = tensor({-1, 1}), seed = tensor({INFINITY, INFINITY});
  Tape tape;
  const Var x = variable(numbers), y = relu(x);
  tape.backward(y, seed);
  CHECK(x.grad().at({0}) == 0);
  CHECK(x.grad().at({1}) == INFINITY);
}
