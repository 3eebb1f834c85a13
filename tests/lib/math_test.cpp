// The elementary functions, on every row of the kernel table that this machine runs.
#include "attune/lib/math.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "attune/lib/kernels/run.h"

namespace {

using namespace attune;
using kernels::Table;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Function {
  const char* name;
  kernels::Bodies Table::*bodies;
  long double (*of)(long double);
  double f32_ulp, f64_ulp;  // the bounds
};

const Function kFunctions[] = {
    {"exp", &Table::exp, std::exp, 1, 1},
    {"log", &Table::log, std::log, 1, 1},
    {"erf", &Table::erf, std::erf, 1.5, 1.5},
    {"sin", &Table::sin, std::sin, 1, 1},
    {"cos", &Table::cos, std::cos, 1, 1},
    {"tanh", &Table::tanh, std::tanh, 2, 2},
    {"gelu", &Table::gelu,
     [](long double x) { return x * std::erfc(-x / std::numbers::sqrt2_v<long double>) / 2; }, 6, 7},
    {"expm1", &Table::expm1, std::expm1, 1.6, 1.6},
    {"log1p", &Table::log1p, std::log1p, 1, 1},
    {"sigmoid", &Table::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, 1.6, 1.6},
    {"softplus", &Table::softplus,
     [](long double x) { return std::fmax(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); }, 1.6, 1.6},
    {"silu", &Table::swish, [](long double x) { return x / (1 + std::exp(-x)); }, 1.6, 1.6},
    {"x^x", &Table::power, [](long double x) { return std::pow(x, x); }, 0.6, 1.6},
};

// Those of two or three operands get x for each, and those with numbers get these: swish is silu then.
constexpr double kParameters[] = {1, 0};

// Runs f for each supported row, and puts back the row that was in use.
template <class F>
void on_each_row(F&& f) {
  const std::string before(row());
  for (const std::string& name : supported_rows()) {
    CAPTURE(name);
    set_row(name);
    f();
  }
  set_row(before);
}

// y = f(x), or y += f(x), over n elements that stand `stride` apart in x and y.
template <class T>
void evaluate(kernels::Bodies Table::*bodies, std::vector<T>& y, const std::vector<T>& x, Index n,
              Index stride = 1, bool accumulate = false) {
  kernels::MapArguments m{};
  m.inner_size = n;
  m.data[0] = y.data();
  m.data[1] = m.data[2] = m.data[3] = const_cast<T*>(x.data());
  for (Index& each : m.inner_strides) each = stride;
  std::copy(std::begin(kParameters), std::end(kParameters), m.parameters);
  m.accumulate = accumulate;
  const kernels::DenormalMode mode(dtype_of<T>);
  kernels::body_of(kernels::table().*bodies, dtype_of<T>)(&m, 0,
                                                          (n + kernels::kMapBlock - 1) / kernels::kMapBlock);
}

template <class T>
std::vector<T> evaluate(kernels::Bodies Table::*bodies, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  evaluate(bodies, y, x, static_cast<Index>(x.size()));
  return y;
}

template <class T>
T one(kernels::Bodies Table::*bodies, T x) {
  return evaluate(bodies, std::vector<T>{x}).front();
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
bool same(dual a, dual b) { return same(a.value, b.value) && same(a.tangent, b.tangent); }

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return a.size() == b.size();
}

// Ordinary numbers, numbers of any exponent, and the special ones, in an order that changes with the seed.
template <class T>
std::vector<T> inputs(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  const double special[] = {0.0,      -0.0,   kInfinity, -kInfinity, kNan, 1,    -1,
                            88.72283, 709.78, -87.34,    -745,       1e30, -1e30};
  std::vector<T> x(n);
  for (T& each : x) {
    const std::uint64_t bits = random();
    double v = static_cast<double>(bits >> 11) * 0x1p-53 * 20 - 10;
    if (bits % 4 == 1) v = std::ldexp(v, static_cast<int>(bits / 4 % 200) - 100);
    if (bits % 4 == 2) v = special[bits / 4 % std::size(special)];
    if constexpr (std::is_same_v<T, dual>)
      each = {v, static_cast<double>(bits % 7) - 3};
    else
      each = static_cast<T>(v);
  }
  return x;
}

template <class T>
double ulp_error(T got, long double want) {
  int exponent;
  std::frexp(static_cast<T>(want), &exponent);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) /
                             std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

}  // namespace

