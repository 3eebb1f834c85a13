#include "attune/lib/kernels/elementwise.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "attune/lib/kernels/rows.h"
#include "attune/lib/random.h"
#include "attune/lib/tensor.h"
#include "attune/lib/threads.h"

using namespace attune;

namespace {

// ---- The same functions, plainly ----------------------------------------------------------------

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double gelu(double x) { return x * normal_distribution(x); }
double gelu_derivative(double x) { return normal_distribution(x) + x * normal_density(x); }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_angle(double x) { return 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

struct Unary {
  const char* name;
  void (*kernel)(const Out&, const ConstView&);
  double (*f)(double);
  double (*derivative)(double);
  double low, high;  // where it is tried
};
const Unary kUnary[] = {
    {"copy", kernels::copy, [](double x) { return x; }, [](double) { return 1.0; }, -3, 3},
    {"exp", kernels::exp, std::exp, std::exp, -9, 9},
    {"log", kernels::log, std::log, [](double x) { return 1 / x; }, 1e-3, 50},
    {"erf", kernels::erf, std::erf,
     [](double x) { return 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }, -4, 4},
    {"sin", kernels::sin, std::sin, std::cos, -20, 20},
    {"cos", kernels::cos, std::cos, [](double x) { return -std::sin(x); }, -20, 20},
    {"tanh", kernels::tanh, std::tanh, [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }, -6, 6},
    {"sqrt", kernels::sqrt, std::sqrt, [](double x) { return 0.5 / std::sqrt(x); }, 1e-3, 50},
    {"gelu", kernels::gelu, gelu, gelu_derivative, -5, 5},
    {"gelu_tanh", kernels::gelu_tanh, [](double x) { return x * sigmoid(gelu_angle(x)); },
     [](double x) {
       const double s = sigmoid(gelu_angle(x));
       return s + x * s * (1 - s) * 2 * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
     },
     -5, 5},
    {"silu", kernels::silu, [](double x) { return x * sigmoid(x); },
     [](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }, -9, 9},
    {"sigmoid", kernels::sigmoid, sigmoid, [](double x) { return sigmoid(x) * sigmoid(-x); }, -9, 9},
    {"softplus", kernels::softplus, [](double x) { return std::log1p(std::exp(x)); }, sigmoid, -9, 9},
    {"expm1", kernels::expm1, std::expm1, std::exp, -9, 9},
    {"log1p", kernels::log1p, std::log1p, [](double x) { return 1 / (1 + x); }, -0.9, 50},
    {"relu", kernels::relu, [](double x) { return x > 0 ? x : 0; }, [](double x) { return x > 0 ? 1.0 : 0; }, -3, 3},
    {"abs", kernels::abs, [](double x) { return std::abs(x); }, [](double x) { return x > 0 ? 1.0 : -1; }, -3, 3},
    {"sign", kernels::sign, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1 : 0; }, [](double) { return 0.0; }, -3, 3},
};

struct Binary {
  const char* name;
  void (*kernel)(const Out&, const ConstView&, const ConstView&);
  double (*f)(double, double);
  double (*tangent)(dual, dual);  // of the result, where it is asked for
};
const Binary kBinary[] = {
    {"add", kernels::add, [](double a, double b) { return a + b; },
     [](dual a, dual b) { return a.tangent + b.tangent; }},
    {"subtract", kernels::subtract, [](double a, double b) { return a - b; },
     [](dual a, dual b) { return a.tangent - b.tangent; }},
    {"multiply", kernels::multiply, [](double a, double b) { return a * b; },
     [](dual a, dual b) { return a.tangent * b.value + a.value * b.tangent; }},
    {"divide", kernels::divide, [](double a, double b) { return a / b; },
     [](dual a, dual b) { return (a.tangent * b.value - a.value * b.tangent) / (b.value * b.value); }},
    {"gelu_backward", kernels::gelu_backward, [](double dy, double x) { return dy * gelu_derivative(x); },
     nullptr},
    {"sigmoid_backward", kernels::sigmoid_backward,
     [](double dy, double x) { return dy * sigmoid(x) * sigmoid(-x); }, nullptr},
    {"tanh_backward", kernels::tanh_backward,
     [](double dy, double x) { return dy / (std::cosh(x) * std::cosh(x)); }, nullptr},
    {"relu_backward", kernels::relu_backward, [](double dy, double x) { return x > 0 ? dy : 0; }, nullptr},
    {"maximum", kernels::maximum, [](double a, double b) { return a < b ? b : a; },
     [](dual a, dual b) { return a.value < b.value ? b.tangent : a.tangent; }},
    {"minimum", kernels::minimum, [](double a, double b) { return a < b ? a : b; },
     [](dual a, dual b) { return a.value < b.value ? a.tangent : b.tangent; }},
};

// ---- Helpers ------------------------------------------------------------------------------------

Tensor random(const Shape& shape, DType dtype, std::uint64_t seed, double low = -2, double high = 2) {
  Tensor result(shape, dtype);
  Rng rng(seed);
  fill_uniform(result, rng, low, high);
  if (dtype == DType::dual)
    for (dual& number : result.data<dual>()) number.tangent = 2 * rng.uniform() - 1;
  return result;
}

// Calls f with every element of y and those of a and b that belong to it.
void each(const ConstView& y, const ConstView& a, const ConstView& b,
          const std::function<void(const ConstView&, const ConstView&, const ConstView&)>& f) {
  if (y.rank() == 0) return f(y, a, b);
  for (Index i = 0; i < y.size(0); ++i) each(y.select(0, i), a.select(0, i), b.select(0, i), f);
}

double tolerance(DType dtype) { return dtype == f32 ? 2e-6 : 1e-14; }

bool close(double found, double expected, DType dtype) {
  return std::abs(found - expected) <= tolerance(dtype) * (1 + std::abs(expected));
}

// y is f(a, b), or `before` + f(a, b).
void check_values(const char* name, const ConstView& y, const ConstView& a, const ConstView& b,
                  const std::function<double(double, double)>& f, const Tensor* before = nullptr) {
  INFO(name << " of " << fmt::format("{} into {} of {}", a.shape(), y.shape(), y.dtype()));
  bool all = true;
  Index position = 0;
  each(y, a.expand(y.shape()), b.expand(y.shape()), [&](auto& found, auto& left, auto& right) {
    const double old = before ? before->view().reshape({-1}).at({position}) : 0;
    all = all && close(found.item(), old + f(left.item(), right.item()), y.dtype());
    ++position;
  });
  CHECK(all);
}

void check_binary(const Binary& op, View y, const ConstView& a, const ConstView& b) {
  op.kernel(y, a, b);
  check_values(op.name, y, a, b, op.f);
  const Tensor before = Tensor::copy_of(y);
  op.kernel(Out(y, true), a, b);
  check_values(op.name, y, a, b, op.f, &before);
}

// A view of the same shape and numbers whose elements stand in another order in memory, backwards.
struct Backwards {
  explicit Backwards(const ConstView& numbers) : kept(numbers.shape(), numbers.dtype()) {
    detail::Layout layout = kept.view().layout();
    for (Index& stride : layout.strides) stride = -stride;
    const Index last = std::max<Index>(kept.count() - 1, 0) * size_of(kept.dtype());
    view = View(static_cast<char*>(kept.view().data()) + last, layout);
    kernels::copy(view, numbers);
  }
  Tensor kept;
  View view;
};

std::vector<std::byte> bytes_of(const Tensor& numbers) {
  const auto* first = static_cast<const std::byte*>(numbers.view().data());
  return {first, first + numbers.count() * size_of(numbers.dtype())};
}

// Calls f on every row that this machine runs, with one, two and three threads.
template <class F>
void on_rows_and_threads(F&& f) {
  const std::string row_before(row());
  const int threads_before = threads();
  for (const std::string& name : supported_rows())
    for (int n : {1, 2, 3}) {
      set_row(name);
      set_threads(n);
      CAPTURE(name);
      CAPTURE(n);
      f();
    }
  set_threads(threads_before);
  set_row(row_before);
}

constexpr DType kFloats[] = {f32, f64, DType::dual};

}  // namespace

