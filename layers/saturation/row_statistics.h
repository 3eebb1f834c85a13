// How saturated one row of softmax is: what it attends to, and what its Jacobian J = diag(p) - p pᵀ lets
// through.
//
// All in double, and with all digits where the row is one-hot: a row whose largest weight is 1 - 1e-300 has
// its 1e-300, an entropy, and a Jacobian of that size. Subnormal numbers are not flushed.
#pragma once

#include <span>

#include "attune/lib/shape.h"

namespace attune {

struct RowStatistics {
  Index keys = 0;              // n, how many scores are not -inf
  double entropy = 0;          // H = -sum p ln p, in nats; 0 where p is one-hot
  double max_weight = 0;       // p₁, the largest
  double rest = 0;             // 1 - p₁, as the sum of the others
  double sum_squares = 0;      // sum p²
  double trace = 0;            // tr J = 1 - sum p²
  double frobenius = 0;        // ‖J‖_F = sqrt(sum p² - 2 sum p³ + (sum p²)²)
  double spectral = 0;         // the largest eigenvalue of J; at most 1/2
  double logit_deviation = 0;  // of the scores: sqrt of the mean squared distance from their mean
  double logit_max = 0;        // max |s|
  double logit_gap = 0;        // s₁ - s₂, the largest less the second; 0 for one key

  // H / ln n, between 0 and 1. A row of one key has none: 0.
  double normalized_entropy() const;
  // exp(H), and 1 / sum p²: how many keys take part; 0 where there is no key.
  double effective_keys() const;
  double participation() const;
  // Whether no gradient worth the name passes.
  bool is_dead(double threshold = 1e-3) const { return keys > 0 && frobenius < threshold; }
};

// Of softmax(scores). A score of -inf is a key that is not seen. Where nothing is seen all are 0, where a
// score is NaN or +inf all but `keys` are NaN. A sink (AttentionOptions::sinks) is one more score for it.
// `weights`, where given, gets the softmax itself.
RowStatistics row_statistics(std::span<const double> scores, std::span<double> weights = {});

// Of a row of softmax's own results, every one of which is a visible key, be its weight 0 or not; they sum
// to 1. What 1 - p₁ is, the others say, however small. Scores are taken to be ln p; those of a weight of 0
// are left out.
RowStatistics row_statistics_of_weights(std::span<const double> weights);

// y = J x, J = diag(p) - p pᵀ for p = softmax(scores): p (x - p·x), of as many digits as p. Spans of one
// size; y may be x. A key that is hidden, or whose weight is 0, gets 0, whatever its x.
void apply_jacobian(std::span<double> y, std::span<const double> scores, std::span<const double> x);
void apply_jacobian_of_weights(std::span<double> y, std::span<const double> weights,
                               std::span<const double> x);

}  // namespace attune