TEST_CASE("B23: exp: special values, in vector lanes and in tails") {
  struct {
    float x, y;
  } const cases[] = {{-INFINITY, 0},
                     {NAN, NAN},
                     {INFINITY, INFINITY},
                     {0.0f, 1},
                     {-0.0f, 1},
                     {89, INFINITY},
                     {-104, 0},
                     {-103, 0},
                     {-87, 1.6458115e-38f},
                     {-20, 2.0611537e-9f},
                     {-0.5f, 0.60653067f},
                     {1, 2.7182817f},
                     {4.7475004f, 115.29573f},
                     {20, 4.85165195e8f},
                     {88, 1.6516363e38f},
                     {88.72283f, 3.4027985e38f},
                     {88.72284f, INFINITY}};
  on_each_row([&] {
    for (std::size_t n = 1; n <= 33; ++n)
      for (std::size_t shift = 0; shift < std::size(cases); ++shift) {
        std::vector<float> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = cases[(i + shift) % std::size(cases)].x;
        const std::vector<float> y = evaluate(&Table::exp, x);
        for (std::size_t i = 0; i < n; ++i) {
          const float want = cases[(i + shift) % std::size(cases)].y;
          const bool exact = want == 0 || std::isinf(want) || std::isnan(want);
          const bool right = exact ? same(y[i], want) : std::abs(y[i] - want) <= 1.2e-7f * want;
          if (!right) FAIL("exp(", x[i], ") = ", y[i], " at lane ", i, " of ", n);
        }
      }
  });
}

TEST_CASE("B23: exp: relative error on [-87, 88]") {
  std::vector<float> x(200000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = -87.0f + 175.0f * static_cast<float>(i) / static_cast<float>(x.size() - 1);
  on_each_row([&] {
    const std::vector<float> y = evaluate(&Table::exp, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - want) / want);
    }
    CHECK(worst <= 1.2e-7);
  });
}

TEST_CASE_TEMPLATE("limits, infinities and NaN", T, float, double) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  on_each_row([&] {
    for (const Function& f : kFunctions) {
      CAPTURE(f.name);
      CHECK(std::isnan(one(f.bodies, nan)));
      CHECK(std::isnan(one(f.bodies, -nan)));
    }
    CHECK(same(one(&Table::exp, -infinity), T{0}));
    CHECK(one(&Table::exp, infinity) == infinity);
    CHECK(same(one(&Table::log, T{1}), T{0}));
    CHECK(one(&Table::log, T{0}) == -infinity);
    CHECK(one(&Table::log, T{-0.0}) == -infinity);
    CHECK(one(&Table::log, infinity) == infinity);
    CHECK(std::isnan(one(&Table::log, T{-1})));
    CHECK(std::isnan(one(&Table::log, -infinity)));
    CHECK(one(&Table::erf, infinity) == 1);
    CHECK(one(&Table::erf, -infinity) == -1);
    CHECK(one(&Table::tanh, infinity) == 1);
    CHECK(one(&Table::tanh, -infinity) == -1);
    CHECK(std::isnan(one(&Table::sin, infinity)));
    CHECK(std::isnan(one(&Table::cos, -infinity)));
    CHECK(one(&Table::gelu, infinity) == infinity);
    CHECK(one(&Table::gelu, -infinity) == 0);
    CHECK(one(&Table::gelu, T{-50}) == 0);
    CHECK(one(&Table::cos, T{0}) == 1);
    CHECK(one(&Table::expm1, infinity) == infinity);
    CHECK(one(&Table::expm1, -infinity) == -1);
    CHECK(one(&Table::log1p, infinity) == infinity);
    CHECK(one(&Table::log1p, T{-1}) == -infinity);
    CHECK(std::isnan(one(&Table::log1p, T{-2})));
    CHECK(one(&Table::sigmoid, infinity) == 1);
    CHECK(one(&Table::sigmoid, -infinity) == 0);
    CHECK(one(&Table::softplus, infinity) == infinity);
    CHECK(one(&Table::softplus, -infinity) == 0);
    CHECK(one(&Table::swish, infinity) == infinity);
    CHECK(one(&Table::swish, -infinity) == 0);
    for (const auto odd : {&Table::sin, &Table::erf, &Table::tanh, &Table::expm1, &Table::log1p}) {
      CHECK(same(one(odd, T{0}), T{0}));
      CHECK(same(one(odd, T{-0.0}), T{-0.0}));
    }
  });
}

