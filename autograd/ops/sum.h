// y = the sum of x over some axes, or over all. The sum of nothing is 0.
#pragma once

#include "attune/autograd/reduction.h"

namespace attune {

inline Var sum(Var x, const AxisList& axes = {}, Axes reduced = Axes::go) {
  const Shape kept = reduced_shape(x.shape(), axes, "sum"), full = x.shape();
  Var y = output(reduced == Axes::stay ? kept : without_axes(x.shape(), axes), {x}, Saves::nothing);
  kernels::sum(into(y).view.reshape(kept), x.value());
  return record("sum", y, [=] {
    if (Out d = add_to(x)) kernels::copy(d, y.grad().reshape(kept).expand(full));  // dx += dy, to every summand
  });
}

}  // namespace attune
