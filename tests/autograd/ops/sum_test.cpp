// sum: over some axes, or over all.
#include "attune/autograd/ops/sum.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"
#include "reduced.h"
#include "../../support/sanitized.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

const Shape kShape{2, 3, 4};

template <int... axes>
void check_axes(const std::string& name, const std::vector<Inputs>& inputs = {{real(kShape)}}) {
  check_op({.name = "sum, " + name,
            .f = [](Var x) { return sum(x, {axes...}); },
            .reference = [](const Plain& x) { return reduced(x, {axes...}, Axes::go, false); },
            .inputs = inputs,
            .saves = Saves::nothing});
  check_op({.name = "sum, " + name + ", kept",
            .f = [](Var x) { return sum(x, {axes...}, Axes::stay); },
            .reference = [](const Plain& x) { return reduced(x, {axes...}, Axes::stay, false); },
            .inputs = inputs,
            .saves = Saves::nothing});
}

}  // namespace

TEST_CASE("sum: of all") { check_axes<>("all", odd_sizes(1)); }

TEST_CASE("sum: over every set of axes") {
  const std::vector<Inputs> several = {
      {real({2, 3, 4})}, {real({1, 17, 33})}, {real({5, 1, 1})}, {real(kSanitized ? Shape{5, 17, 40} : Shape{30, 70, 100})}};
  check_axes<0>("axis 0", several);
  check_axes<1>("axis 1", several);
  check_axes<2>("axis 2", several);
  check_axes<0, 1>("axes 0 and 1", several);
  check_axes<0, 2>("axes 0 and 2", several);
  check_axes<1, 2>("axes 1 and 2", several);
  check_axes<0, 1, 2>("each axis", several);
  check_axes<-1>("the last");
  check_axes<-1, 0>("the last and the first");
  check_axes<-2>("the last but one");
}

TEST_CASE("sum: over an axis without elements") {
  check_axes<1>("nothing", {{real({2, 0, 3})}, {real({0, 4, 3})}, {real({0, 0, 0})}});
  const Tensor nothing({2, 0}, f64);
  const NoGrad scope;
  CHECK(Plain(sum(Var(nothing), {1}).value()).numbers == std::vector<double>{0, 0});
}

TEST_CASE("sum: what is refused") {
  check_op({.name = "sum",
            .f = [](Var x) { return sum(x); },
            .reference = [](const Plain& x) { return reduced(x, {}, Axes::go, false); },
            .inputs = {{real({3, 4})}},
            .saves = Saves::nothing,
            .errors = {{[] {
                          sum(zeros({2, 3}), {2});
                        },
                        "sum: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          sum(zeros({2, 3}), {-3});
                        },
                        "sum: axis -3 does not exist in a tensor of rank 2"},
                       {[] {
                          sum(zeros({2, 3}), {1, -1});
                        },
                        "sum: axis -1 of [2, 3] is named twice"},
                       {[] { sum(zeros({}), {0}); }, "sum: axis 0 does not exist in a tensor of rank 0"}}});
}

TEST_CASE("sum: B22, NaN anywhere makes its sum NaN, and no other") {
  check_nan_spreads([](Var x) { return sum(x, {1}); });
}

TEST_CASE("sum: B33, ten million numbers in f32") {
  const Tensor line = full({10'000'000}, 0.1f), columns = full({10'000'000, 2}, 0.1f);
  const NoGrad scope;
  CHECK(sum(Var(line)).item() == doctest::Approx(1000000.0149).epsilon(1e-5));
  const Var y = sum(Var(columns), {0});
  CHECK(y.value().at({0}) == doctest::Approx(1000000.0149).epsilon(1e-5));
  CHECK(y.value().at({0}) == y.value().at({1}));
}

TEST_CASE("sum: B34, a million numbers have one sum every time, on any number of threads") {
  const int before = threads();
  const Tensor x = check_kernels::random({1'000'000}, f32, 1);
  const NoGrad scope;
  const double first = sum(Var(x)).item();
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    for (int repeat = 0; repeat < 20; ++repeat) CHECK(sum(Var(x)).item() == first);
  }
  set_threads(before);
}