TEST_CASE("every function gives what plain code gives, for every size") {
  on_rows_and_threads([] {
    for (DType dtype : kFloats)
      for (Index size : {0, 1, 2, 15, 16, 17, 31, 33, 100}) {
        for (const Unary& op : kUnary) {
          const Tensor x = random({size}, dtype, 1, op.low, op.high);
          Tensor y = full({size}, NAN, dtype);
          op.kernel(y, x);
          check_values(op.name, y, x, x, [&](double a, double) { return op.f(a); });
          const Tensor before = y.clone();
          op.kernel(Out(y, true), x);
          check_values(
              op.name, y, x, x, [&](double a, double) { return op.f(a); }, &before);
        }
        const Tensor a = random({size}, dtype, 2), b = random({size}, dtype, 3, 0.5, 2);
        for (const Binary& op : kBinary) {
          Tensor y(Shape{size}, dtype);
          check_binary(op, y, a, b);
        }
      }
  });
}

TEST_CASE("sizes around the block") {
  for (DType dtype : {f32, f64})
    for (Index size :
         {kernels::kMapBlock - 1, kernels::kMapBlock, kernels::kMapBlock + 1, 3 * kernels::kMapBlock + 5}) {
      const Tensor a = random({size}, dtype, 2), b = random({size}, dtype, 3, 0.5, 2);
      Tensor y(Shape{size}, dtype), wide(Shape{2, size}, dtype);
      check_binary(kBinary[0], y, a, b);
      check_binary(kBinary[3], wide.view(), a, b);
    }
}

