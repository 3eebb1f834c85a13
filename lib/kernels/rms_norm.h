// Root-mean-square normalisation over the last axis (Zhang & Sennrich 2019).
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y = x / sqrt(mean(x²) + epsilon) * weight, each row with its own mean.
//
// Shapes: x and y [..., C], C at least 1; weight [C]; statistics [..., 1], which backward needs, is the
// factor 1 / sqrt(mean(x²) + epsilon); it may be unwanted, and cannot accumulate. One element type, any
// strides; y may be x itself.
void rms_norm(const Out& y, const Out& statistics, const ConstView& x, const ConstView& weight,
              double epsilon);

// The gradients of x and weight, of their shapes; each may be unwanted. With n = x * factor and
// g = dy * weight: dx = (g - n * mean(g * n)) * factor; dweight = the sum of dy * n over rows, in chunks of 64,
// and chunks in double, in order. dx may be dy itself.
void rms_norm_backward(const Out& dx, const Out& dweight, const ConstView& dy, const ConstView& x,
                       const ConstView& weight, const ConstView& statistics);

}  // namespace attune::kernels
