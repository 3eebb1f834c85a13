#include "attune/layers/saturation/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attune/layers/saturation/spans.h"
#include "attune/lib/error.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/run.h"
#include "attune/lib/math.h"

namespace attune {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// The scores in one pass: where the largest is, and what is said of scores alone.
struct Scores {
  Index keys = 0;
  std::size_t top = 0;  // where the largest is
  double first = kHidden, second = kHidden;
  double largest_size = 0, mean = 0;
  bool broken = false;  // a NaN or +inf among them
};

Scores look_at(std::span<const double> scores) {
  Scores seen;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const double s = scores[j];
    if (s == kHidden) continue;
    if (!std::isfinite(s)) seen.broken = true;
    ++seen.keys;
    seen.mean += s;
    seen.largest_size = std::max(seen.largest_size, std::abs(s));
    if (s > seen.first)
      seen.second = seen.first, seen.first = s, seen.top = j;
    else
      seen.second = std::max(seen.second, s);
  }
  if (seen.keys > 0) seen.mean /= static_cast<double>(seen.keys);
  return seen;
}

double deviation(std::span<const double> scores, const Scores& seen) {
  double squares = 0;
  for (const double s : scores)
    if (s != kHidden) squares += (s - seen.mean) * (s - seen.mean);
  return std::sqrt(squares / static_cast<double>(seen.keys));
}

RowStatistics broken_row(Index keys) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return {.keys = keys,
          .entropy = nan,
          .max_weight = nan,
          .rest = nan,
          .sum_squares = nan,
          .trace = nan,
          .frobenius = nan,
          .spectral = nan,
          .logit_deviation = nan,
          .logit_max = nan,
          .logit_gap = nan};
}

// The largest eigenvalue of diag(p) - p pᵀ, as a multiple of p₂. It solves sum p² / (p - l) = 1, which with
// sum p = 1 is
//   sum over the others of r / (x - r) = 1 / (1 - e₂ x),    l = p₂ x, r = p / p₂, e₂ = p₂ / p₁,
// without a difference of large numbers. Where f(x) = 1 / (left side) - (1 - e₂ x) is 0: f grows and is
// concave, so that Newton's steps from its left end never pass the root, and double the digits.
double secular_root(std::span<const double> others, double e2, double one_less_e2) {
  if (one_less_e2 <= 0) return 1;         // p₁ = p₂: the eigenvalue is p₁
  double x = 1 + one_less_e2 / (1 + e2);  // the first step, from the pole at x = 1
  for (int step = 0; step < 60; ++step) {
    double left = 0, slope = 0;
    for (const double r : others) {
      const double distance = 1 / (x - r), term = r * distance;
      left += term;
      slope += term * distance;
    }
    const double f = 1 / left - (1 - e2 * x);
    const double next = x - f / (slope / (left * left) + e2);
    if (!(next > x * (1 + 4e-16))) break;
    x = next;
  }
  return x;
}

}  // namespace

double RowStatistics::normalized_entropy() const {
  return keys > 1 ? entropy / math::log(static_cast<double>(keys)) : keys == 1 ? 0 : entropy;
}
double RowStatistics::effective_keys() const { return keys > 0 ? math::exp(entropy) : 0; }
double RowStatistics::participation() const { return keys > 0 ? 1 / sum_squares : 0; }

