// rms_norm: each row over its root mean square.
#include "attune/autograd/ops/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& weight, double epsilon) {
  return along_axis(x, -1, [&](const Numbers& row) {
    double square = 0;
    for (double number : row) square += number * number;
    const double root = std::sqrt(square / static_cast<double>(row.size()) + epsilon);
    Numbers y;
    for (std::size_t j = 0; j < row.size(); ++j)
      y.push_back(row[j] / root * (weight.numbers.empty() ? 1 : weight.numbers[j]));
    return y;
  });
}

Inputs rows(const Shape& x) { return {real(x), real({x.last()}, 0.5, 2)}; }

}  // namespace

TEST_CASE("rms_norm") {
  check_op(
      {.name = "rms_norm",
       .f = [](Var x, Var weight) { return rms_norm(x, weight); },
       .reference = [](const Plain& x, const Plain& w) { return reference(x, w, 1e-6); },
       .inputs = {rows({3, 5}), rows({7}), rows({2, 3, 15}), rows({4, 16}), rows({2, 1, 17}), rows({1, 33}),
                  rows({0, 4}), rows({2, 1, 3, 1, 2, 7}), rows({70, 9}), rows({4, 70, 130})},
       .errors = {{[] { rms_norm(tensor(1), zeros({1})); }, "rms_norm: [] has no row to normalise"},
                  {[] {
                     rms_norm(zeros({3, 0}), zeros({0}));
                   },
                   "rms_norm: [3, 0] has no row to normalise"},
                  {[] {
                     rms_norm(zeros({3, 4}), zeros({3}));
                   },
                   "rms_norm: weight [3] does not fit rows of [3, 4]"},
                  {[] {
                     rms_norm(zeros({3, 4}), zeros({4}), -1);
                   },
                   "rms_norm: an epsilon of -1 is negative"}}});
}

TEST_CASE("rms_norm: the epsilon is under the root") {
  check_op({.name = "rms_norm, epsilon 0.5",
            .f = [](Var x, Var weight) { return rms_norm(x, weight, 0.5); },
            .reference = [](const Plain& x, const Plain& w) { return reference(x, w, 0.5); },
            .inputs = {rows({3, 5}), rows({2, 3, 17})}});
}

TEST_CASE("rms_norm: without a weight") {
  check_op({.name = "rms_norm, no weight",
            .f = [](Var x) { return rms_norm(x, 1e-5); },
            .reference = [](const Plain& x) { return reference(x, Plain(Shape{0}), 1e-5); },
            .inputs = {{real({3, 5})}, {real({2, 3, 17})}},
            .errors = {{[] { rms_norm(tensor(1)); }, "rms_norm: [] has no row to normalise"}}});
}

TEST_CASE("rms_norm: a row of zeros stays, with a finite gradient") {
  const Tensor numbers({1, 4}), weight = ones({4});
  Tape tape;
  const Var x = variable(numbers), w = variable(weight), y = rms_norm(x, w);
  tape.backward(y, ones({1, 4}));
  CHECK(Plain(y.value()).numbers == Numbers(4, 0));
  for (double d : Plain(x.grad()).numbers) CHECK(d == doctest::Approx(1000));
}

TEST_CASE("rms_norm: B22, NaN anywhere makes its row NaN, and no other") {
  check_nan_spreads([](Var x) { return rms_norm(x); });
}

TEST_CASE("rms_norm: rows whose squares overflow are zeros, those just below are right") {
  const NoGrad scope;
  const auto largest = [](double size, DType dtype) {
    const Plain y(rms_norm(tensor({size, -size}, dtype)).value());
    return std::max(std::abs(y.numbers[0]), std::abs(y.numbers[1]));
  };
  const double right = largest(1, f64);
  for (const auto& [size, dtype] : {std::pair(1e19, f32), {1e153, f64}}) {
    CHECK(largest(size, dtype) == doctest::Approx(right).epsilon(1e-4));
    CHECK(largest(10 * size, dtype) == 0);
  }
}
