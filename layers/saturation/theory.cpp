#include "attune/layers/saturation/theory.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attune/layers/saturation/spans.h"
#include "attune/lib/error.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/math.h"

// Every integral is a trapezoidal sum over the whole line: for functions that are analytic around it the
// error falls as exp(-2π d / step), d the half-width of that strip (Trefethen & Weideman 2014), and the steps
// below leave nothing.
namespace attune::theory {
namespace {

constexpr double kDeviations = 9.5;  // beyond which a normal number never lies: exp(-9.5²/2) = 3e-20

double normal_below(double x) { return (1 + math::erf(x / std::numbers::sqrt2)) / 2; }
double number(Index n) { return static_cast<double>(n); }

// A(a, m) = E[w^m exp(a y - e^y)] at one u, with y = u + sigma z, and w = z less what keeps it small where
// e^(a y - e^y) is large: only differences of w's count.
struct Moments {
  double g;              // A(0, 0)
  double a10, a11;       // a = 1
  double a20, a21, a22;  // a = 2
  double score;          // E[(y - u) exp(y - e^y)]
};

class MomentsAt {
 public:
  explicit MomentsAt(double sigma) : sigma_(sigma), step_(std::min(0.5, 0.125 / sigma)) {}

  Moments operator()(double u) {
    // exp(-e^y) is 1 below y = -45 and 0 above 9, and so is normal_below(-y), which takes its place there.
    const double low = std::max(-kDeviations, (-45 - u) / sigma_),
                 high = std::min(kDeviations, (9 - u) / sigma_);
    z_.clear();
    for (double k = std::ceil(low / step_); k * step_ <= high; ++k) z_.push_back(k * step_);
    density_.resize(z_.size()), e_.resize(z_.size()), f_.resize(z_.size()), erf_.resize(z_.size());
    for (std::size_t j = 0; j < z_.size(); ++j) {
      density_[j] = -z_[j] * z_[j] / 2;
      e_[j] = u + sigma_ * z_[j];
      erf_[j] = e_[j] / std::numbers::sqrt2;
    }
    in_place(kernels::exp, density_), in_place(kernels::exp, e_), in_place(kernels::erf, erf_);
    for (std::size_t j = 0; j < z_.size(); ++j) f_[j] = -e_[j];
    in_place(kernels::exp, f_);
    return add_up(u);
  }

 private:
  static void in_place(void (*kernel)(const Out&, const ConstView&), std::vector<double>& x) {
    kernel(detail::as_view(x), detail::as_view(x));
  }

  Moments add_up(double u) const {
    Moments sum{};
    for (std::size_t j = 0; j < z_.size(); ++j) {
      const double weight = step_ / std::sqrt(2 * std::numbers::pi) * density_[j], y = u + sigma_ * z_[j];
      const double w = sigma_ < 1 ? z_[j] : y / sigma_;
      const double f1 = weight * e_[j] * f_[j], f2 = e_[j] * f1;  // e^y exp(-e^y) and e^(2y) exp(-e^y)
      sum.g += weight * (f_[j] - (1 - erf_[j]) / 2);
      sum.a10 += f1, sum.a11 += f1 * w;
      sum.a20 += f2, sum.a21 += f2 * w, sum.a22 += f2 * w * w;
      sum.score += f1 * (y - u);
    }
    // E normal_below(-u - sigma z) = normal_below(-u / sqrt(1 + sigma²)).
    sum.g = std::max(0.0, sum.g + normal_below(-u / std::sqrt(1 + sigma_ * sigma_)));
    return sum;
  }

