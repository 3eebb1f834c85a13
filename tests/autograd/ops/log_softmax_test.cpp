// log_softmax: over any axis.
#include "attune/autograd/ops/log_softmax.h"

#include <cmath>
#include <limits>

#include "attune/autograd/ops/softmax.h"
#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Numbers definition(const Numbers& x) {
  double total = 0;
  for (double number : x) total += std::exp(number - x[0]);
  Numbers y;
  for (double number : x) y.push_back(number - x[0] - std::log(total));
  return y;
}

Numbers log_softmax_of(const Nested& numbers) {
  const NoGrad scope;
  return Plain(log_softmax(tensor(numbers)).value()).numbers;
}

}  // namespace

TEST_CASE("log_softmax: along each axis") {
  for (int axis : {0, 1, 2, -1})
    check_op({.name = "log_softmax, axis " + std::to_string(axis),
              .f = [=](Var x) { return log_softmax(x, axis); },
              .reference = [=](const Plain& x) { return along_axis(x, axis, definition); },
              .inputs = {{real({2, 3, 4})},
                         {real({1, 17, 33})},
                         {real({5, 1, 1})},
                         {real({2, 0, 3})},
                         {real({9, 40, 70})}},
              .saves = Saves::nothing});
}

TEST_CASE("log_softmax: B20, huge logits keep their differences") {
  const Numbers far = log_softmax_of({1e4, 9999});
  CHECK(far[0] == doctest::Approx(-0.313261688).epsilon(1e-6));
  CHECK(far[1] == doctest::Approx(-1.313261688).epsilon(1e-6));
  for (double y : log_softmax_of({-3e38, -3e38, -3e38})) CHECK(y == doctest::Approx(-std::log(3)));
  CHECK(log_softmax_of({0}) == Numbers{0});
  for (double y : log_softmax_of({kInf, 0})) CHECK(std::isnan(y));
}

TEST_CASE("log_softmax: -inf is what softmax has as 0") {
  CHECK(log_softmax_of({-kInf, 5}) == Numbers{-kInf, 0});
  CHECK(log_softmax_of({-kInf, -kInf}) == Numbers{-kInf, -kInf});
  const Tensor numbers = tensor({{-kInf, -kInf}, {0, -kInf}});
  Tape tape;
  const Var x = variable(numbers), y = log_softmax(x);
  tape.backward(y, tensor({{1, 2}, {1, 0}}));
  CHECK(Plain(x.grad()).numbers == Numbers{0, 0, 0, 0});
}

TEST_CASE("log_softmax: B22, NaN anywhere makes its row NaN, and no other") {
  check_nan_spreads([](Var x) { return log_softmax(x); });
}

TEST_CASE("log_softmax: what is refused") {
  check_op({.name = "log_softmax",
            .f = [](Var x) { return log_softmax(x); },
            .reference = [](const Plain& x) { return along_axis(x, -1, definition); },
            .inputs = {{real({3, 4})}, {real({2, 1025})}},
            .saves = Saves::nothing,
            .errors = {{[] { log_softmax(tensor(1)); }, "log_softmax: [] has no row to normalise"},
                       {[] {
                          log_softmax(zeros({2, 3}), 2);
                        },
                        "log_softmax: axis 2 does not exist in a tensor of rank 2"}}});
}
