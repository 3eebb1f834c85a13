// where: a choice between two, element by element.
#include "attune/autograd/ops/where.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

namespace {

std::vector<Inputs> choices() {
  std::vector<Inputs> inputs = odd_sizes(3);
  for (Inputs& all : inputs) all[0] = ids(all[0].shape, 2);
  return inputs;
}

Plain choose(const Plain& condition, const Plain& a, const Plain& b) {
  Plain y = a;
  for (std::size_t i = 0; i < y.numbers.size(); ++i)
    if (condition.numbers[i] == 0) y.numbers[i] = b.numbers[i];
  return y;
}

}  // namespace

TEST_CASE("where") {
  check_op(
      {.name = "where",
       .f = [](Var condition, Var a, Var b) { return where(condition, a, b); },
       .reference = choose,
       .inputs = choices(),
       .errors = {{[] { where(zeros({2}), zeros({2}), zeros({2})); }, "where: a condition is i32, not f32"},
                  {[] { where(zeros({2}, i32), zeros({3}), zeros({3})); },
                   "where: [2] and [3] do not broadcast: sizes 2 and 3 differ"},
                  {[] { where(zeros({2}, i32), zeros({2}), zeros({3})); },
                   "where: [2] and [3] do not broadcast: sizes 2 and 3 differ"},
                  {[] { where(zeros({2}, i32), zeros({2}), zeros({2}, i32)); },
                   "where: element types f32 and i32 differ"}}});
}

TEST_CASE("where: operands that stretch, each against the other two") {
  const Tensor on = tensor({{1}, {0}}, i32);
  check_op({.name = "where, a column of conditions",
            .f = [&](Var a, Var b) { return where(on, a, b); },
            .reference =
                [](const Plain& a, const Plain& b) {
                  Plain y({2, 3});
                  for (Index j = 0; j < 3; ++j) {
                    y(0, j) = a(j);
                    y(1, j) = b(1, 0);
                  }
                  return y;
                },
            .inputs = {{real({3}), real({2, 1})}}});
}

TEST_CASE("where: a number on either side") {
  const Tensor on = tensor({2, 0, -1}, i32);  // anything but 0 is true
  check_op({.name = "where, else a number",
            .f = [&](Var a) { return where(on, a, 0.5); },
            .reference =
                [](const Plain& a) {
                  Plain y = a;
                  y(1) = 0.5;
                  return y;
                },
            .inputs = {{real({3})}}});
  check_op({.name = "where, a number, or else",
            .f = [&](Var b) { return where(on, 0.5, b); },
            .reference =
                [](const Plain& b) {
                  Plain y({3});
                  y(0) = y(2) = 0.5;
                  y(1) = b(1);
                  return y;
                },
            .inputs = {{real({3})}}});
}

TEST_CASE("where: the branch that is not taken has a gradient of 0, even where it is not finite") {
  const Tensor first = tensor({kNan, 1.0}), second = tensor({1.0, kInf}), on = tensor({0, 1}, i32),
               seed = tensor({kInf, kNan});
  Tape tape;
  const Var a = variable(first), b = variable(second), y = where(on, a, b);
  tape.backward(y, seed);
  CHECK(Plain(y.value()).numbers == std::vector<double>{1, 1});
  CHECK(a.grad().at({0}) == 0);
  CHECK(std::isnan(a.grad().at({1})));
  CHECK(b.grad().at({0}) == kInf);
  CHECK(b.grad().at({1}) == 0);
}

TEST_CASE("where: a condition that changes before backward is an error") {
  Tensor on = tensor({1, 0}, i32);
  const Tensor numbers = tensor({1, 2});
  Tape tape;
  const Var x = variable(numbers), y = where(on, x, 0);
  on.set({0}, 0);
  CHECK_THROWS_AS(tape.backward(y, ones({2})), std::invalid_argument);
}
