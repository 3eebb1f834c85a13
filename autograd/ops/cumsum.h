// Running sums along an axis: y_i = x_0 + ... + x_i.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/cumsum.h"

namespace attune {

inline Var cumsum(Var x, int axis) {
  const int along = x.shape().axis(axis, "cumsum");
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::cumsum(axis_last(into(y), along), axis_last(x.value(), along));
  return record("cumsum", y, [=] {
    if (Out d = add_to(x))  // dx_i += dy_i + ... + dy_(n - 1)
      kernels::cumsum(axis_last(d, along), axis_last(y.grad(), along), kernels::Direction::backwards);
  });
}

}  // namespace attune
