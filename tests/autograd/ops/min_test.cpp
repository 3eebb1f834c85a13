// min: the smallest over some axes, or over all.
#include "attune/autograd/ops/min.h"

#include <algorithm>
#include <limits>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

double smallest(const Numbers& numbers) { return *std::min_element(numbers.begin(), numbers.end()); }

// Larger ones: tests/lib/extremes_test.cpp.
const std::vector<Inputs> kShapes = {
    {apart({2, 3, 4})}, {apart({1, 5, 33})}, {apart({5, 1, 1})}, {apart({3, 4, 17})}};

template <int... axes>
void check_axes(const std::string& name) {
  for (Axes kind : {Axes::go, Axes::stay})
    check_op({.name = "min, " + name + (kind == Axes::go ? "" : ", kept"),
              .f = [=](Var x) { return min(x, {axes...}, kind); },
              .reference = [=](const Plain& x) { return over_axes(x, {axes...}, kind, smallest); },
              .inputs = kShapes});
}

}  // namespace

TEST_CASE("min: over sets of axes") {
  check_axes<>("all");
  check_axes<0>("axis 0");
  check_axes<-1>("the last");
  check_axes<0, 2>("axes 0 and 2");
}

TEST_CASE("min: equal ones share the gradient evenly") {
  const Tensor numbers = tensor({{1, 2, 1}, {-3, 4, 5}});
  Tape tape;
  const Var x = variable(numbers), y = min(x, 1);
  tape.backward(y, tensor({4, 3}));
  CHECK(Plain(y.value()).numbers == Numbers{1, -3});
  CHECK(Plain(x.grad()).numbers == Numbers{2, 0, 2, 3, 0, 0});
}

TEST_CASE("min: of infinities") {
  const double infinity = std::numeric_limits<double>::infinity();
  const NoGrad scope;
  CHECK(min(tensor({infinity, infinity})).item() == infinity);
  CHECK(min(tensor({1, -infinity, 3})).item() == -infinity);
}

TEST_CASE("min: B22, NaN anywhere makes its minimum NaN, and no other") {
  check_nan_spreads([](Var x) { return min(x, 1); });
}

TEST_CASE("min: what is refused") {
  check_op({.name = "min",
            .f = [](Var x) { return min(x); },
            .reference = [](const Plain& x) { return over_axes(x, {}, Axes::go, smallest); },
            .inputs = {{apart({3, 4})}},
            .errors = {{[] {
                          min(zeros({2, 0}), 1);
                        },
                        "min: [2, 0] has no element to choose from"},
                       {[] {
                          min(zeros({2, 3}), 2);
                        },
                        "min: axis 2 does not exist in a tensor of rank 2"}}});
}
