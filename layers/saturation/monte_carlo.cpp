#include "attune/layers/saturation/monte_carlo.h"

#include <algorithm>
#include <cmath>

#include "attune/lib/error.h"
#include "attune/lib/math.h"
#include "attune/lib/random.h"

namespace attune {
namespace {

// The sum of `count` squared normal numbers: twice a gamma number of shape count / 2 (Marsaglia & Tsang
// 2000).
double chi_squared(Index count, Rng& rng) {
  if (count == 0) return 0;
  if (count == 1) {
    const double x = rng.normal();
    return x * x;
  }
  const double d = static_cast<double>(count) / 2 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal(), root = 1 + c * x, v = root * root * root;
    const double u = rng.uniform();
    if (v > 0 && math::log(1 - u) < x * x / 2 + d * (1 - v + math::log(v))) return 2 * d * v;
  }
}

void check_draw(Index keys, Index rows) {
  check(keys >= 1 && rows >= 1, "draw: {} rows of {} keys; at least 1 of each is needed", rows, keys);
}

}  // namespace

Sample::Sample(std::vector<double> values) : sorted_(std::move(values)) {
  check(!sorted_.empty(), "Sample: no numbers");
  std::sort(sorted_.begin(), sorted_.end());
  const auto n = static_cast<double>(sorted_.size());
  double sum = 0, squares = 0, spread = 0;
  for (const double x : sorted_) sum += x, squares += x * x;
  mean_ = sum / n;
  root_mean_square_ = std::sqrt(squares / n);
  for (const double x : sorted_) spread += (x - mean_) * (x - mean_);
  standard_error_ = sorted_.size() > 1 ? std::sqrt(spread / (n - 1) / n) : 0;
}

double Sample::z_score(double exact) const { return mean_ == exact ? 0 : (mean_ - exact) / standard_error_; }

double Sample::quantile(double q) const {
  check(q >= 0 && q <= 1, "Sample: a quantile of {} is not between 0 and 1", q);
  const double place = q * static_cast<double>(sorted_.size() - 1), whole = std::floor(place);
  const auto below = static_cast<std::size_t>(whole), above = std::min(below + 1, sorted_.size() - 1);
  return sorted_[below] + (place - whole) * (sorted_[above] - sorted_[below]);
}

double Sample::below(double threshold) const {
  const auto end = std::lower_bound(sorted_.begin(), sorted_.end(), threshold);
  return static_cast<double>(end - sorted_.begin()) / static_cast<double>(sorted_.size());
}

std::vector<RowStatistics> draw_rows(const DrawnRows& options) {
  check_draw(options.keys, options.rows);
  std::vector<RowStatistics> rows;
  std::vector<double> scores(static_cast<std::size_t>(options.keys));
  Rng rng(options.seed);
  for (Index row = 0; row < options.rows; ++row) {
    for (double& s : scores) s = options.sigma * rng.normal();
    rows.push_back(row_statistics(scores));
  }
  return rows;
}

Sample draw_query_gradients(const DrawnGradients& options) {
  check_draw(options.keys, options.rows);
  check(options.width >= 1 && options.value_width >= 0, "draw: widths of {} and {}", options.width,
        options.value_width);
  const Index value_width = options.value_width > 0 ? options.value_width : options.width;
  const auto n = static_cast<std::size_t>(options.keys);
  std::vector<double> z(n), scores(n), slopes(n), norms;
  for (Index row = 0; row < options.rows; ++row) {
    Rng rng = Rng(options.seed)
                  .split(static_cast<std::uint64_t>(row));  // chi_squared takes as many draws as it needs
    const double sigma = options.scale * std::sqrt(chi_squared(options.width, rng));
    const double upstream = std::sqrt(chi_squared(value_width, rng));
    for (std::size_t j = 0; j < n; ++j) {
      z[j] = rng.normal();
      scores[j] = sigma * z[j];
      slopes[j] = upstream * rng.normal();  // dL/dp_j = v_j · dL/dy
    }
    apply_jacobian(slopes, scores, slopes);
    double along = 0, squares = 0;  // dL/dq = scale sum ds_j k_j, along q and at right angles to it
    for (std::size_t j = 0; j < n; ++j) along += slopes[j] * z[j], squares += slopes[j] * slopes[j];
    norms.push_back(std::abs(options.scale) *
                    std::sqrt(along * along + squares * chi_squared(options.width - 1, rng)));
  }
  return Sample(std::move(norms));
}

}  // namespace attune