TEST_CASE("values of f64") {
  struct {
    kernels::Bodies Table::*bodies;
    double x, y;
  } const cases[] = {
      {&Table::exp, 1, 2.7182818284590452354},
      {&Table::exp, -745, 4.9406564584124654418e-324},
      {&Table::exp, -746, 0},
      {&Table::log, 10, 2.3025850929940456840},
      {&Table::log, 5e-324, -744.44007192138126231},
      {&Table::erf, 0.5, 0.52049987781304653768},
      {&Table::erf, 2, 0.99532226501895273416},
      {&Table::erf, 1e-8, 1.1283791670955126e-8},
      {&Table::sin, 3.141592653589793, 1.2246467991473531772e-16},
      {&Table::sin, 1e22, -0.85220084976718880177},
      {&Table::cos, 1e22, 0.5232147853951389455},
      {&Table::sin, 1.7976931348623157e308, 0.0049619547891840618},
      {&Table::cos, 1.7976931348623157e308, -0.99998768942655994},
      {&Table::sin, 6381956970095103 * 0x1p797, 1},  // of all doubles the closest to a multiple of pi / 2
      {&Table::cos, 6381956970095103 * 0x1p797, -4.6871659242546276e-19},
      {&Table::tanh, 0.5, 0.46211715726000975850},
      {&Table::tanh, 1e-8, 1e-8},
      {&Table::gelu, 1, 0.84134474606854294859},
      {&Table::gelu, -1, -0.15865525393145705141},
      {&Table::gelu, -5, -1.4332578593959695584e-6},
      {&Table::gelu, -10, -7.619853024160526066e-23},
      {&Table::gelu_backward, 1, 1.0833154705876862984},  // x gelu'(x)
      {&Table::gelu_backward, -1, 0.083315470587686298383},
      {&Table::gelu_backward, -5, 3.5734730008961473140e-5},
      {&Table::expm1, 1e-300, 1e-300},
      {&Table::expm1, 5e-324, 5e-324},
      {&Table::expm1, 709.78, 1.7928227943945156209e308},
      {&Table::log1p, 5e-324, 5e-324},
      {&Table::log1p, -0.9999999999999999, -36.736800569677101399},
      {&Table::sigmoid, -745, 4.9406564584124654418e-324},
      {&Table::softplus, -745, 4.9406564584124654418e-324},
      {&Table::power, 0.5, 0.70710678118654752440},
      {&Table::power, 143, 1.6332525972973912816e308},
  };
  on_each_row([&] {
    for (const auto& c : cases) {
      CAPTURE(c.x);
      CHECK(std::abs(one(c.bodies, c.x) - c.y) <= 1.5e-15 * std::abs(c.y));
    }
  });
}

