// rotate: pairs of elements turned by angles; and B62, which elements make a pair.
#include "attune/autograd/ops/rotate.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Angle i of place p: some number that is different for each.
double angle(Index p, Index i) { return 0.3 * static_cast<double>(p) - 0.7 * static_cast<double>(i) + 0.1; }

// The cosines or sines of the angles of `places` places and `pairs` pairs.
Tensor table(Index places, Index pairs, DType dtype, double (*f)(double)) {
  Tensor result({places, pairs}, f64);
  for (Index p = 0; p < places; ++p)
    for (Index i = 0; i < pairs; ++i) result.set({p, i}, f(angle(p, i)));
  return result.to(dtype);
}

Var turned(Var x, RotaryPairs pairs) {
  const Var cos = table(x.size(-2), x.size(-1) / 2, x.dtype(), [](double a) { return std::cos(a); });
  const Var sin = table(x.size(-2), x.size(-1) / 2, x.dtype(), [](double a) { return std::sin(a); });
  return rotate(x, cos, sin, pairs);
}

// As products of complex numbers.
Plain reference(const Plain& x, RotaryPairs pairs) {
  Plain y = x;
  const Index half = x.shape[2] / 2;
  for (Index b = 0; b < x.shape[0]; ++b)
    for (Index p = 0; p < x.shape[1]; ++p)
      for (Index i = 0; i < half; ++i) {
        const Index first = pairs == RotaryPairs::half_split ? i : 2 * i;
        const Index second = pairs == RotaryPairs::half_split ? i + half : 2 * i + 1;
        const double c = std::cos(angle(p, i)), s = std::sin(angle(p, i));
        y(b, p, first) = x(b, p, first) * c - x(b, p, second) * s;
        y(b, p, second) = x(b, p, second) * c + x(b, p, first) * s;
      }
  return y;
}

}  // namespace

TEST_CASE("rotate") {
  for (const RotaryPairs pairs : {RotaryPairs::half_split, RotaryPairs::interleaved})
    check_op({.name = "rotate",
              .f = [=](Var x) { return turned(x, pairs); },
              .reference = [=](const Plain& x) { return reference(x, pairs); },
              .inputs = {{real({2, 3, 4})}, {real({1, 1, 2})}, {real({2, 3, 0})}, {real({0, 2, 2})}, {real({17, 33, 70})}},
              .composed = true,
              .errors = {{[] { rotate(zeros({2, 3}), zeros({1}), zeros({1})); },
                          "rotate: rows of [2, 3] do not consist of pairs"},
                         {[] { rotate(zeros({2, 4}), zeros({3}), zeros({3})); },
                          "rotate: cosines [3] and sines [3] do not stretch to [2, 2]"},
                         {[] { rotate(zeros({2, 4}), zeros({2}), zeros({1, 2})); },
                          "rotate: cosines [2] and sines [1, 2] do not stretch to [2, 2]"},
                         {[] { rotate(zeros({2, 4}), variable(zeros({2})), zeros({2})); },
                          "rotate: angles are constants here, and a gradient would be lost"}}});
}

TEST_CASE("rotate: a quarter of a turn, with either pairing") {
  const Tensor x = tensor({1, 2, 3, 4}, f64), none = zeros({2}, f64), one = ones({2}, f64);
  const NoGrad scope;
  CHECK(check_kernels::values(rotate(x, none, one).value()) == std::vector<double>{-3, -4, 1, 2});
  CHECK(check_kernels::values(rotate(x, none, one, RotaryPairs::interleaved).value()) ==
        std::vector<double>{-2, 1, -4, 3});
}
