// max: the largest over some axes, or over all.
#include "attune/autograd/ops/max.h"

#include <algorithm>
#include <limits>

#include "attune/autograd/ops/mul.h"
#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double largest(const Numbers& numbers) { return *std::max_element(numbers.begin(), numbers.end()); }

// Larger ones: tests/lib/extremes_test.cpp.
const std::vector<Inputs> kShapes = {
    {apart({2, 3, 4})}, {apart({1, 5, 33})}, {apart({5, 1, 1})}, {apart({3, 4, 17})}};

template <int... axes>
void check_axes(const std::string& name, const std::vector<Inputs>& inputs) {
  for (Axes kind : {Axes::go, Axes::stay})
    check_op({.name = "max, " + name + (kind == Axes::go ? "" : ", kept"),
              .f = [=](Var x) { return max(x, {axes...}, kind); },
              .reference = [=](const Plain& x) { return over_axes(x, {axes...}, kind, largest); },
              .inputs = inputs});
}

Numbers gradient_of(const Tensor& numbers, const AxisList& axes = {}) {
  Tape tape;
  const Var x = variable(numbers), y = max(x, axes);
  tape.backward(y, ones(y.shape(), numbers.dtype()));
  return Plain(x.grad()).numbers;
}

}  // namespace

TEST_CASE("max: of all") {
  check_axes<>("all", {{apart({})},
                       {apart({1})},
                       {apart({15})},
                       {apart({16})},
                       {apart({17})},
                       {apart({3, 1, 33})},
                       {apart({2, 1, 3, 1, 2, 5})}});
}

TEST_CASE("max: over sets of axes") {
  check_axes<0>("axis 0", kShapes);
  check_axes<1>("axis 1", kShapes);
  check_axes<-1>("the last", kShapes);
  check_axes<0, 2>("axes 0 and 2", kShapes);
  check_axes<2, 1>("axes 2 and 1", kShapes);
}

TEST_CASE("max: equal ones share the gradient evenly") {
  CHECK(gradient_of(tensor({3, 1, 3, 2, 3, 3})) == Numbers{0.25, 0, 0.25, 0, 0.25, 0.25});
  CHECK(gradient_of(full({2, 17}, 7, f64), 1) == Numbers(34, 1.0 / 17));
  CHECK(gradient_of(tensor({0, -0.0})) == Numbers{0.5, 0.5});
}

TEST_CASE("max: forward mode moves equal ones together, as reverse mode shares") {
  Tensor numbers({3}, DType::dual);
  const dual values[] = {{2, 1}, {5, 10}, {5, 30}};
  std::copy(values, values + 3, numbers.data<dual>().begin());
  Tape tape;
  const Var x = variable(numbers), y = max(x);
  CHECK(y.value().as<dual>()->value == 5);
  CHECK(y.value().as<dual>()->tangent == 20);
}

TEST_CASE("max: infinities, and a NaN whose gradient is its own") {
  const double infinity = std::numeric_limits<double>::infinity();
  const NoGrad scope;
  CHECK(max(tensor({-infinity, -infinity})).item() == -infinity);
  CHECK(max(tensor({1, infinity, 3})).item() == infinity);
  CHECK(gradient_of(tensor({{1, kNan, 3}, {kNan, 9, kNan}}), 1) == Numbers{0, 1, 0, 0.5, 0, 0.5});
}

TEST_CASE("max: B22, NaN anywhere makes its maximum NaN, and no other") {
  check_nan_spreads([](Var x) { return max(x, 1); });
}

TEST_CASE("max: axes as a number, a list or a vector") {
  const Tensor x = tensor({{1, 2}, {4, 3}});
  const NoGrad scope;
  const std::vector<int> both = {0, 1};
  CHECK(Plain(max(x, 0).value()).numbers == Numbers{4, 3});
  CHECK(Plain(max(x, {1}).value()).numbers == Numbers{2, 4});
  CHECK(max(x, both).item() == 4);
}

TEST_CASE("max: what is refused") {
  check_op({.name = "max",
            .f = [](Var x) { return max(x); },
            .reference = [](const Plain& x) { return over_axes(x, {}, Axes::go, largest); },
            .inputs = {{apart({3, 4})}},
            .errors = {{[] {
                          max(zeros({2, 0}), 1);
                        },
                        "max: [2, 0] has no element to choose from"},
                       {[] { max(zeros({0})); }, "max: [0] has no element to choose from"},
                       {[] {
                          max(zeros({2, 3}), 2);
                        },
                        "max: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          max(zeros({2, 3}), {0, -2});
                        },
                        "max: axis -2 of [2, 3] is named twice"}}});
}
