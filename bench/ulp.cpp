// How exact the elementary functions are: every float, and random doubles, against a more precise reference.
//
//   ulp [--row avx512|avx2|scalar] [--function NAME,NAME] [--every N] [--doubles N] [--pairs N]
//
// --every N takes one float in N (default 1: all 2^32, a minute or two for each function). pow has two operands, of
// which no one tries all: --pairs of them are drawn (default 10^9), and --doubles of f64 (default 10^7). The errors are
// in units in the last place of the true value; an argument or a result below the smallest normal float is left out,
// for f32 kernels flush it to zero. Doubles are held against libquadmath's 113 bits where the compiler has it
// (ATTUNE_QUADMATH), else against long double's 64.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <numbers>
#include <random>
#include <string_view>
#include <vector>

#include "attune/lib/kernels/run.h"

#ifdef ATTUNE_QUADMATH
#include <quadmath.h>
__extension__ typedef __float128 Wide;
namespace {
Wide wide_exp(Wide x) { return expq(x); }
Wide wide_log(Wide x) { return logq(x); }
Wide wide_erf(Wide x) { return erfq(x); }
Wide wide_erfc(Wide x) { return erfcq(x); }
Wide wide_sin(Wide x) { return sinq(x); }
Wide wide_cos(Wide x) { return cosq(x); }
Wide wide_tanh(Wide x) { return tanhq(x); }
Wide wide_expm1(Wide x) { return expm1q(x); }
Wide wide_log1p(Wide x) { return log1pq(x); }
Wide wide_pow(Wide x, Wide y) { return powq(x, y); }
const Wide kRootHalf = sqrtq(Wide{1} / 2), kRootTwoPi = sqrtq(2 * acosq(-1));
}  // namespace
#else
using Wide = long double;
namespace {
Wide wide_exp(Wide x) { return std::exp(x); }
Wide wide_log(Wide x) { return std::log(x); }
Wide wide_erf(Wide x) { return std::erf(x); }
Wide wide_erfc(Wide x) { return std::erfc(x); }
Wide wide_sin(Wide x) { return std::sin(x); }
Wide wide_cos(Wide x) { return std::cos(x); }
Wide wide_tanh(Wide x) { return std::tanh(x); }
Wide wide_expm1(Wide x) { return std::expm1(x); }
Wide wide_log1p(Wide x) { return std::log1p(x); }
Wide wide_pow(Wide x, Wide y) { return std::pow(x, y); }
const Wide kRootHalf = std::sqrt(0.5L), kRootTwoPi = std::sqrt(2 * std::numbers::pi_v<long double>);
}  // namespace
#endif

