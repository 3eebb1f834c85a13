// y = exp(x) - 1, element by element, to the last digits where x is small.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var expm1(Var x) {
  Var y = output(x.shape(), {x});
  kernels::expm1(into(y), x.value());
  return record("expm1", y, [=] {
    if (Out d = add_to(x)) {
      const View slope = scratch(x.shape(), x.dtype());
      kernels::exp(slope, x.value());         // not y + 1, whose digits are gone far below 0
      kernels::multiply(d, y.grad(), slope);  // dx += dy * exp(x)
    }
  });
}

}  // namespace attune
