// The largest and the smallest element of each row, and where it stands.
//
// Rows are the last axis, [..., n] with n at least 1. A NaN counts as larger and as smaller than any number,
// so that the row's result is NaN. Any strides.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y [...], of x's element type. Of duals that share the largest value the tangent is the mean of theirs.
void max(const Out& y, const ConstView& x);
void min(const Out& y, const ConstView& x);

// The gradient of both, from their result: each of the elements that equal y gets the same share of dy [...],
// the others 0. Where y is NaN the NaNs share.
void extreme_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& y);

// y [...], i32: the index of the first of the largest, or smallest, elements.
void argmax(const Out& y, const ConstView& x);
void argmin(const Out& y, const ConstView& x);

}  // namespace attune::kernels