namespace {

using namespace attune;
using kernels::Table;

constexpr double kRootHalfDouble = std::numbers::sqrt2 / 2, kRootTwoPiDouble = 2.5066282746310005;

double phi(double x) { return std::exp(-x * x / 2) / kRootTwoPiDouble; }
double cdf(double x) { return std::erfc(-x * kRootHalfDouble) / 2; }
Wide wide_phi(Wide x) { return wide_exp(-x * x / 2) / kRootTwoPi; }
Wide wide_cdf(Wide x) { return wide_erfc(-x * kRootHalf) / 2; }

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Wide wide_sigmoid(Wide x) { return 1 / (1 + wide_exp(-x)); }

// x sigmoid(t) and its derivative, t = a x + b x^3: silu, and gelu's tanh form.
constexpr double kSilu[] = {1, 0}, kGelu[] = {1.5957691216057308, 0.07135481627260025};
template <class T>
T angle(const double* p, T x) {
  return p[0] * x + p[1] * x * x * x;
}
template <class T>
T angle_slope(const double* p, T x) {
  return p[0] * x + 3 * p[1] * x * x * x;  // x t'
}
double swish(const double* p, double x) { return x * sigmoid(angle(p, x)); }
double swish_slope(const double* p, double x) {
  const double t = angle(p, x);
  return sigmoid(t) * (1 + angle_slope(p, x) * sigmoid(-t));
}
Wide wide_swish(const double* p, Wide x) { return x * wide_sigmoid(angle(p, x)); }
Wide wide_swish_slope(const double* p, Wide x) {
  const Wide t = angle(p, x);
  return wide_sigmoid(t) * (1 + angle_slope(p, x) * wide_sigmoid(-t));
}
double swish_slope_scale(const double* p, double x) {
  const double t = angle(p, x);
  return sigmoid(t) * std::fmax(1, std::abs(angle_slope(p, x)) * sigmoid(-t));
}

// `of` and `wide` are the references for f32 and f64; `scale`, where there is one, is what an error is
// measured against instead of the value (gelu' has a zero, where its two terms cancel).
struct Function {
  std::string_view name;
  kernels::Bodies Table::*bodies;
  double (*of)(double);
  Wide (*wide)(Wide);
  double (*scale)(double);
  double low, high;        // where the doubles are drawn
  double least = 1.2e-38;  // smaller f32 results may be 0
  double parameters[2] = {0, 0};
  double second = NAN;  // the second operand, where there is one
  double least_double = 0;  // smaller f64 results may lack digits
};

const Function kFunctions[] = {
    {"exp", &Table::exp, [](double x) { return std::exp(x); }, wide_exp, nullptr, -745, 709},
    {"log", &Table::log, [](double x) { return std::log(x); }, wide_log, nullptr, 0, 4},
    {"erf", &Table::erf, [](double x) { return std::erf(x); }, wide_erf, nullptr, -6, 6},
    {"sin", &Table::sin, [](double x) { return std::sin(x); }, wide_sin, nullptr, -100, 100},
    {"cos", &Table::cos, [](double x) { return std::cos(x); }, wide_cos, nullptr, -100, 100},
    {"tanh", &Table::tanh, [](double x) { return std::tanh(x); }, wide_tanh, nullptr, -20, 20},
    {"gelu", &Table::gelu, [](double x) { return x * cdf(x); }, [](Wide x) { return x * wide_cdf(x); },
     nullptr, -38, 10, 3e-38},
    {"gelu'", &Table::gelu_backward, [](double x) { return cdf(x) + x * phi(x); },
     [](Wide x) { return wide_cdf(x) + x * wide_phi(x); },
     [](double x) { return std::fmax(cdf(x), std::abs(x) * phi(x)); }, -38, 10, 1e-37},
    {"expm1", &Table::expm1, [](double x) { return std::expm1(x); }, wide_expm1, nullptr, -40, 709},
    {"log1p", &Table::log1p, [](double x) { return std::log1p(x); }, wide_log1p, nullptr, -1, 4},
    {"sigmoid", &Table::sigmoid, sigmoid, wide_sigmoid, nullptr, -708, 40},
    {"sigmoid'", &Table::sigmoid_backward, [](double x) { return sigmoid(x) * sigmoid(-x); },
     [](Wide x) { return wide_sigmoid(x) * wide_sigmoid(-x); }, nullptr, -700, 700, 1.2e-38, {1, 1}},
    {"tanh'", &Table::sigmoid_backward, [](double x) { return 4 * sigmoid(2 * x) * sigmoid(-2 * x); },
     [](Wide x) { return 4 * wide_sigmoid(2 * x) * wide_sigmoid(-2 * x); }, nullptr, -350, 350, 5e-38, {4, 2}},
    {"softplus", &Table::softplus, [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))); },
     [](Wide x) { return (x > 0 ? x : 0) + wide_log1p(wide_exp(x > 0 ? -x : x)); }, nullptr, -708, 40},
    {"silu", &Table::swish, [](double x) { return swish(kSilu, x); }, [](Wide x) { return wide_swish(kSilu, x); },
     nullptr, -700, 10, 2e-36, {1, 0}, NAN, 1e-304},
    {"silu'", &Table::swish_backward, [](double x) { return swish_slope(kSilu, x); },
     [](Wide x) { return wide_swish_slope(kSilu, x); }, [](double x) { return swish_slope_scale(kSilu, x); },
     -700, 10, 2e-36, {1, 0}, NAN, 1e-304},
    {"gelu_tanh", &Table::swish, [](double x) { return swish(kGelu, x); },
     [](Wide x) { return wide_swish(kGelu, x); }, nullptr, -20, 10, 2e-37, {kGelu[0], kGelu[1]}, NAN, 1e-304},
    {"gelu_tanh'", &Table::swish_backward, [](double x) { return swish_slope(kGelu, x); },
     [](Wide x) { return wide_swish_slope(kGelu, x); }, [](double x) { return swish_slope_scale(kGelu, x); },
     -20, 10, 4e-36, {kGelu[0], kGelu[1]}, NAN, 1e-302},
    {"x^2.5", &Table::power, [](double x) { return std::pow(x, 2.5); },
     [](Wide x) { return wide_pow(x, 2.5); }, nullptr, 0, 100, 1.2e-38, {}, 2.5},
    {"x^-31", &Table::power, [](double x) { return std::pow(x, -31); },
     [](Wide x) { return wide_pow(x, -31); }, nullptr, -20, 20, 1.2e-38, {}, -31},
    {"x^2000", &Table::power, [](double x) { return std::pow(x, 2000); },
     [](Wide x) { return wide_pow(x, 2000); }, nullptr, 0.7, 1.42, 1.2e-38, {}, 2000},
};

struct Worst {
  double ulp = 0, at = 0, to = 0;  // `to` is pow's second operand
  void see(double error, double x, double y = 0) {
    if (error > ulp) ulp = error, at = x, to = y;
  }
  void see(Worst other) { see(other.ulp, other.at, other.to); }
};

