// y = cos(x), element by element, x in radians of any size.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var cos(Var x) {
  Var y = output(x.shape(), {x});
  kernels::cos(into(y), x.value());
  return record("cos", y, [=] {
    if (Out d = add_to(x)) {
      const View slope = scratch(x.shape(), x.dtype());
      kernels::sin(slope, x.value());
      kernels::scale(slope, slope, -1);
      kernels::multiply(d, y.grad(), slope);  // dx -= dy * sin(x)
    }
  });
}

}  // namespace attune
