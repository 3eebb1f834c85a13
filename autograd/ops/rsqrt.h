// y = 1 / sqrt(x), element by element: a true root and a true quotient, inf at 0.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var rsqrt(Var x) {
  Var y = output(x.shape(), {x});
  kernels::sqrt(into(y), x.value());
  kernels::divide(into(y), kernels::Number(1, x.dtype()), y.value());
  return record("rsqrt", y, [=] {
    if (Out d = add_to(x)) {
      const View twice = scratch(x.shape(), x.dtype());
      kernels::scale(twice, x.value(), 2);
      kernels::divide_backward(d, y.grad(), y.value(), twice);  // dx -= dy * y / (2 x)
    }
  });
}

}  // namespace attune