RowStatistics row_statistics(std::span<const double> scores, std::span<double> weights) {
  check(weights.empty() || weights.size() == scores.size(), "row_statistics: {} weights for {} scores",
        weights.size(), scores.size());
  const Scores seen = look_at(scores);
  RowStatistics row{.keys = seen.keys};
  if (seen.broken) row = broken_row(seen.keys);
  std::fill(weights.begin(), weights.end(), seen.broken ? row.entropy : 0);
  if (seen.keys == 0 || seen.broken) return row;
  if (!weights.empty()) weights[seen.top] = 1;
  const kernels::DenormalMode keeps_denormals(DType::f64);
  row.logit_deviation = deviation(scores, seen);
  row.logit_max = seen.largest_size;
  row.max_weight = row.sum_squares = 1;
  if (seen.keys == 1) return row;
  row.logit_gap = seen.first - seen.second;

  // Over the keys but the largest: r = exp(s - s₂) <= 1, and e = exp(s - s₁) = e₂ r. Sums of r do not vanish
  // where those of e² would.
  thread_local std::vector<double> others, below;
  others.clear();
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (j != seen.top && scores[j] != kHidden) others.push_back(scores[j] - seen.second);
  below = others;
  kernels::exp(detail::as_view(others), detail::as_view(others));
  double sum = 0, squares = 0, gaps = 0;  // sums of r, of r² and of r (s₂ - s)
  for (std::size_t j = 0; j < others.size(); ++j) {
    const double r = others[j];
    sum += r;
    squares += r * r;
    gaps -= r * below[j];
  }
  const double e2 = math::exp(-row.logit_gap), z = 1 + e2 * sum, p1 = 1 / z, p2 = e2 / z;
  row.max_weight = p1;
  row.rest = p2 * sum;
  row.sum_squares = p1 * p1 + p2 * p2 * squares;
  row.entropy = math::log1p(e2 * sum) + p2 * (gaps + row.logit_gap * sum);  // H = ln sum e - sum p ln e

  // tr J = sum p (1 - p), over p₂; ‖J‖² = sum p² (1 - p)² + sum over pairs of p_i² p_j², over p₂².
  double trace = p1 * sum, frobenius = (p1 * sum) * (p1 * sum);
  for (const double r : others) {
    const double p = p2 * r;
    trace += r * (1 - p);
    frobenius += r * r * ((1 - p) * (1 - p) + p1 * p1 + (row.sum_squares - p * p));
  }
  row.trace = p2 * trace;
  row.frobenius = p2 * std::sqrt(frobenius);
  if (!weights.empty()) {
    weights[seen.top] = p1;
    const double* r = others.data();
    for (std::size_t j = 0; j < scores.size(); ++j)
      if (j != seen.top && scores[j] != kHidden) weights[j] = p2 * *r++;
  }
  row.spectral = p2 * secular_root(others, e2, -math::expm1(-row.logit_gap));
  return row;
}

RowStatistics row_statistics_of_weights(std::span<const double> weights) {
  thread_local std::vector<double> scores;
  scores.assign(weights.begin(), weights.end());
  kernels::log(detail::as_view(scores), detail::as_view(scores));
  RowStatistics row = row_statistics(scores);
  row.keys = static_cast<Index>(weights.size());  // a weight of 0 is a key, too
  return row;
}

void apply_jacobian(std::span<double> y, std::span<const double> scores, std::span<const double> x) {
  check(y.size() == scores.size() && x.size() == scores.size(),
        "apply_jacobian: {} results for {} scores and {} numbers", y.size(), scores.size(), x.size());
  thread_local std::vector<double> weights;
  weights.resize(scores.size());
  row_statistics(scores, weights);
  apply_jacobian_of_weights(y, weights, x);
}

void apply_jacobian_of_weights(std::span<double> y, std::span<const double> weights,
                               std::span<const double> x) {
  check(y.size() == weights.size() && x.size() == weights.size(),
        "apply_jacobian: {} results for {} weights and {} numbers", y.size(), weights.size(), x.size());
  if (weights.empty()) return;
  // p (x - p·x) = p ((x - x₁) - p·(x - x₁)): where p₁ is 1 but for its last digits, the difference keeps
  // them.
  const kernels::DenormalMode keeps_denormals(DType::f64);
  const double top =
      x[static_cast<std::size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin())];
  double mean = 0;
  for (std::size_t j = 0; j < weights.size(); ++j)
    if (weights[j] != 0) mean += weights[j] * (x[j] - top);
  for (std::size_t j = 0; j < weights.size(); ++j)
    y[j] = weights[j] == 0 ? 0 : weights[j] * ((x[j] - top) - mean);
}

}  // namespace attune
