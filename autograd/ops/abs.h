// y = |x|, element by element. The slope at 0 is 0.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var abs(Var x) {
  Var y = output(x.shape(), {x});
  kernels::abs(into(y), x.value());
  return record("abs", y, [=] {
    if (Out d = add_to(x)) {
      const View sign = scratch(x.shape(), x.dtype());
      kernels::sign(sign, x.value());
      kernels::multiply(d, y.grad(), sign);  // dx += dy * sign(x)
    }
  });
}

}  // namespace attune