TEST_CASE_TEMPLATE("accuracy", T, float, double) {
  constexpr bool single = std::is_same_v<T, float>;
  std::mt19937_64 random(1);
  std::vector<T> x(20000);
  for (T& each : x) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const double any = std::ldexp(0.5 + uniform / 2, static_cast<int>(random() % 160) - 80);
    each = static_cast<T>(random() % 4 == 0 ? any : 24 * uniform - 12);
    if (random() % 8 == 0) each = -each;
  }
  on_each_row([&] {
    for (const Function& f : kFunctions) {
      CAPTURE(f.name);
      const std::vector<T> y = evaluate(f.bodies, x);
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const long double want = f.of(x[i]);
        if (!std::isnormal(static_cast<T>(want))) continue;  // beyond either end of T's range, or log(x < 0)
        worst = std::max(worst, ulp_error(y[i], want));
      }
      CHECK(worst <= (single ? f.f32_ulp : f.f64_ulp));
    }
  });
}

// Bases of any size and of those near 1, where exponents are large. ./dev bench ulp draws many more.
TEST_CASE_TEMPLATE("accuracy of pow, over pairs", T, float, double) {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(2);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<T> x(20000), y(x.size()), z(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double near = std::ldexp(uniform() - 0.5, -static_cast<int>(random() % Limits::digits));
    x[i] = static_cast<T>(random() % 2 == 0 ? 1 + near : std::exp2((uniform() - 0.5) * 1.9 * Limits::max_exponent));
    y[i] = static_cast<T>((uniform() - 0.5) * 1.9 * Limits::max_exponent / std::log2(static_cast<double>(x[i])));
    if (!std::isfinite(y[i])) x[i] = y[i] = 1;  // of a base of 1
  }
  kernels::MapArguments m{};
  m.inner_size = static_cast<Index>(x.size());
  m.data[0] = z.data(), m.data[1] = x.data(), m.data[2] = y.data();
  for (Index& stride : m.inner_strides) stride = 1;
  on_each_row([&] {
    const kernels::DenormalMode mode(dtype_of<T>);
    kernels::body_of(kernels::table().power, dtype_of<T>)(&m, 0, (m.inner_size - 1) / kernels::kMapBlock + 1);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst =
          std::max(worst, ulp_error(z[i], std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]))));
    CHECK(worst <= (std::is_same_v<T, float> ? 0.6 : 1.6));
  });
}

TEST_CASE_TEMPLATE("symmetries", T, float, double) {
  const std::vector<T> x = inputs<T>(1000, 2);
  std::vector<T> minus = x;
  for (T& each : minus) each = -each;
  on_each_row([&] {
    for (const auto odd : {&Table::sin, &Table::erf, &Table::tanh}) {
      std::vector<T> y = evaluate(odd, minus);
      for (T& each : y) each = -each;
      CHECK(same(y, evaluate(odd, x)));
    }
    CHECK(same(evaluate(&Table::cos, minus), evaluate(&Table::cos, x)));
  });
}

TEST_CASE_TEMPLATE("every row, lane, tail and stride gives the same bits", T, float, double, dual) {
  const std::vector<T> x = inputs<T>(2000, 3);
  for (const auto body : {&Table::exp, &Table::log, &Table::erf, &Table::sin, &Table::cos, &Table::tanh,
                          &Table::gelu, &Table::gelu_backward, &Table::expm1, &Table::log1p, &Table::sigmoid,
                          &Table::sigmoid_backward, &Table::softplus, &Table::swish, &Table::swish_backward,
                          &Table::power, &Table::power_backward, &Table::power_exponent_backward}) {
    const std::string before(row());
    set_row("scalar");
    const std::vector<T> want = evaluate(body, x);
    set_row(before);
    on_each_row([&] {
      CHECK(same(evaluate(body, x), want));
      for (Index n = 1; n <= 33; ++n)
        for (const Index stride : {1, 3}) {
          const std::vector<T> from(x.begin() + 7 * n, x.end());
          std::vector<T> y(static_cast<std::size_t>(n * stride));
          evaluate(body, y, from, n, stride);
          bool equal = true;
          for (std::size_t i = 0; i < y.size(); ++i) {
            const bool written = static_cast<Index>(i) % stride == 0;
            equal &= same(y[i], written ? want[static_cast<std::size_t>(7 * n) + i] : T{});
          }
          CHECK(equal);
        }
    });
  }
}

