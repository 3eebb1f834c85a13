// sparsemax: along each axis, by bisection of its definition.
#include "attune/autograd/ops/sparsemax.h"

#include <algorithm>
#include <limits>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// What lies above the threshold tau: max(x - tau, 0).
double above(double x, double tau) { return std::max(x - tau, 0.0); }

// tau by bisection, until the sum is 1.
Numbers definition(const Numbers& x) {
  if (x.empty()) return {};
  const double top = *std::max_element(x.begin(), x.end());
  double low = top - 1, high = top;
  const auto sum = [&](double tau) {
    double total = 0;
    for (double number : x) total += above(number, tau);
    return total;
  };
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (sum(middle) > 1 ? low : high) = middle;
  }
  Numbers y;
  for (double number : x) y.push_back(above(number, low));
  return y;
}

Numbers row(const Nested& numbers) {
  const NoGrad scope;
  return Plain(sparsemax(tensor(numbers)).value()).numbers;
}

}  // namespace

// Few numbers: among many, one lies so near to the threshold that differences step over the kink.
TEST_CASE("sparsemax: along each axis") {
  for (int axis : {0, 1, 2, -1})
    check_op({.name = "sparsemax, axis " + std::to_string(axis),
              .f = [=](Var x) { return sparsemax(x, axis); },
              .reference = [=](const Plain& x) { return along_axis(x, axis, definition); },
              .inputs = {{real({2, 3, 4})},
                         {real({1, 17, 33})},
                         {real({5, 1, 1})},
                         {real({2, 0, 3})},
                         {real({3, 7, 18})}},
              .saves = Saves::nothing});
}

TEST_CASE("sparsemax: hidden entries, rows of nothing else, and rows that are broken") {
  CHECK(row({-kInf, 3, -kInf}) == Numbers{0, 1, 0});
  CHECK(row({-kInf, -kInf}) == Numbers{0, 0});
  CHECK(row({2, 2, -kInf, 2, 2}) == Numbers{0.25, 0.25, 0, 0.25, 0.25});
  CHECK(row({1e30, -1e30}) == Numbers{1, 0});
  for (double number : row({1, kInf, 0})) CHECK(std::isnan(number));
  for (double number : row({1, std::nan(""), -kInf})) CHECK(std::isnan(number));
}

TEST_CASE("sparsemax: its Jacobian is a projection on the support, whose norm is sqrt(|S| - 1)") {
  const Tensor x = tensor({0.9, 0.1, 0.55, -2, 0.6, 0.2}, f64);
  double squares = 0;
  Index support = 0;
  for (Index i = 0; i < 6; ++i) {
    Tape tape;
    const Var leaf = variable(x), y = sparsemax(leaf);
    Tensor seed({6}, f64);
    seed.data<double>()[static_cast<std::size_t>(i)] = 1;
    tape.backward(y, seed);
    support += y.value().at({i}) > 0;
    for (double number : Plain(leaf.grad()).numbers) squares += number * number;
  }
  CHECK(support == 3);
  CHECK(std::sqrt(squares) == doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE("sparsemax: what is refused") {
  check_op({.name = "sparsemax",
            .f = [](Var x) { return sparsemax(x); },
            .reference = [](const Plain& x) { return along_axis(x, -1, definition); },
            .inputs = {{real({3, 4})}, {real({70})}},
            .saves = Saves::nothing,
            .errors = {{[] { sparsemax(tensor(1)); }, "sparsemax: [] has no row to normalise"},
                       {[] {
                          sparsemax(zeros({2, 3}), 2);
                        },
                        "sparsemax: axis 2 does not exist in a tensor of rank 2"}}});
}