// The distance between neighbours of type T around x.
template <class T>
double ulp_of(double x) {
  const int digits = std::numeric_limits<T>::digits, least = std::numeric_limits<T>::min_exponent;
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
  const int exponent = std::max(biased - 1022, least) - digits;
  if (exponent < -1022) return std::ldexp(1.0, exponent);  // subnormal
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

template <class T>
void evaluate(const Function& f, const T* x, T* y, Index n) {
  static const std::vector<T> ones(kernels::kMapBlock, T{1});
  const std::vector<T> second(kernels::kMapBlock, static_cast<T>(f.second));
  const bool backward = f.name.ends_with("'");
  kernels::MapArguments m{};
  m.parameters[0] = f.parameters[0];
  m.parameters[1] = f.parameters[1];
  m.inner_size = n;
  m.data[0] = y;
  m.data[1] = const_cast<T*>(backward ? ones.data() : x);
  m.data[2] = const_cast<T*>(backward ? x : second.data());
  for (Index& stride : m.inner_strides) stride = 1;
  const kernels::DenormalMode mode(dtype_of<T>);
  kernels::body_of(kernels::table().*f.bodies, dtype_of<T>)(&m, 0, 1);
}

double float_error(const Function& f, float x, float y) {
  const double want = f.of(x);
  if (std::isnan(want)) return std::isnan(y) ? 0 : INFINITY;
  if (std::abs(want) < f.least) return std::abs(y) > 2 * f.least ? INFINITY : 0;
  if (std::isinf(static_cast<float>(want))) return static_cast<float>(want) == y ? 0 : INFINITY;
  return std::abs(y - want) / ulp_of<float>(f.scale ? f.scale(x) : want);
}

Worst all_floats(const Function& f, std::uint64_t every) {
  const auto blocks = static_cast<Index>((std::uint64_t{1} << 32) / (kernels::kMapBlock * every));
  Worst worst;
  std::mutex mutex;
  parallel_for(blocks, 1, [&](Index begin, Index end) {
    std::vector<float> x(kernels::kMapBlock), y(kernels::kMapBlock);
    Worst mine;
    for (Index block = begin; block < end; ++block) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::bit_cast<float>(
            static_cast<std::uint32_t>((static_cast<std::uint64_t>(block) * x.size() + i) * every));
      evaluate(f, x.data(), y.data(), kernels::kMapBlock);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (std::isfinite(x[i]) && (x[i] == 0 || std::isnormal(x[i])))
          mine.see(float_error(f, x[i], y[i]), x[i]);
    }
    const std::lock_guard lock(mutex);
    worst.see(mine);
  });
  return worst;
}

