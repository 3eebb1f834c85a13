// The logarithm of a sum of exponentials, and of a softmax, over the last axis; neither overflows.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y = log(sum(exp(x))) along the last axis: [..., n] -> [...]. An empty row, and one of nothing but -inf, is
// -inf; one with +inf is +inf; one with NaN is NaN. `statistics` [..., 2], which backward needs, may be
// unwanted: the shift m (the row's maximum, 0 where that is infinite) and 1 / sum(exp(x - m)). One element
// type, any strides; nothing accumulates.
void logsumexp(const Out& y, const Out& statistics, const ConstView& x);

// dx = dy * exp(x - y): exactly 0 for an entry of -inf, also in a row of nothing else; NaN for an entry of
// +inf. dy [...].
void logsumexp_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& statistics);

// y = (x - max) - log(sum(exp(x - max))) along the last axis; one shape, of rank 1 or more. -inf where
// softmax is 0: a row of nothing but -inf stays so. A row with NaN or +inf is NaN. y may be x itself.
void log_softmax(const Out& y, const ConstView& x);

// dx = dy - exp(y) * sum(dy), from the result y; 0 in a row of nothing but -inf. dx may be dy itself.
void log_softmax_backward(const Out& dx, const ConstView& dy, const ConstView& y);

}  // namespace attune::kernels
