// l2_normalize: each row over its length.
#include "attune/autograd/ops/l2_normalize.h"

#include <algorithm>
#include <cmath>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, double epsilon) {
  return along_axis(x, -1, [=](const Numbers& row) {
    double squares = epsilon;
    for (double number : row) squares += number * number;
    Numbers y;
    for (double number : row) y.push_back(number / std::sqrt(squares));
    return y;
  });
}

}  // namespace

TEST_CASE("l2_normalize") {
  check_op(
      {.name = "l2_normalize",
       .f = [](Var x) { return l2_normalize(x); },
       .reference = [](const Plain& x) { return reference(x, 1e-24); },
       .inputs = {{real({3, 5})},
                  {real({7})},
                  {real({2, 3, 15})},
                  {real({2, 1, 17})},
                  {real({1, 33})},
                  {real({0, 4})}},
       .errors = {{[] { l2_normalize(tensor(1)); }, "l2_normalize: [] has no row to normalise"},
                  {[] {
                     l2_normalize(zeros({3, 0}));
                   },
                   "l2_normalize: [3, 0] has no row to normalise"},
                  {[] { l2_normalize(zeros({3}), -1); }, "l2_normalize: an epsilon of -1 is negative"}}});
}

TEST_CASE("l2_normalize: with an epsilon, and rows of zeros") {
  check_op({.name = "l2_normalize, epsilon 0.5",
            .f = [](Var x) { return l2_normalize(x, 0.5); },
            .reference = [](const Plain& x) { return reference(x, 0.5); },
            .inputs = {{real({3, 5})}, {real({2, 3, 17})}}});
  Tape tape;
  const Var x = variable(zeros({2, 3}));
  const Var y = l2_normalize(x);
  tape.backward(y, ones({2, 3}));
  for (double number : Plain(y.value()).numbers) CHECK(number == 0);
  for (double number : Plain(x.grad()).numbers) CHECK(std::isfinite(number));
}

TEST_CASE("l2_normalize: rows whose squares overflow are zeros, those just below are right") {
  const NoGrad scope;
  const auto largest = [](double size, DType dtype) {
    const Plain y(l2_normalize(tensor({size, -size}, dtype)).value());
    return std::max(std::abs(y.numbers[0]), std::abs(y.numbers[1]));
  };
  const double right = largest(1, f64);
  for (const auto& [size, dtype] : {std::pair(1e19, f32), {1e153, f64}}) {
    CHECK(largest(size, dtype) == doctest::Approx(right).epsilon(1e-4));
    CHECK(largest(10 * size, dtype) == 0);
  }
}
