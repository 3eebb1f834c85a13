// add: y = a + b; and B43, how gradients come back through broadcasting.
#include "attune/autograd/ops/add.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("add") {
  check_op({.name = "add",
            .f = [](Var a, Var b) { return a + b; },
            .reference = elementwise([](double a, double b) { return a + b; }),
            .inputs = odd_sizes(2),
            .broadcasts = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          add(zeros({2, 3}), zeros({2, 4}));
                        },
                        "add: [2, 3] and [2, 4] do not broadcast: sizes 3 and 4 differ"},
                       {[] {
                          add(zeros({3, 1}), zeros({2, 5}));
                        },
                        "add: [3, 1] and [2, 5] do not broadcast: sizes 3 and 2 differ"},
                       {[] { add(zeros({0}), zeros({2})); },
                        "add: [0] and [2] do not broadcast: sizes 0 and 2 differ"},
                       {[] { add(zeros({2}), zeros({2}, i32)); }, "add: element types f32 and i32 differ"}}});
}

TEST_CASE("add: a number, on either side") {
  check_op({.name = "add, a number",
            .f = [](Var x) { return x + 2.5; },
            .reference = elementwise([](double x) { return x + 2.5; }),
            .inputs = odd_sizes(1),
            .saves = Saves::nothing});
  check_op({.name = "add, to a number",
            .f = [](Var x) { return -0.1 + x; },
            .reference = elementwise([](double x) { return x - 0.1; }),
            .inputs = {{real({3, 5})}},
            .saves = Saves::nothing});
}

TEST_CASE("add: B43, gradients have the shapes of their operands, summed over what was stretched") {
  const auto gradients = [](const Shape& a, const Shape& b) {
    const Tensor a_numbers(a, f64), b_numbers(b, f64);
    Tape tape;
    const Var x = variable(a_numbers), y = variable(b_numbers);
    tape.backward(sum(x + y));
    return std::pair(Plain(x.grad()), Plain(y.grad()));
  };
  const auto [row, matrix] = gradients({3}, {2, 3});
  CHECK(row.shape == Shape{3});
  CHECK(row.numbers == std::vector<double>{2, 2, 2});
  CHECK(matrix.shape == Shape{2, 3});
  CHECK(matrix.numbers == std::vector<double>(6, 1));

  const auto [scalar, square] = gradients({}, {2, 2});
  CHECK(scalar.shape == Shape{});
  CHECK(scalar.numbers == std::vector<double>{4});
  CHECK(square.numbers == std::vector<double>(4, 1));

  const auto [left, right] = gradients({1, 3}, {1, 3});
  CHECK(left.shape == Shape{1, 3});
  CHECK(left.numbers == std::vector<double>{1, 1, 1});
  CHECK(right.numbers == std::vector<double>{1, 1, 1});
}

TEST_CASE("add: a Var with itself, and the sum with itself again") {
  const Tensor x = tensor({1, -2}, f64);
  Tape tape;
  const Var a = variable(x), b = a + a, c = b + b;
  tape.backward(sum(c));
  CHECK(Plain(c.value()).numbers == std::vector<double>{4, -8});
  CHECK(Plain(a.grad()).numbers == std::vector<double>{4, 4});
}
