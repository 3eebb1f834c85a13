// argmax: where the largest along an axis stands.
#include "attune/autograd/ops/argmax.h"

#include <algorithm>
#include <limits>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

double first(const Numbers& numbers) {
  return static_cast<double>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

Numbers places(const Tensor& x, int axis) {
  const NoGrad scope;
  return Plain(argmax(x, axis).value()).numbers;
}

}  // namespace

TEST_CASE("argmax: along each axis") {
  for (int axis : {0, 1, -1})
    for (Axes kind : {Axes::go, Axes::stay})
      check_op({.name = "argmax, axis " + std::to_string(axis) + (kind == Axes::go ? "" : ", kept"),
                .f = [=](Var x) { return argmax(x, axis, kind); },
                .reference = [=](const Plain& x) { return over_axes(x, {axis}, kind, first); },
                .inputs = shapes_of_three_axes(),
                .differentiable = false});
}

TEST_CASE("argmax: i32, and the first of equal ones") {
  const NoGrad scope;
  CHECK(argmax(zeros({3, 4}), 0).dtype() == i32);
  CHECK(places(full({2, 40}, 5), 1) == Numbers{0, 0});
  CHECK(places(tensor({1, 3, 3, 1}), 0) == Numbers{1});
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(places(tensor({-infinity, -infinity}), 0) == Numbers{0});
  CHECK(places(tensor({infinity, infinity}), 0) == Numbers{0});
}

TEST_CASE("argmax: B22, the first NaN, wherever it stands") {
  for (Index n : {1, 7, 8, 9, 15, 16, 17, 33, 64})
    for (Index position = 0; position < n; ++position) {
      Tensor x({2, n});
      for (Index j = position; j < n; j += 5) x.set({0, j}, std::nan(""));
      CHECK(places(x, 1) == Numbers{static_cast<double>(position), 0});
    }
}

TEST_CASE("argmax: what is refused") {
  check_op({.name = "argmax",
            .f = [](Var x) { return argmax(x, 0); },
            .reference = [](const Plain& x) { return over_axes(x, {0}, Axes::go, first); },
            .inputs = {{real({3, 4})}},
            .differentiable = false,
            .errors = {{[] {
                          argmax(zeros({2, 0}), 1);
                        },
                        "argmax: [2, 0] has no element to choose from"},
                       {[] {
                          argmax(zeros({2, 3}), -3);
                        },
                        "argmax: axis -3 does not exist in a tensor of rank 2"}}});
}
