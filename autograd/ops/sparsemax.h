// Sparsemax over an axis (Martins & Astudillo 2016): the point of the simplex nearest to x, y = max(x - tau,
// 0). Weights below a threshold are exactly 0, and get no gradient. The slope where y is just 0 is 0. -inf,
// NaN and +inf as softmax has them.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/sparse_softmax.h"

namespace attune {

inline Var sparsemax(Var x, int axis = -1) {
  check(x.rank() >= 1, "sparsemax: {} has no row to normalise", x.shape());
  const int along = x.shape().axis(axis, "sparsemax");
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::sparsemax(axis_last(into(y), along), axis_last(x.value(), along));
  return record("sparsemax", y, [=] {
    if (Out d = add_to(x))  // dx += dy - its mean over the keys where y > 0, and 0 elsewhere
      kernels::sparsemax_backward(axis_last(d, along), axis_last(y.grad(), along),
                                  axis_last(y.value(), along));
  });
}

}  // namespace attune
