// The same numbers as row_statistics, of rows that another normalizer than softmax makes of their scores.
#pragma once

#include <span>

#include "attune/layers/attention.h"
#include "attune/layers/saturation/row_statistics.h"

namespace attune {

// Weights, and the Jacobian dp/ds: of sparsemax a projection, ‖J‖_F = sqrt(|S| - 1) for a support of |S|
// keys, so that a row of one key is dead exactly; of entmax15 diag(r) - r rᵀ / sum r with r = sqrt(p); of
// sigmoid diag(p (1 - p)), n the scores that are not -inf. Entropy and participation are those of p / sum p;
// `rest` is sum p - p₁. A sink (softmax1 has one of 0) is one of the scores. `weights`, where given, gets p.
RowStatistics row_statistics(std::span<const double> scores, Normalizer normalizer,
                             std::span<double> weights = {});

// y = J x; spans of one size, y may be x. What has no weight gets 0, whatever its x.
void apply_jacobian(std::span<double> y, std::span<const double> weights, std::span<const double> x,
                    Normalizer normalizer);

}  // namespace attune