TEST_CASE_TEMPLATE("accumulate adds to what is there", T, float, double) {
  on_each_row([&] {
    for (const Index n : {1, 15, 16, 33}) {
      std::vector<T> x = inputs<T>(static_cast<std::size_t>(n), 4), y(x.size(), T{3}),
                     want = evaluate(&Table::gelu, x);
      for (T& each : want) each = T{3} + each;
      evaluate(&Table::gelu, y, x, n, 1, true);
      CHECK(same(y, want));
    }
  });
}

TEST_CASE("dual: the tangent is the derivative times the tangent") {
  const double root_two_pi = std::sqrt(2 * std::numbers::pi);
  const auto density = [&](double x) { return std::exp(-x * x / 2) / root_two_pi; };
  const auto cdf = [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; };
  on_each_row([&] {
    for (const double x : {0.1, 0.7, 1.0, 2.5, 7.0}) {
      CAPTURE(x);
      const auto check = [&](kernels::Bodies Table::*bodies, double v, double derivative) {
        const dual y = one(bodies, dual{v, 2});
        CHECK(same(y.value, one(bodies, v)));
        CHECK(y.tangent == doctest::Approx(2 * derivative).epsilon(1e-12));
      };
      check(&Table::log, x, 1 / x);
      check(&Table::square_root, x, 0.5 / std::sqrt(x));
      for (const double v : {x, -x}) {
        check(&Table::exp, v, std::exp(v));
        check(&Table::erf, v, 2 / std::sqrt(std::numbers::pi) * std::exp(-v * v));
        check(&Table::sin, v, std::cos(v));
        check(&Table::cos, v, -std::sin(v));
        check(&Table::tanh, v, 1 - std::tanh(v) * std::tanh(v));
        check(&Table::gelu, v, cdf(v) + v * density(v));
        // x gelu'(x) has the derivative gelu'(x) + x phi(x) (2 - x^2).
        check(&Table::gelu_backward, v, cdf(v) + v * density(v) + v * density(v) * (2 - v * v));
      }
    }
    CHECK(std::isnan(one(&Table::erf, dual{kNan, 1}).tangent));
    CHECK(one(&Table::gelu, dual{-kInfinity, 1}).tangent == 0);
    CHECK(one(&Table::gelu, dual{kInfinity, 1}).tangent == 1);
  });
}

TEST_CASE("math:: gives the bits of the kernels") {
  const auto check = [](auto f, kernels::Bodies Table::*bodies, auto x) {
    auto want = x;
    for (auto& each : want) each = f(each);
    CHECK(same(evaluate(bodies, x), want));
  };
  const auto all = [&](auto x) {
    check([](auto v) { return math::exp(v); }, &Table::exp, x);
    check([](auto v) { return math::log(v); }, &Table::log, x);
    check([](auto v) { return math::erf(v); }, &Table::erf, x);
    check([](auto v) { return math::sin(v); }, &Table::sin, x);
    check([](auto v) { return math::cos(v); }, &Table::cos, x);
    check([](auto v) { return math::tanh(v); }, &Table::tanh, x);
    check([](auto v) { return math::expm1(v); }, &Table::expm1, x);
    check([](auto v) { return math::log1p(v); }, &Table::log1p, x);
    check([](auto v) { return math::sqrt(v); }, &Table::square_root, x);
    check([](auto v) { return math::pow(v, v); }, &Table::power, x);
    check([](auto v) { return math::sigmoid(v); }, &Table::sigmoid, x);
    check([](auto v) { return math::softplus(v); }, &Table::softplus, x);
  };
  on_each_row([&] {
    all(inputs<float>(2000, 5));
    all(inputs<double>(2000, 6));
    all(inputs<dual>(2000, 7));
  });
}
