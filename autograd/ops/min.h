// y = the smallest of x over some axes, or over all. A NaN among them makes it NaN.
#pragma once

#include "attune/autograd/ops/max.h"

namespace attune {

// Equal ones share the gradient, as those of max do.
inline Var min(Var x, const AxisList& axes = {}, Axes reduced = Axes::go) {
  const AxisRows rows(x.shape(), axes, "min");
  return detail::extreme("min", kernels::min, x, rows, reduced, std::source_location::current());
}

}  // namespace attune
