// The logarithm of a softmax: y = x - log(sum(exp(x))) along an axis, without overflow.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/log_softmax.h"

namespace attune {

// Where all of x is -inf so is y, with the gradient 0, as softmax is 0 there. NaN or +inf makes its row NaN.
inline Var log_softmax(Var x, int axis = -1) {
  check(x.rank() >= 1, "log_softmax: {} has no row to normalise", x.shape());
  const int along = x.shape().axis(axis, "log_softmax");
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::log_softmax(axis_last(into(y), along), axis_last(x.value(), along));
  return record("log_softmax", y, [=] {
    if (Out d = add_to(x))  // dx += dy - exp(y) * sum(dy)
      kernels::log_softmax_backward(axis_last(d, along), axis_last(y.grad(), along),
                                    axis_last(y.value(), along));
  });
}

}  // namespace attune