TEST_CASE("inputs stretch along any axis") {
  const Shape shape{3, 4, 5};
  const Shape shapes[] = {{3, 4, 5}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {1, 1, 5}, {1, 4, 1}, {3, 1, 1},
                          {1, 1, 1}, {4, 5},    {4, 1},    {1, 5},    {5},       {1},       {}};
  for (DType dtype : kFloats)
    for (const Shape& left : shapes)
      for (const Shape& right : shapes) {
        const Tensor a = random(left, dtype, 4), b = random(right, dtype, 5, 0.5, 2);
        Tensor y(shape, dtype);
        check_binary(kBinary[1], y, a, b);
        kernels::divide(y, a, b);
        check_values("divide", y, a, b, kBinary[3].f);
      }
}

TEST_CASE("strides of every kind") {
  on_rows_and_threads([] {
    for (DType dtype : kFloats) {
      const Tensor large = random({6, 8, 40}, dtype, 6), b = random({5, 3, 17}, dtype, 7, 0.5, 2);
      const ConstView transposed =
          large.view().slice(0, 0, 5).slice(1, 0, 3).permute({1, 0, 2}).slice(2, 1, 18);
      const ConstView steps = large.view().slice(0, 1, 6).slice(1, 1, 8, 3).slice(2, 2, 36, 2);
      const ConstView moved = large.view().slice(2, 3, 8).slice(0, 0, 6, 2).permute({2, 0, 1}).slice(2, 0, 1);
      const Backwards backwards(steps);
      Tensor y(Shape{5, 3, 17}, dtype), room(Shape{17, 12, 7}, dtype);
      View sparse = room.view().slice(1, 0, 12, 4).slice(2, 1, 6).permute({2, 1, 0});
      for (const Binary& op : kBinary) {
        for (View place : {y.view(), sparse}) {
          check_binary(op, place, transposed.permute({1, 0, 2}), b);
          check_binary(op, place, steps, b);
          check_binary(op, place, moved, b);
          check_binary(op, place, backwards.view, b);
          check_binary(op, place, b, b.view().slice(0, 2, 3).slice(2, 4, 5).expand({5, 3, 17}));
        }
        check_binary(op, Backwards(y).view, steps, b);
      }
    }
    // Nothing between the elements was touched.
    Tensor gaps = full({4, 6}, 7);
    kernels::fill(gaps.view().slice(1, 1, 6, 2), 1);
    for (Index i = 0; i < 4; ++i)
      for (Index j = 0; j < 6; ++j) CHECK(gaps.at({i, j}) == (j % 2 ? 1 : 7));
  });
}

