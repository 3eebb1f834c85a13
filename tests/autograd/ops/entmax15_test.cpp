// entmax15: along each axis, by bisection of its definition.
#include "attune/autograd/ops/entmax15.h"

#include <algorithm>
#include <limits>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// What lies above the threshold tau: max(x / 2 - tau, squared, 0).
double above(double x, double tau) {
  const double root = std::max(x / 2 - tau, 0.0);
  return root * root;
}

// tau by bisection, until the sum is 1.
Numbers definition(const Numbers& x) {
  if (x.empty()) return {};
  const double top = *std::max_element(x.begin(), x.end());
  double low = top / 2 - 1, high = top / 2;
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
  return Plain(entmax15(tensor(numbers)).value()).numbers;
}

}  // namespace

// Few numbers: among many, one lies so near to the threshold that differences step over the kink.
TEST_CASE("entmax15: along each axis") {
  for (int axis : {0, 1, 2, -1})
    check_op({.name = "entmax15, axis " + std::to_string(axis),
              .f = [=](Var x) { return entmax15(x, axis); },
              .reference = [=](const Plain& x) { return along_axis(x, axis, definition); },
              .inputs = {{real({2, 3, 4})},
                         {real({1, 17, 33})},
                         {real({5, 1, 1})},
                         {real({2, 0, 3})},
                         {real({3, 7, 18})}},
              .saves = Saves::nothing});
}

TEST_CASE("entmax15: hidden entries, rows of nothing else, and rows that are broken") {
  CHECK(row({-kInf, 3, -kInf}) == Numbers{0, 1, 0});
  CHECK(row({-kInf, -kInf}) == Numbers{0, 0});
  CHECK(row({2, 2, -kInf, 2, 2}) == Numbers{0.25, 0.25, 0, 0.25, 0.25});
  CHECK(row({1e30, -1e30}) == Numbers{1, 0});
  for (double number : row({1, kInf, 0})) CHECK(std::isnan(number));
  for (double number : row({1, std::nan(""), -kInf})) CHECK(std::isnan(number));
}

TEST_CASE("entmax15: what is refused") {
  check_op({.name = "entmax15",
            .f = [](Var x) { return entmax15(x); },
            .reference = [](const Plain& x) { return along_axis(x, -1, definition); },
            .inputs = {{real({3, 4})}, {real({70})}},
            .saves = Saves::nothing,
            .errors = {{[] { entmax15(tensor(1)); }, "entmax15: [] has no row to normalise"},
                       {[] {
                          entmax15(zeros({2, 3}), 2);
                        },
                        "entmax15: axis 2 does not exist in a tensor of rank 2"}}});
}
