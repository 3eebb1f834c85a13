// y = min(max(x, low), high), element by element: infinite bounds do nothing, and NaN stays NaN, with the slope 0. On
// the bounds the slope is 1. Throws where low is above high, or either is NaN.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var clamp(Var x, double low, double high) {
  check(low <= high, "clamp: the lower bound {} is above the upper bound {}", low, high);
  Var y = output(x.shape(), {x});
  kernels::clamp(into(y), x.value(), low, high);
  return record("clamp", y, [=] {
    if (Out d = add_to(x))  // dx += dy where low <= x <= high
      kernels::clamp_backward(d, y.grad(), x.value(), low, high);
  });
}

}  // namespace attune