  double sigma_, step_;
  std::vector<double> z_, density_, e_, f_, erf_;  // at each z: exp(-z²/2), e^y, exp(-e^y), erf(y / sqrt 2)
};

ExpectedRow uniform_row(Index keys) {
  const double n = number(keys);
  ExpectedRow row;
  row.log_sum_exp = row.entropy = math::log(n);
  row.normalized_entropy = 1;
  row.sum_squares = 1 / n;
  row.trace = 1 - 1 / n;
  row.frobenius_squared = row.along_query = (n - 1) / (n * n);
  return row;
}

void check_row(double sigma, Index keys) {
  check(sigma >= 0 && std::isfinite(sigma), "theory: a deviation of {} is not a number >= 0", sigma);
  check(keys >= 2, "theory: {} keys; at least 2 are needed", keys);
}

// row += weight * other
void add(ExpectedRow& row, double weight, const ExpectedRow& other) {
  for (double ExpectedRow::*field :
       {&ExpectedRow::log_sum_exp, &ExpectedRow::entropy, &ExpectedRow::normalized_entropy,
        &ExpectedRow::sum_squares, &ExpectedRow::trace, &ExpectedRow::mean_score,
        &ExpectedRow::frobenius_squared, &ExpectedRow::along_query})
    row.*field += weight * other.*field;
}

// visit(|q|, weight) over the lengths of q ~ N(0, I_d); weights sum to 1. In x = ln |q| their density is
// exp(d x - e^(2x) / 2), largest at |q|² = d.
template <class Visit>
void over_lengths(Index width, Visit&& visit) {
  check(width >= 1, "theory: a width of {} must be at least 1", width);
  const double d = number(width), mode = math::log(d) / 2;
  const double step = std::min(0.2, 0.8 / std::sqrt(2 * d));
  const auto density = [&](double x) {
    return math::exp(d * (x - mode) - d * math::expm1(2 * (x - mode)) / 2);
  };
  Index low = 0, high = 0;
  double total = 0;
  while (density(mode + number(low) * step) > 1e-14) --low;
  while (density(mode + number(high) * step) > 1e-14) ++high;
  for (Index k = low; k <= high; ++k) total += density(mode + number(k) * step);
  for (Index k = low; k <= high; ++k) {
    const double x = mode + number(k) * step;
    visit(math::exp(x), density(x) / total);
  }
}

double distance_of_least_entropy(double norm, Index keys) {
  check(keys >= 2 && norm >= 0, "theory: scores of norm {} over {} keys", norm, keys);
  return norm * std::sqrt(number(keys) / number(keys - 1));
}

}  // namespace

ExpectedRow expected_row(double sigma, Index keys) {
  check_row(sigma, keys);
  if (sigma == 0) return uniform_row(keys);
  const double n = number(keys), widest = std::max(sigma, 1.0), step = std::max(0.125, sigma / 24);
  MomentsAt moments_at(sigma);
  const double pairs = n * (n - 1), triples = pairs * (n - 2);

  double maximum = 0;
  ExpectedRow row;
  const double low = -(45 + math::log(n) + kDeviations * sigma), high = kDeviations * widest + 9;
  for (double k = std::floor(low / step); k * step <= high; ++k) {
    const double u = k * step;
    const Moments a = moments_at(u);
    const double power3 = keys >= 3 ? math::pow(a.g, n - 3) : 0;  // G^(n-3) and its multiples
    const double power2 = keys >= 3 ? power3 * a.g : 1, power1 = power2 * a.g;
    maximum += normal_below(-u / widest) - power1 * a.g;
    row.sum_squares += n * a.a20 * power1;        // E[sum p²]                            Γ(2) = 1
    row.trace += pairs * a.a10 * a.a10 * power2;  // E[sum over pairs of p_i p_j]         Γ(2) = 1
    row.mean_score += n * a.score * power1;       // E[sum p s]                           Γ(1) = 1
    // ‖J‖² = 2 sum over pairs of p_i² p_j² + sum over triples of p_i² p_j p_k                 Γ(4) = 6
    row.frobenius_squared +=
        (2 * pairs * a.a20 * a.a20 * power2 + triples * a.a20 * a.a10 * a.a10 * power3) / 6;
    // ‖J z‖² = sum over i, j, k of p_i² p_j p_k (z_i - z_j)(z_i - z_k)
    row.along_query +=
        (2 * pairs * (a.a22 * a.a20 - a.a21 * a.a21) * power2 +
         triples * (a.a22 * a.a10 * a.a10 - 2 * a.a21 * a.a11 * a.a10 + a.a20 * a.a11 * a.a11) * power3) /
        6;
  }
  for (double ExpectedRow::*field : {&ExpectedRow::sum_squares, &ExpectedRow::trace, &ExpectedRow::mean_score,
                                     &ExpectedRow::frobenius_squared, &ExpectedRow::along_query})
    row.*field *= step;
  // ln sum e^s is the mean of max(s + g) less Euler's constant, g of Gumbel's distribution: P(max <= -u) =
  // G(u)^n.
  row.log_sum_exp = maximum * step - std::numbers::egamma;
  row.entropy = row.log_sum_exp - sigma * sigma * row.trace;  // F - sigma F'
  row.normalized_entropy = row.entropy / math::log(n);
  return row;
}

ExpectedRow expected_row(Index width, double scale, Index keys) {
  check(std::isfinite(scale), "theory: a scale of {} is not a number", scale);
  ExpectedRow mean;
  over_lengths(width, [&](double length, double weight) {
    add(mean, weight, expected_row(std::abs(scale) * length, keys));
  });
  return mean;
}

double expected_maximum(Index n) {
  check(n >= 1, "theory: the largest of {} numbers", n);
  constexpr double step = 1.0 / 32;
  double sum = 0;  // E max = ∫ (below(x) - below(x)^n) dx, since ∫ below(x) - [x > 0] = 0
  for (double x = -kDeviations; x <= kDeviations; x += step) {
    const double below = normal_below(x);
    sum += below - math::pow(below, number(n));
  }
  return sum * step;
}

double freezing_point(Index keys) { return std::sqrt(freezing_width(keys)); }
double freezing_width(Index keys) {
  check(keys >= 1, "theory: {} keys; at least 1 is needed", keys);
  return 2 * math::log(number(keys));
}

double frozen_sum_squares(double sigma, Index keys) {
  return std::max(0.0, 1 - freezing_point(keys) / sigma);
}

HotLimit hot_limit(double sigma, Index keys) {
  return {math::log(number(keys)) - sigma * sigma / 2, math::exp(sigma * sigma) / number(keys)};
}

ColdLimit cold_limit(double sigma, Index keys) {
  const double m = expected_maximum(keys), pi = std::numbers::pi, ln2 = std::numbers::ln2;
  return {.trace = m / sigma,
          .frobenius_squared = m / (3 * sigma),
          .entropy = pi * pi / 6 * m / sigma,
          .rest = ln2 * m / sigma,
          .median_frobenius = 2 * math::exp(-ln2 * sigma / m)};
}

double cold_dead_share(double sigma, Index keys, double threshold) {
  return math::exp(-expected_maximum(keys) * math::log(2 / threshold) / sigma);
}

double expected_query_gradient_squared(Index width, Index value_width, double scale, Index keys) {
  const ExpectedRow row = expected_row(width, scale, keys);
  return scale * scale * number(value_width) * (number(width - 1) * row.frobenius_squared + row.along_query);
}

double least_entropy(double norm, Index keys) {
  // n - 1 equal scores lie `gap` below one: p₁ = 1 / (1 + (n - 1) β), and gap β (n - 1) = s sqrt(n (n - 1))
  // β.
  const double gap = distance_of_least_entropy(norm, keys), others = number(keys - 1) * math::exp(-gap);
  return math::log1p(others) + gap * others / (1 + others);
}

std::vector<double> scores_of_least_entropy(double norm, Index keys) {
  const double gap = distance_of_least_entropy(norm, keys);
  std::vector<double> scores(static_cast<std::size_t>(keys), -gap / number(keys));
  scores.front() += gap;
  return scores;
}

double henry_scale(Index length) {
  check(length >= 2, "theory: a length of {}; at least 2 is needed", length);
  return math::log(number(length) * number(length - 1)) / std::numbers::ln2;
}

double largest_weight(double bound, Index keys) { return 1 / (1 + number(keys - 1) * math::exp(-2 * bound)); }

}  // namespace attune::theory
