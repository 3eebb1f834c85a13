// Entmax with alpha = 1.5 over an axis (Peters, Niculae & Martins 2019), between softmax and sparsemax:
// y = max(x / 2 - tau, 0)², sum 1. Weights below a threshold are exactly 0, and get no gradient. -inf, NaN
// and +inf as softmax has them.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/sparse_softmax.h"

namespace attune {

inline Var entmax15(Var x, int axis = -1) {
  check(x.rank() >= 1, "entmax15: {} has no row to normalise", x.shape());
  const int along = x.shape().axis(axis, "entmax15");
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::entmax15(axis_last(into(y), along), axis_last(x.value(), along));
  return record("entmax15", y, [=] {
    if (Out d = add_to(x))  // dx += r (dy - sum(r dy) / sum(r)), r = sqrt(y)
      kernels::entmax15_backward(axis_last(d, along), axis_last(y.grad(), along),
                                 axis_last(y.value(), along));
  });
}

}  // namespace attune
