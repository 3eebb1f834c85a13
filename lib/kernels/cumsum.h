// Running sums along the last axis.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

enum class Direction { forwards, backwards };

// y[..., i] = x[..., 0] + ... + x[..., i], or, backwards, x[..., i] + ... + x[..., n - 1], which is the
// gradient of the other. Each row is added up in double, one element after the other, and each result rounded
// once. One shape, of rank 1 or more, and one element type; any strides; y may be x itself.
void cumsum(const Out& y, const ConstView& x, Direction direction = Direction::forwards);

}  // namespace attune::kernels