TEST_CASE("rank six, in every order of axes") {
  const Tensor a = random({2, 3, 1, 2, 3, 2}, f64, 8), b = random({3, 1, 2, 1, 2}, f64, 9, 0.5, 2);
  Tensor y(Shape{2, 3, 2, 2, 3, 2}, f64);
  check_binary(kBinary[2], y, a, b);
  std::array<int, 6> order;
  std::iota(order.begin(), order.end(), 0);
  do {
    const Tensor x = random({2, 3, 1, 2, 3, 2}, f64, 10);
    const ConstView moved = x.view().permute(order);
    Tensor copy(moved.shape(), f64);
    kernels::copy(copy, moved);
    bool same = true;
    each(copy, moved, moved,
         [&](auto& found, auto& expected, auto&) { same = same && found.item() == expected.item(); });
    CHECK(same);
  } while (std::next_permutation(order.begin() + 2, order.end()));
}

TEST_CASE("B31: the same at every offset from an aligned address") {
  on_rows_and_threads([] {
    for (DType dtype : kFloats) {
      const Tensor source = random({100}, dtype, 11, 0.5, 2);
      std::vector<std::byte> expected;
      for (Index offset = 0; offset < 16; ++offset) {
        Tensor room(Shape{200}, dtype), from(Shape{200}, dtype);
        View x = from.view().slice(0, offset, offset + 100),
             y = room.view().slice(0, 16 - offset, 116 - offset);
        kernels::copy(x, source);
        kernels::divide(y, x, x);
        kernels::multiply(Out(y, true), x, x);
        const std::vector<std::byte> found = bytes_of(Tensor::copy_of(y));
        if (offset == 0) expected = found;
        CHECK(found == expected);
      }
    }
  });
}

TEST_CASE("an output may be an input") {
  const Tensor start = random({3, 1000}, f32, 12, 0.5, 2);
  Tensor x = start.clone();
  kernels::exp(x, x);
  check_values("exp", x, start, start, [](double a, double) { return std::exp(a); });
  x = start.clone();
  kernels::multiply(x, x, x);
  check_values("multiply", x, start, start, kBinary[2].f);
  x = start.clone();
  kernels::add(Out(x, true), x, x);
  check_values("add", x, start, start, [](double a, double) { return 3 * a; });
  x = start.clone();
  kernels::scale(x.view().t(), x.view().t(), -2);
  check_values("scale", x, start, start, [](double a, double) { return -2 * a; });
}

TEST_CASE("every row and any number of threads give the same bits") {
  for (DType dtype : kFloats) {
    constexpr Index rows = 37, width = 5003;
    const Tensor a = random({rows, width}, dtype, 13, 0.01, 4), b = random({width}, dtype, 14, 0.5, 2);
    const Tensor turned = random({width, rows}, dtype, 15, 0.5, 2);
    const auto compute = [&] {
      std::vector<std::byte> all;
      const auto keep = [&](const Tensor& y) {
        const auto bytes = bytes_of(y);
        all.insert(all.end(), bytes.begin(), bytes.end());
      };
      for (const Unary& op : kUnary) {
        Tensor y = ones({rows, width}, dtype);
        op.kernel(Out(y, true), a);
        keep(y);
      }
      for (const Binary& op : kBinary) {
        Tensor y(Shape{rows, width}, dtype);
        op.kernel(y, a, b);
        op.kernel(Out(y, true), a, turned.view().t());
        keep(y);
      }
      Tensor y(Shape{rows, width}, dtype);
      kernels::divide_backward(y, a, turned.view().t(), b);
      kernels::scale(Out(y, true), a, 0.1);
      keep(y);
      return all;
    };
    std::vector<std::byte> expected;
    on_rows_and_threads([&] {
      const std::vector<std::byte> found = compute();
      if (expected.empty()) expected = found;
      CHECK(found == expected);
    });
  }
}

