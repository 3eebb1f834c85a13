// exp: the exponential function.
#include "attune/autograd/ops/exp.h"

#include <cmath>

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("exp") {
  check_op({.name = "exp",
            .f = [](Var x) { return exp(x); },
            .reference = elementwise([](double x) { return std::exp(x); }),
            .inputs = odd_sizes(1),
            .saves = Saves::nothing});
}

TEST_CASE("exp: known answers") {
  const Tensor x = tensor({0, 1, -1}, f64);
  Tape tape;
  const Var leaf = variable(x), y = exp(leaf);
  tape.backward(y, ones({3}, f64));
  CHECK(y.value().at({0}) == 1);
  CHECK(y.value().at({1}) == doctest::Approx(2.718281828459045).epsilon(1e-15));
  CHECK(leaf.grad().at({2}) == doctest::Approx(0.36787944117144233).epsilon(1e-15));
}
