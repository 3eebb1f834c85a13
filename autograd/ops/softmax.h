// Softmax over an axis: y = exp(x) / sum(exp(x)), without overflow (Bridle 1990). An entry of -inf gets exactly 0, and
// a row of nothing else is all 0; NaN or +inf makes its row NaN. With `visible`, the causal one of attention, over the
// last axis: unseen entries are exactly 0.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/softmax.h"

namespace attune {

inline Var softmax(Var x, int axis = -1) {
  check(x.rank() >= 1, "softmax: {} has no row to normalise", x.shape());
  const int along = x.shape().axis(axis, "softmax");
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::softmax(axis_last(into(y), along), axis_last(x.value(), along));
  return record("softmax", y, [=] {
    if (Out d = add_to(x))  // dx += y * (dy - dy·y)
      kernels::softmax_backward(axis_last(d, along), axis_last(y.grad(), along), axis_last(y.value(), along));
  });
}

inline Var softmax(Var x, const kernels::Visible& visible) {
  check(x.rank() >= (visible.all ? 1 : 2), "softmax: {} has no row to normalise", x.shape());
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::softmax(into(y), x.value(), visible);
  return record("softmax", y, [=] {
    if (Out d = add_to(x))
      kernels::softmax_backward(d, y.grad(), y.value(), visible);  // dx += y * (dy - dy·y)
  });
}

}  // namespace attune