TEST_CASE("a dual carries the derivative along") {
  on_rows_and_threads([] {
    for (const Unary& op : kUnary) {
      const Tensor x = random({67}, DType::dual, 16, op.low, op.high);
      Tensor y(Shape{67}, DType::dual);
      op.kernel(y, x);
      for (std::size_t i = 0; i < 67; ++i) {
        const dual in = x.data<dual>()[i], out = std::as_const(y).data<dual>()[i];
        CAPTURE(op.name);
        CAPTURE(in.value);
        CHECK(close(out.value, op.f(in.value), f64));
        CHECK(std::abs(out.tangent - op.derivative(in.value) * in.tangent) <=
              1e-13 * (1 + std::abs(op.derivative(in.value))));
      }
    }
    const Tensor a = random({67}, DType::dual, 17), b = random({67}, DType::dual, 18, 0.5, 2);
    for (const Binary& op : kBinary) {
      if (!op.tangent) continue;
      Tensor y(Shape{67}, DType::dual);
      op.kernel(y, a, b);
      for (std::size_t i = 0; i < 67; ++i)
        CHECK(close(std::as_const(y).data<dual>()[i].tangent,
                    op.tangent(a.data<dual>()[i], b.data<dual>()[i]), f64));
    }
  });
}

TEST_CASE("divide_backward is the derivative of a quotient") {
  for (DType dtype : {f32, f64}) {
    const Tensor a = random({50}, dtype, 19), b = random({50}, dtype, 20, 0.5, 2),
                 dy = random({50}, dtype, 21);
    Tensor y(Shape{50}, dtype), db = ones({50}, dtype);
    kernels::divide(y, a, b);
    kernels::divide_backward(Out(db, true), dy, y, b);
    for (Index i = 0; i < 50; ++i) {
      const double expected = 1 - dy.at({i}) * a.at({i}) / (b.at({i}) * b.at({i}));
      CHECK(close(db.at({i}), expected, dtype));
    }
  }
}

TEST_CASE("scale and fill") {
  for (DType dtype : kFloats) {
    const Tensor x = random({33}, dtype, 22);
    Tensor y(Shape{33}, dtype);
    kernels::scale(y, x, 0.1);
    check_values("scale", y, x, x, [](double a, double) { return 0.1 * a; });
    kernels::fill(y, 2.5);
    for (Index i = 0; i < 33; ++i) CHECK(y.at({i}) == 2.5);
    kernels::fill(Out(y, true), 1);
    CHECK(y.at({32}) == 3.5);
  }
  Tensor both = random({3}, DType::dual, 23);
  kernels::fill(both, 1);
  CHECK(both.data<dual>()[2].tangent == 0);
  Tensor ids(Shape{3}, i32);
  kernels::fill(ids, -2147483648.0);
  CHECK(ids.at({2}) == -2147483648.0);
}

