// Rows of length 1, over the last axis: y = x / sqrt(sum(x²) + epsilon). Of queries and keys it makes QK-norm
// (Henry et al. 2020): attention(l2_normalize(q), l2_normalize(k), v, {.scale = g}), g learned.
#pragma once

#include <cmath>

#include "attune/autograd/ops/rms_norm.h"

namespace attune {

// x [..., C] -> [..., C]. A row of zeros stays, and its gradient is finite where epsilon is above 0. The default matters to
// rows shorter than 1e-12. A finite row whose squares overflow gives zeros, as in rms_norm: longer than 1.8e19 in f32.
inline Var l2_normalize(Var x, double epsilon = 1e-24) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "l2_normalize: {} has no row to normalise", x.shape());
  check(epsilon >= 0, "l2_normalize: an epsilon of {} is negative", epsilon);
  // sum(x²) = C mean(x²), so that it is rms_norm with a weight of 1/sqrt(C).
  const auto width = static_cast<double>(x.shape().last());
  const Var weight = scalar(1 / std::sqrt(width), x);
  return rms_norm(x, expand(weight, {x.shape().last()}), epsilon / width);
}

}  // namespace attune
