// softmax over the last axis, whole and causal.
#include "attune/autograd/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../support/op_check.h"
#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;
using kernels::Visible;

namespace {

// Rows of exponentials, divided by their sum; of the rows of a matrix, row i sees the first i + 1 + shift.
Plain reference(const Plain& x, const Visible& visible) {
  const Index width = x.shape.last(), height = x.shape.rank() > 1 ? x.shape.last(1) : 1;
  Plain y(x.shape);
  for (std::size_t row = 0; row * static_cast<std::size_t>(width) < x.numbers.size(); ++row) {
    const Index i = static_cast<Index>(row) % height;
    const Index seen = visible.all ? width : std::clamp<Index>(i + 1 + visible.shift, 0, width);
    const std::size_t start = row * static_cast<std::size_t>(width);
    double total = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(seen); ++j) total += std::exp(x.numbers[start + j]);
    for (std::size_t j = 0; j < static_cast<std::size_t>(seen); ++j)
      y.numbers[start + j] = std::exp(x.numbers[start + j]) / total;
  }
  return y;
}

std::vector<double> softmax_of(const Nested& numbers) {
  const NoGrad scope;
  return Plain(softmax(tensor(numbers)).value()).numbers;
}

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("softmax") {
  check_op({.name = "softmax",
            .f = [](Var x) { return softmax(x); },
            .reference = [](const Plain& x) { return reference(x, {}); },
            .inputs = {{real({3, 5})},
                       {real({1})},
                       {real({4, 1})},
                       {real({0})},
                       {real({3, 0})},
                       {real({0, 4})},
                       {real({2, 3, 15})},
                       {real({16})},
                       {real({2, 1, 17})},
                       {real({33, 2})},
                       {real({2, 1, 3, 1, 2, 7})},
                       {real({4, 60, 131})},
                       {real({2, 1025})}},
            .saves = Saves::nothing,
            .errors = {{[] { softmax(tensor(1)); }, "softmax: [] has no row to normalise"},
                       {[] {
                          softmax(zeros({3}), Visible{false, 0});
                        },
                        "softmax: [3] has no row to normalise"}}});
}

TEST_CASE("softmax: causal") {
  for (Index shift : {0, 3, -2})
    check_op({.name = "softmax, causal " + std::to_string(shift),
              .f =
                  [=](Var x) {
                    return softmax(x, Visible{false, shift});
                  },
              .reference =
                  [=](const Plain& x) {
                    return reference(x, Visible{false, shift});
                  },
              .inputs = {{real({3, 5})},
                         {real({5, 5})},
                         {real({1, 1})},
                         {real({2, 17, 17})},
                         {real({2, 3, 9, 33})},
                         {real({3, 64, 130})}},
              .saves = Saves::nothing});
}

TEST_CASE("softmax: B20, huge logits") {
  const auto close = [](const std::vector<double>& found, const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  };
  close(softmax_of({1e4, 9999}), {0.731058579, 0.268941421});
  close(softmax_of({3e38, -3e38}), {1, 0});
  close(softmax_of({-3e38, -3e38, -3e38}), {1.0 / 3, 1.0 / 3, 1.0 / 3});
  close(softmax_of({0}), {1});
  for (double p : softmax_of({kInf, 0})) CHECK(std::isnan(p));
}

TEST_CASE("softmax: B20, gradients of huge logits") {
  const Tensor x = tensor({{1e4, 9999, -3e38}, {3e38, -3e38, 0}}), seed = tensor({{1, 2, 3}, {1, 2, 3}});
  Tape tape;
  const Var leaf = variable(x), y = softmax(leaf);
  tape.backward(y, seed);
  const double share = 0.731058579 * 0.268941421;
  CHECK(leaf.grad().at({0, 0}) == doctest::Approx(-share).epsilon(1e-4));
  CHECK(leaf.grad().at({0, 1}) == doctest::Approx(share).epsilon(1e-4));
  CHECK(leaf.grad().at({0, 2}) == 0);
  for (Index j = 0; j < 3; ++j) CHECK(leaf.grad().at({1, j}) == 0);
}

TEST_CASE("softmax: B22, NaN anywhere makes its row NaN, and no other") {
  check_nan_spreads([](Var x) { return softmax(x); });
}

TEST_CASE("softmax: B31, over an axis that is not the last") {
  for (int axis : {0, 1, 2, -2})
    check_op({.name = "softmax, axis " + std::to_string(axis),
              .f = [=](Var x) { return softmax(x, axis); },
              .reference =
                  [=](const Plain& x) {
                    return along_axis(x, axis, [](const Numbers& line) {
                      Numbers y;
                      for (double number : line) y.push_back(std::exp(number));
                      const double total = sum_of(y);
                      for (double& number : y) number /= total;
                      return y;
                    });
                  },
              .inputs = {{real({2, 5, 3})}, {real({1, 17, 16})}, {real({3, 1, 4})}, {real({9, 40, 70})}},
              .saves = Saves::nothing});
  const Tensor x = zeros({2, 3, 4});
  const NoGrad scope;
  CHECK_THROWS_WITH_AS(softmax(x, 3), "softmax: axis 3 does not exist in a tensor of rank 3", std::invalid_argument);
}

TEST_CASE("softmax: a known gradient") {
  const Tensor x = tensor({0.1, 0.9}, f64), seed = tensor({1, 2}, f64);
  Tape tape;
  const Var leaf = variable(x);
  tape.backward(softmax(leaf), seed);
  CHECK(leaf.grad().at({0}) == doctest::Approx(-0.213909697).epsilon(1e-8));
  CHECK(leaf.grad().at({1}) == doctest::Approx(0.213909697).epsilon(1e-8));
}
