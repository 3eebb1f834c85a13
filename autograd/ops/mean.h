// y = the mean of x over some axes, or over all. Of nothing it is an error.
#pragma once

#include "attune/autograd/reduction.h"

namespace attune {

inline Var mean(Var x, const AxisList& axes = {}, Axes reduced = Axes::go) {
  const Shape kept = reduced_shape(x.shape(), axes, "mean"), full = x.shape();
  check(full.count() > 0, "mean: {} has no element to average", full);
  Var y = output(reduced == Axes::stay ? kept : without_axes(x.shape(), axes), {x}, Saves::nothing);
  kernels::mean(into(y).view.reshape(kept), x.value());
  const double share = static_cast<double>(kept.count()) / static_cast<double>(full.count());
  return record("mean", y, [=] {
    if (Out d = add_to(x)) kernels::scale(d, y.grad().reshape(kept).expand(full), share);  // dx += dy / n
  });
}

}  // namespace attune