// Half of the points are uniform in the function's range, half have any exponent.
double draw(const Function& f, std::mt19937_64& bits) {
  if (bits() & 1) return f.low + (f.high - f.low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  const double x = std::bit_cast<double>(bits());
  return f.bodies == &Table::log || f.second == 2.5 ? std::abs(x) : x;
}

double double_error(const Function& f, double x, double y) {
  const Wide want = f.wide(x);
  const auto near = static_cast<double>(want);
  if (std::isnan(near) || std::isinf(near))
    return near == y || (std::isnan(near) && std::isnan(y)) ? 0 : INFINITY;
  if (std::abs(near) < f.least_double) return std::abs(y) > 2 * f.least_double ? INFINITY : 0;
  const Wide error = want < y ? y - want : want - y;
  return static_cast<double>(error / Wide{ulp_of<double>(f.scale ? f.scale(x) : near)});
}

Worst random_doubles(const Function& f, Index points) {
  Worst worst;
  std::mutex mutex;
  parallel_for(points / kernels::kMapBlock, 1, [&](Index begin, Index end) {
    std::vector<double> x(kernels::kMapBlock), y(kernels::kMapBlock);
    Worst mine;
    for (Index block = begin; block < end; ++block) {
      std::mt19937_64 bits(static_cast<std::uint64_t>(block));
      for (double& each : x) each = draw(f, bits);
      evaluate(f, x.data(), y.data(), kernels::kMapBlock);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (std::isfinite(x[i])) mine.see(double_error(f, x[i], y[i]), x[i]);
    }
    const std::lock_guard lock(mutex);
    worst.see(mine);
  });
  return worst;
}

// ---- pow

// A base and an exponent whose power is a normal number: of any base, of bases near 1, where exponents are large, and
// of negative ones to whole powers.
template <class T>
void draw_pair(std::mt19937_64& bits, T& x, T& y) {
  using Limits = std::numeric_limits<T>;
  const auto unit = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  const auto span = static_cast<double>(Limits::max_exponent - Limits::min_exponent);
  const std::uint64_t kind = bits() % 4;
  double base = std::exp2(Limits::min_exponent + 1 + unit() * (span - 2));
  if (kind == 1) base = 0.5 + 1.5 * unit();
  if (kind == 2) base = 1 + std::ldexp(unit() - 0.5, -static_cast<int>(bits() % Limits::digits));
  x = static_cast<T>(base);
  const double log = std::log2(static_cast<double>(x));
  double power = (Limits::min_exponent + unit() * span) / log;
  if (kind == 3) power = std::nearbyint(power), x = bits() & 1 ? -x : x;
  y = static_cast<T>(power);
}

double pair_error(float x, float y, float z) {
  const double want = std::pow(static_cast<double>(x), static_cast<double>(y));
  if (!std::isfinite(y) || std::isnan(want)) return 0;
  if (std::abs(want) < 1.2e-38) return std::abs(z) > 2.4e-38 ? INFINITY : 0;
  if (std::isinf(static_cast<float>(want))) return static_cast<float>(want) == z ? 0 : INFINITY;
  return std::abs(z - want) / ulp_of<float>(want);
}
double pair_error(double x, double y, double z) {
  const Wide want = wide_pow(x, y);
  const auto near = static_cast<double>(want);
  if (!std::isfinite(y) || !std::isnormal(near)) return 0;
  return static_cast<double>((want < z ? z - want : want - z) / Wide{ulp_of<double>(near)});
}

template <class T>
Worst random_pairs(Index pairs) {
  Worst worst;
  std::mutex mutex;
  parallel_for(pairs / kernels::kMapBlock, 1, [&](Index begin, Index end) {
    std::vector<T> x(kernels::kMapBlock), y(x.size()), z(x.size());
    Worst mine;
    for (Index block = begin; block < end; ++block) {
      std::mt19937_64 bits(static_cast<std::uint64_t>(block));
      for (std::size_t i = 0; i < x.size(); ++i) draw_pair(bits, x[i], y[i]);
      kernels::MapArguments m{};
      m.inner_size = kernels::kMapBlock;
      m.data[0] = z.data(), m.data[1] = x.data(), m.data[2] = y.data();
      for (Index& stride : m.inner_strides) stride = 1;
      const kernels::DenormalMode mode(dtype_of<T>);
      kernels::body_of(kernels::table().power, dtype_of<T>)(&m, 0, 1);
      for (std::size_t i = 0; i < x.size(); ++i) mine.see(pair_error(x[i], y[i], z[i]), x[i], y[i]);
    }
    const std::lock_guard lock(mutex);
    worst.see(mine);
  });
  return worst;
}

bool is_among(std::string_view name, std::string_view names) {
  for (std::size_t start = 0; start <= names.size();) {
    const std::size_t end = std::min(names.find(',', start), names.size());
    if (names.substr(start, end - start) == name) return true;
    start = end + 1;
  }
  return names.empty();
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t every = 1;
  Index doubles = 10'000'000, pairs = 1'000'000'000;
  std::string_view only;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view option = words[i];
    if (option == "--row")
      set_row(words[i + 1]);
    else if (option == "--function")
      only = words[i + 1];
    else if (option == "--every")
      every = std::strtoull(words[i + 1], nullptr, 10);
    else if (option == "--doubles")
      doubles = std::strtoll(words[i + 1], nullptr, 10);
    else if (option == "--pairs")
      pairs = std::strtoll(words[i + 1], nullptr, 10);
    else
      return fmt::print(stderr, "ulp: unknown option {}\n", option), 2;
  }
  fmt::print("row {}, one float in {}, {} pairs for pow, {} doubles against {} bits\n\n", row(), every, pairs, doubles,
             sizeof(Wide) == 16 && std::is_same_v<Wide, long double> ? 64 : 113);
  fmt::print("{:<10} {:>8} {:>16} {:>10} {:>24}\n", "", "f32 ulp", "at", "f64 ulp", "at");
  for (const Function& f : kFunctions) {
    if (!is_among(f.name, only)) continue;
    const Worst floats = all_floats(f, every), exact = random_doubles(f, doubles);
    fmt::print("{:<10} {:>8.3f} {:>16.9g} {:>10.3f} {:>24.17g}\n", f.name, floats.ulp, floats.at, exact.ulp,
               exact.at);
    std::fflush(stdout);
  }
  if (!is_among("pow", only)) return 0;
  const Worst floats = random_pairs<float>(pairs), exact = random_pairs<double>(doubles);
  fmt::print("{:<10} {:>8.3f} {:>16.9g} {:>10.3f} {:>24.17g}\n", "pow", floats.ulp, floats.at, exact.ulp, exact.at);
  fmt::print("{:<10} {:>8} {:>16.9g} {:>10} {:>24.17g}\n", "  to the", "", floats.to, "", exact.to);
}
