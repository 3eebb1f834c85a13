// map_each: kernels from lambdas.
#include "attune/lib/kernels/map_each.h"

#include <xmmintrin.h>

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

TEST_CASE("map_each: one, two and three operands, in every layout, and added to what is there") {
  for (DType dtype : {f32, f64, DType::dual}) {
    const Tensor a = random({3, 4, 5}, dtype, 1), b = random({4, 1}, dtype, 2), c = random({}, dtype, 3);
    Tensor sum(a.shape(), dtype), product(a.shape(), dtype);
    kernels::add(sum, a, b);
    kernels::multiply(product, a, b);
    for (int layout = 0; layout < kLayouts; ++layout) {
      const Arranged from = arrange(a, layout), to = arrange(a, layout);
      CAPTURE(from.name);
      kernels::map_each(to.view, from.view, [](auto x) { return x; });
      CHECK(same_bits(to.view, a));
      kernels::map_each(to.view, from.view, b, [](auto x, auto y) { return x + y; });
      CHECK(same_bits(to.view, sum));
      kernels::map_each(to.view, from.view, b, c, [](auto x, auto y, auto z) { return x * z + y; });
      Tensor expected(a.shape(), dtype);
      kernels::multiply(expected, a, c);
      kernels::add(expected, expected, b);
      CHECK(values(to.view) == values(expected));
      kernels::map_each(Out(to.view, true), from.view, b, [](auto x, auto y) { return x * y; });
      kernels::add(expected, expected, product);
      check_close(to.view, values(expected), 1e-6, 1e-6);
    }
  }
}

TEST_CASE("map_each: nothing, and an output that nobody wants") {
  Tensor none({0, 3});
  kernels::map_each(none, none, [](auto x) { return x; });
  kernels::map_each(Out(), none, [](auto x) { return x; });
}

TEST_CASE("map_each: f32 flushes denormals, whatever the caller has set") {
  const Tensor small = tensor({1e-30f});
  Tensor y({1});
  const unsigned before = _mm_getcsr();
  kernels::map_each(y, small, [](auto x) { return x * 1e-10f; });
  CHECK(y.at({0}) == 0);
  CHECK((_mm_getcsr() & ~0x3fu) == (before & ~0x3fu));
}

TEST_CASE("map_each: errors") {
  Tensor y({2, 3}), ids({2, 3}, i32);
  const Tensor wide({2, 3}, f64), longer({4});
  const auto same = [](auto x) { return x; };
  CHECK_THROWS_WITH_AS(kernels::map_each(y, wide, same), "map_each: element types f32 and f64 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::map_each(y, longer, same), "map_each: [4] does not stretch to [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::map_each(ids, ids, same), "map_each: i32 has no arithmetic",
                       std::invalid_argument);
}

TEST_CASE("dual: arithmetic carries the derivative along") {
  const dual x{3, 1}, y{2, -0.5};
  const auto is = [](dual a, double value, double tangent) {
    return a.value == value && a.tangent == tangent;
  };
  CHECK(is(x + y, 5, 0.5));
  CHECK(is(x - y, 1, 1.5));
  CHECK(is(x * y, 6, 0.5));
  CHECK(is(x / y, 1.5, 0.875));
  CHECK(is(-x, -3, -1));
  CHECK(is(x + 1, 4, 1));
  CHECK(is(1 + x, 4, 1));
  CHECK(is(x - 1, 2, 1));
  CHECK(is(1 - x, -2, -1));
  CHECK(is(x * 2, 6, 2));
  CHECK(is(2 * x, 6, 2));
  CHECK(is(x / 2, 1.5, 0.5));
  CHECK(is(6 / y, 3, 0.75));
  dual z = x;
  z += y, z -= y, z *= y, z /= y;
  CHECK(is(z, 3, 1));
  CHECK((x > y && y < x && x >= y && y <= x && !(x == y)));
  CHECK((x > 2 && x >= 3 && x < 4 && x <= 3 && x == 3 && 2 < x && 3 <= x && 4 > x && 3 >= x));
}

TEST_CASE("dual: the functions of math.h carry it too") {
  const double x = 0.75, t = 2;
  const auto check = [&](dual y, double value, double slope) {
    CHECK(y.value == doctest::Approx(value).epsilon(1e-14));
    CHECK(y.tangent == doctest::Approx(t * slope).epsilon(1e-14));
  };
  const dual d{x, t};
  const double s = 1 / (1 + std::exp(-x));
  check(math::exp(d), std::exp(x), std::exp(x));
  check(math::expm1(d), std::expm1(x), std::exp(x));
  check(math::log(d), std::log(x), 1 / x);
  check(math::log1p(d), std::log1p(x), 1 / (1 + x));
  check(math::sqrt(d), std::sqrt(x), 0.5 / std::sqrt(x));
  check(math::pow(d, 3), x * x * x, 3 * x * x);
  check(math::pow(dual{3, 0}, d), std::pow(3, x), std::pow(3, x) * std::log(3));
  check(math::erf(d), std::erf(x), 1.1283791670955126 * std::exp(-x * x));
  check(math::sin(d), std::sin(x), std::cos(x));
  check(math::cos(d), std::cos(x), -std::sin(x));
  check(math::tanh(d), std::tanh(x), 1 - std::tanh(x) * std::tanh(x));
  check(math::sigmoid(d), s, s * (1 - s));
  check(math::softplus(d), std::log1p(std::exp(x)), s);
}
