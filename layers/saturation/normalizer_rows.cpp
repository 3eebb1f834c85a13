#include "attune/layers/saturation/normalizer_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attune/layers/saturation/spans.h"
#include "attune/lib/error.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/sparse_softmax.h"
#include "attune/lib/math.h"

namespace attune {
namespace {

bool is_softmax(Normalizer normalizer) {
  return normalizer == Normalizer::softmax || normalizer == Normalizer::softmax1;
}

void normalize(std::vector<double>& p, std::span<const double> scores, Index keys, Normalizer normalizer) {
  thread_local std::vector<double> x;
  x.assign(scores.begin(), scores.end());
  p.resize(x.size());
  if (normalizer == Normalizer::sigmoid)
    for (double& s : x) s -= math::log(static_cast<double>(keys));
  const View from = detail::as_view(x), to = detail::as_view(p);
  if (normalizer == Normalizer::sigmoid) kernels::sigmoid(to, from);
  if (normalizer == Normalizer::sparsemax) kernels::sparsemax(to, from);
  if (normalizer == Normalizer::entmax15) kernels::entmax15(to, from);
}

void describe_weights(RowStatistics& row, std::span<const double> p) {
  thread_local std::vector<double> shares;
  shares.clear();
  double sum = 0, squares = 0, most = 0;
  for (const double x : p) sum += x, squares += x * x, most = std::max(most, x);
  for (const double x : p)
    if (x > 0) shares.push_back(x / sum);
  row.entropy = row_statistics_of_weights(shares).entropy;
  row.max_weight = most;
  row.rest = 0;
  bool is_first = true;
  for (const double x : p)
    if (x == most && is_first)
      is_first = false;
    else
      row.rest += x;
  row.sum_squares = squares / (sum * sum);
}

// J = diag(r) - r rᵀ / R, R = sum r, is R times the Jacobian of softmax where that has the weights r / R.
void describe_sparse_jacobian(RowStatistics& row, std::span<const double> p, Normalizer normalizer) {
  thread_local std::vector<double> shares;
  shares.clear();
  double total = 0;
  for (const double x : p)
    if (x > 0) {
      shares.push_back(normalizer == Normalizer::sparsemax ? 1 : std::sqrt(x));
      total += shares.back();
    }
  for (double& share : shares) share /= total;
  const RowStatistics jacobian = row_statistics_of_weights(shares);
  row.trace = total * jacobian.trace;
  row.frobenius = total * jacobian.frobenius;
  row.spectral = total * jacobian.spectral;
}

void describe_diagonal_jacobian(RowStatistics& row, std::span<const double> p) {
  row.trace = row.spectral = 0;
  double squares = 0;
  for (const double x : p) {
    const double slope = x * (1 - x);
    row.trace += slope;
    squares += slope * slope;
    row.spectral = std::max(row.spectral, slope);
  }
  row.frobenius = std::sqrt(squares);
}

}  // namespace

RowStatistics row_statistics(std::span<const double> scores, Normalizer normalizer,
                             std::span<double> weights) {
  RowStatistics row = row_statistics(scores, weights);  // what it says of the scores alone holds for all
  if (is_softmax(normalizer) || row.keys == 0 || std::isnan(row.entropy)) return row;
  thread_local std::vector<double> p;
  normalize(p, scores, row.keys, normalizer);
  describe_weights(row, p);
  if (normalizer == Normalizer::sigmoid)
    describe_diagonal_jacobian(row, p);
  else
    describe_sparse_jacobian(row, p, normalizer);
  std::copy_n(p.begin(), weights.size(), weights.begin());
  return row;
}

void apply_jacobian(std::span<double> y, std::span<const double> weights, std::span<const double> x,
                    Normalizer normalizer) {
  if (is_softmax(normalizer)) return apply_jacobian_of_weights(y, weights, x);
  check(y.size() == weights.size() && x.size() == weights.size(),
        "apply_jacobian: {} results for {} weights and {} numbers", y.size(), weights.size(), x.size());
  thread_local std::vector<double> p, dy;  // copies: y may be x
  p.assign(weights.begin(), weights.end()), dy.assign(x.begin(), x.end());
  if (normalizer == Normalizer::sigmoid) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] = p[j] == 0 ? 0 : p[j] * (1 - p[j]) * dy[j];
  } else if (normalizer == Normalizer::sparsemax) {
    kernels::sparsemax_backward(detail::as_view(y), detail::as_view(dy), detail::as_view(p));
  } else {
    kernels::entmax15_backward(detail::as_view(y), detail::as_view(dy), detail::as_view(p));
  }
}

}  // namespace attune
