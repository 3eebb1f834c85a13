// detach: the same value, as a constant.
#include "attune/autograd/ops/detach.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("detach") {
  check_op({.name = "detach",
            .f = [](Var x) { return detach(x); },
            .reference = [](const Plain& x) { return x; },
            .inputs = odd_sizes(1),
            .differentiable = false,
            .any_dtype = true,
            .saves = Saves::nothing});
}

TEST_CASE("detach: is a constant where it is used, in reverse and in forward mode") {
  const Tensor numbers = tensor({3, 5}, f64);
  {
    Tape tape;
    const Var x = variable(numbers), fixed = detach(x);
    CHECK(fixed.value().data() == x.value().data());
    CHECK_FALSE(fixed.needs_grad());
    tape.backward(sum(x * fixed));  // x * 3, not x²
    CHECK(Plain(x.grad()).numbers == std::vector<double>{3, 5});
  }
  Tensor moving(Shape{1}, DType::dual);
  moving.data<dual>()[0] = {3, 1};
  const NoGrad scope;
  const Var x = variable(moving), y = x * detach(x);
  CHECK(y.value().as<dual>()[0].value == 9);
  CHECK(y.value().as<dual>()[0].tangent == 3);
}

TEST_CASE("detach: backward from it alone has nowhere to go") {
  const Tensor numbers = tensor({3}, f64);
  Tape tape;
  const Var x = variable(numbers), y = detach(x);
  CHECK_THROWS_WITH_AS(
      tape.backward(y),
      "backward: the loss of shape [1] depends on no parameter and no variable of this tape (those of a "
      "tape around it are constants here)",
      std::invalid_argument);
}