TEST_CASE("functions with numbers: leaky_relu and clamp, and their gradients") {
  for (DType dtype : kFloats) {
    const Tensor x = random({67}, dtype, 24), dy = random({67}, dtype, 25);
    Tensor y(Shape{67}, dtype);
    kernels::leaky_relu(y, x, 0.125);
    check_values("leaky_relu", y, x, x, [](double a, double) { return a > 0 ? a : 0.125 * a; });
    kernels::leaky_relu_backward(y, dy, x, 0.125);
    check_values("leaky_relu_backward", y, dy, x, [](double d, double a) { return a > 0 ? d : 0.125 * d; });
    kernels::clamp(y, x, -0.5, 1);
    check_values("clamp", y, x, x, [](double a, double) { return std::min(std::max(a, -0.5), 1.0); });
    kernels::clamp_backward(y, dy, x, -0.5, 1);
    check_values("clamp_backward", y, dy, x, [](double d, double a) { return -0.5 <= a && a <= 1 ? d : 0; });
  }
}

TEST_CASE("where chooses by an i32, which stretches as others do") {
  on_rows_and_threads([] {
    for (DType dtype : kFloats) {
      const Tensor on = tensor({{0}, {1}, {-7}}, i32), a = random({3, 20}, dtype, 26), b = random({20}, dtype, 27);
      Tensor y(Shape{3, 20}, dtype);
      kernels::where(y, on, a, b);
      for (Index i = 0; i < 3; ++i)
        for (Index j = 0; j < 20; ++j) CHECK(y.at({i, j}) == (i == 0 ? b.at({j}) : a.at({i, j})));
      kernels::where(Out(y, true), on, kernels::Number(1, dtype), kernels::Number(0, dtype));
      CHECK(y.at({1, 3}) == doctest::Approx(a.at({1, 3}) + 1));
    }
  });
  Tensor y({2}), ids({2}, i32);
  const Tensor x = ones({2}), longer({3}, i32);
  CHECK_THROWS_WITH_AS(kernels::where(y, x, x, x), "where: a condition is i32, not f32", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::where(ids, ids, ids, ids), "where: i32 has no arithmetic", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::where(y, longer, x, x), "where: [3] does not stretch to [2]", std::invalid_argument);
}

TEST_CASE("i32 is copied bit for bit") {
  on_rows_and_threads([] {
    Tensor ids(Shape{7, 9}, i32);
    std::int32_t next = 2143289340;  // the bits of a NaN, and, negative, those of a denormal float
    for (std::int32_t& id : ids.data<std::int32_t>()) id = next++ % 2 ? next : -2147483647 - (1 - next % 100);
    Tensor turned(Shape{9, 7}, i32);
    kernels::copy(turned, std::as_const(ids).view().t());
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 9; ++j) CHECK(turned.at({j, i}) == ids.at({i, j}));
  });
}

TEST_CASE("NaN and infinity go where arithmetic sends them") {
  const Tensor x = tensor({NAN, INFINITY, -INFINITY, 0, -0.0});
  on_rows_and_threads([&] {
    Tensor y(Shape{5});
    const auto gives = [&](auto kernel, std::initializer_list<double> expected) {
      kernel(y, x);
      Index i = 0;
      for (double e : expected) {
        const double found = y.at({i++});
        CAPTURE(i);
        CHECK((std::isnan(e) ? std::isnan(found) : found == e));
      }
    };
    gives(kernels::exp, {NAN, INFINITY, 0, 1, 1});
    gives(kernels::log, {NAN, INFINITY, NAN, -INFINITY, -INFINITY});
    gives(kernels::erf, {NAN, 1, -1, 0, 0});
    gives(kernels::tanh, {NAN, 1, -1, 0, 0});
    gives(kernels::sqrt, {NAN, INFINITY, NAN, 0, 0});
    gives(kernels::sin, {NAN, NAN, NAN, 0, 0});
    gives(kernels::cos, {NAN, NAN, NAN, 1, 1});
    kernels::divide(y, x, x);
    for (Index i = 0; i < 5; ++i) CHECK(std::isnan(y.at({i})));
  });
}

