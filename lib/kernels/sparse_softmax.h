// Softmax's sparse relatives, over the last axis: weights that sum to 1, many of them exactly 0. Rows as
// softmax has them: an entry of -inf gets exactly 0, a row of nothing else is all 0, NaN or +inf makes its
// row NaN.
//
// One shape and one element type; any strides. f32 rows are computed in double and rounded once.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y = max(x - tau, 0), with tau such that y sums to 1: the point of the simplex nearest to x (Martins &
// Astudillo 2016). Backward, over the support S where y > 0: dx = dy - mean_S(dy), else 0.
void sparsemax(const Out& y, const ConstView& x);
void sparsemax_backward(const Out& dx, const ConstView& dy, const ConstView& y);

// y = max(x / 2 - tau, 0)², likewise: entmax with alpha = 1.5 (Peters, Niculae & Martins 2019). Backward,
// with r = sqrt(y): dx = r (dy - sum(r dy) / sum(r)).
void entmax15(const Out& y, const ConstView& x);
void entmax15_backward(const Out& dx, const ConstView& dy, const ConstView& y);

}  // namespace attune::kernels
