// logsumexp: over some axes, or over all.
#include "attune/autograd/ops/logsumexp.h"

#include <cmath>
#include <limits>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double definition(const Numbers& numbers) {
  double total = 0;
  for (double number : numbers) total += std::exp(number);
  return std::log(total);
}

template <int... axes>
void check_axes(const std::string& name, const std::vector<Inputs>& inputs = shapes_of_three_axes()) {
  for (Axes kind : {Axes::go, Axes::stay})
    check_op({.name = "logsumexp, " + name + (kind == Axes::go ? "" : ", kept"),
              .f = [=](Var x) { return logsumexp(x, {axes...}, kind); },
              .reference = [=](const Plain& x) { return over_axes(x, {axes...}, kind, definition); },
              .inputs = inputs});
}

struct Both {
  Numbers y, dx;
};
Both of(const Tensor& numbers) {
  Tape tape;
  const Var x = variable(numbers), y = logsumexp(x, -1);
  tape.backward(y, ones(y.shape(), numbers.dtype()));
  return {Plain(y.value()).numbers, Plain(x.grad()).numbers};
}

}  // namespace

TEST_CASE("logsumexp: over sets of axes") {
  // Of more, each share is below what differences can tell.
  check_axes<>("all", {{real({2, 3, 4})}, {real({1, 17, 33})}, {real({5, 1, 1})}});
  check_axes<0>("axis 0");
  check_axes<1>("axis 1");
  check_axes<-1>("the last");
  check_axes<2, 0>("axes 2 and 0");
}

TEST_CASE("logsumexp: B20, huge values") {
  for (DType dtype : {f32, f64}) {
    CHECK(of(tensor({1e4, 1e4}, dtype)).y[0] == doctest::Approx(10000.693147).epsilon(1e-7));
    CHECK(of(tensor({88.5, 88.5}, dtype)).y[0] == doctest::Approx(89.193147).epsilon(1e-7));
    CHECK(of(tensor({-1000, -1000}, dtype)).y[0] == doctest::Approx(-999.306853).epsilon(1e-7));
    CHECK(of(tensor({3e38, -3e38}, dtype)).y[0] == doctest::Approx(3e38));
  }
  // The gradient is as exact as that of small values, although the result has lost three digits.
  CHECK(of(tensor({1e4, 9999})).dx[0] == doctest::Approx(0.731058579).epsilon(1e-6));
}

TEST_CASE("logsumexp: -inf takes no part, and a row of nothing else is -inf with the gradient 0") {
  const Both some = of(tensor({{0, -kInf, 0}, {-kInf, -kInf, -kInf}}));
  CHECK(some.y[0] == doctest::Approx(std::log(2)));
  CHECK(some.y[1] == -kInf);
  CHECK(some.dx == Numbers{0.5, 0, 0.5, 0, 0, 0});
  CHECK(of(Tensor({2, 0})).y == Numbers{-kInf, -kInf});
}

TEST_CASE("logsumexp: in dual, too, -inf takes no part") {
  Tensor numbers({2, 2}, DType::dual);
  const dual values[] = {{-kInf, 1}, {-kInf, 2}, {-kInf, 3}, {4, 5}};
  std::copy(values, values + 4, numbers.data<dual>().begin());
  Tape tape;
  const Var x = variable(numbers), y = logsumexp(x, 1);
  tape.backward(y, ones({2}, DType::dual));
  CHECK(y.value().select(0, 0).as<dual>()->value == -kInf);
  CHECK(y.value().select(0, 0).as<dual>()->tangent == 0);
  CHECK(y.value().select(0, 1).as<dual>()->tangent == 5);
  const Tensor gradient = Tensor::copy_of(x.grad());
  const double expected[] = {0, 0, 0, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(gradient.data<dual>()[i].value == expected[i]);
    CHECK(gradient.data<dual>()[i].tangent == 0);
  }
}

TEST_CASE("logsumexp: +inf is +inf, and its own gradient NaN") {
  const Both found = of(tensor({1, kInf, 2}));
  CHECK(found.y[0] == kInf);
  CHECK(found.dx[0] == 0);
  CHECK(std::isnan(found.dx[1]));
  CHECK(found.dx[2] == 0);
}

TEST_CASE("logsumexp: B22, NaN anywhere makes its row NaN, and no other") {
  check_nan_spreads([](Var x) { return logsumexp(x, 1); });
}

TEST_CASE("logsumexp: what is refused") {
  check_op({.name = "logsumexp",
            .f = [](Var x) { return logsumexp(x); },
            .reference = [](const Plain& x) { return over_axes(x, {}, Axes::go, definition); },
            .inputs = {{real({3, 4})}, {real({})}, {real({33})}},
            .errors = {{[] {
                          logsumexp(zeros({2, 3}), 2);
                        },
                        "logsumexp: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          logsumexp(zeros({2, 3}), {1, 1});
                        },
                        "logsumexp: axis 1 of [2, 3] is named twice"}}});
}