TEST_CASE("f32 flushes denormals and f64 keeps them, whatever the caller has set") {
  const Tensor small = tensor({1e-30f}), narrow = tensor({1e-10f}), tiny = tensor({1e-310}, f64),
               one = tensor({1.0}, f64);
  const unsigned before = _mm_getcsr();
  for (unsigned mode : {before, before | 0x8040u, before | 0x6000u}) {
    Tensor y(Shape{1}), wide(Shape{1}, f64);
    _mm_setcsr(mode);
    kernels::multiply(y, small, narrow);
    kernels::multiply(wide, tiny, one);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    CHECK((after & ~0x3fu) == (mode & ~0x3fu));  // but for the flags of what has happened
    CHECK(std::as_const(y).data<float>()[0] == 0);
    CHECK(wide.at({0}) == 1e-310);
  }
}

TEST_CASE("errors name the kernel and the shapes, and nothing is written") {
  Tensor y = full({2, 3}, 7), wide = full({2, 3}, 7, f64), ids(Shape{2, 3}, i32);
  const Tensor x = ones({2, 4}), row = ones({3}), tall = ones({2, 2, 3});
  CHECK_THROWS_WITH_AS(kernels::add(y, x, row), "add: [2, 4] does not stretch to [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::add(y, row, x), "add: [2, 4] does not stretch to [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::exp(y, tall), "exp: [2, 2, 3] does not stretch to [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::multiply(wide, wide, row), "multiply: element types f64 and f32 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::copy(wide, row), "copy: element types f64 and f32 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::scale(wide, row, 2), "scale: element types f64 and f32 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::add(ids, ids, ids), "add: i32 has no arithmetic", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::scale(ids, ids, 2), "scale: i32 has no arithmetic", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::copy(Out(ids, true), ids), "copy: i32 cannot accumulate",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::fill(ids, 0.5), "fill: 0.5 is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK_THROWS_AS(kernels::fill(ids, NAN), std::invalid_argument);
  for (Index i = 0; i < 3; ++i) CHECK(y.at({1, i}) == 7);

  // Each public name is the one in its messages.
  for (const Unary& op : kUnary)
    CHECK_THROWS_WITH_AS(op.kernel(y, x),
                         fmt::format("{}: [2, 4] does not stretch to [2, 3]", op.name).c_str(),
                         std::invalid_argument);
  for (const Binary& op : kBinary)
    CHECK_THROWS_WITH_AS(op.kernel(y, x, x),
                         fmt::format("{}: [2, 4] does not stretch to [2, 3]", op.name).c_str(),
                         std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::divide_backward(y, row, row, x),
                       "divide_backward: [2, 4] does not stretch to [2, 3]", std::invalid_argument);
}

TEST_CASE("an output that nobody wants is skipped") {
  const Tensor x = ones({2});
  kernels::add(Out(), x, x);
  kernels::copy(Out(), x);
  kernels::fill(Out(), 1);
  kernels::scale(Out(), x, 1);
  kernels::exp(Out(), x);
}

TEST_CASE("products of strided views") {
  // A^T A and A[:, ::2] A[:, 1::2]^T of 0 ... 11 as 3 x 4, by multiply and sums of its elements.
  const Tensor a = arange(12).clone();
  const ConstView matrix = a.view().reshape({3, 4});
  const auto product = [](const ConstView& left, const ConstView& right) {
    const Index rows = left.size(0), inner = left.size(1), columns = right.size(1);
    Tensor y(Shape{rows, columns});
    for (Index k = 0; k < inner; ++k)
      kernels::multiply(Out(y, true), left.slice(1, k, k + 1), right.slice(0, k, k + 1));
    return y;
  };
  const Tensor gram =
      tensor({{80, 92, 104, 116}, {92, 107, 122, 137}, {104, 122, 140, 158}, {116, 137, 158, 179}});
  const Tensor halves = tensor({{6, 14, 22}, {22, 62, 102}, {38, 110, 182}});
  CHECK(bytes_of(product(matrix.t(), matrix)) == bytes_of(gram));
  CHECK(bytes_of(product(matrix.slice(1, 0, 4, 2), matrix.slice(1, 1, 4, 2).t())) == bytes_of(halves));
}
