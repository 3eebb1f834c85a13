// y = sin(x), element by element, x in radians of any size.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var sin(Var x) {
  Var y = output(x.shape(), {x});
  kernels::sin(into(y), x.value());
  return record("sin", y, [=] {
    if (Out d = add_to(x)) {
      const View slope = scratch(x.shape(), x.dtype());
      kernels::cos(slope, x.value());
      kernels::multiply(d, y.grad(), slope);  // dx += dy * cos(x)
    }
  });
}

}  // namespace attune
