// mul: y = a * b; and B43, how gradients come back through broadcasting.
#include "attune/autograd/ops/mul.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("mul") {
  check_op({.name = "mul",
            .f = [](Var a, Var b) { return a * b; },
            .reference = elementwise([](double a, double b) { return a * b; }),
            .inputs = odd_sizes(2),
            .broadcasts = true,
            .errors = {{[] {
                          mul(zeros({2, 3}), zeros({2, 4}));
                        },
                        "mul: [2, 3] and [2, 4] do not broadcast: sizes 3 and 4 differ"},
                       {[] { mul(zeros({0}), zeros({2})); },
                        "mul: [0] and [2] do not broadcast: sizes 0 and 2 differ"}}});
}

TEST_CASE("mul: by a number, on either side") {
  check_op({.name = "mul, by a number",
            .f = [](Var x) { return x * -2.5; },
            .reference = elementwise([](double x) { return -2.5 * x; }),
            .inputs = odd_sizes(1),
            .saves = Saves::nothing});
  check_op({.name = "mul, a number by it",
            .f = [](Var x) { return 0.1 * x; },
            .reference = elementwise([](double x) { return 0.1 * x; }),
            .inputs = {{real({3, 5})}},
            .saves = Saves::nothing});
}

TEST_CASE("mul: B43, a column times a row") {
  const Tensor column = tensor({{1}, {2}}, f64), row = tensor({{10, 20, 30}}, f64);
  Tape tape;
  const Var a = variable(column), b = variable(row), y = a * b;
  tape.backward(y, ones({2, 3}, f64));
  CHECK(Plain(y.value()).numbers == std::vector<double>{10, 20, 30, 20, 40, 60});
  CHECK(a.grad().shape() == Shape{2, 1});
  CHECK(Plain(a.grad()).numbers == std::vector<double>{60, 60});
  CHECK(b.grad().shape() == Shape{1, 3});
  CHECK(Plain(b.grad()).numbers == std::vector<double>{3, 3, 3});
}

TEST_CASE("mul: B43, stretched in the middle and at the front at once") {
  const Tensor first = tensor({{{0, 1, 2}}, {{3, 4, 5}}}, f64), second = tensor({{1}, {2}, {3}, {4}}, f64);
  Tape tape;
  const Var a = variable(first), b = variable(second), y = a * b;
  CHECK(y.shape() == Shape{2, 4, 3});
  tape.backward(sum(y));
  CHECK(a.grad().shape() == Shape{2, 1, 3});
  CHECK(Plain(a.grad()).numbers == std::vector<double>(6, 10));
  CHECK(b.grad().shape() == Shape{4, 1});
  CHECK(Plain(b.grad()).numbers == std::vector<double>(4, 15));
}
