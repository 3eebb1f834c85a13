// Layer normalisation over the last axis (Ba, Kiros & Hinton 2016).
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, each row with its own mean and (biased)
// variance.
//
// Shapes: x and y [..., C], C at least 1; weight and bias [C]; statistics [..., 3]. One element type, any
// strides; y may be x itself; statistics may be unwanted, and cannot accumulate. They are what backward needs:
// the mean as rounded, what the rounding lost (the mean of x - mean), and 1 / sqrt(variance + epsilon). With
// both parts of the mean an f32 row of mean 1e4 and deviation 1e-2 still comes out right.
void layer_norm(const Out& y, const Out& statistics, const ConstView& x, const ConstView& weight,
                const ConstView& bias, double epsilon);

// The gradients of x, weight and bias, of their shapes; each may be unwanted. With n = (x - mean) / deviation
// and g = dy * weight: dx = (g - mean(g) - n * mean(g * n)) / deviation; dweight = sum of dy * n over rows;
// dbias = sum of dy. Rows are summed in chunks of 64, and chunks in double, in order. dx may be dy itself.
void layer_norm_backward(const Out& dx, const Out& dweight, const Out& dbias, const ConstView& dy,
                         const ConstView& x, const ConstView& weight, const ConstView& statistics);

}  // namespace attune::kernels
