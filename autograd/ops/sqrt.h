// y = sqrt(x), element by element: NaN below 0. The slope at 0 is infinite, as IEEE 754 has 1 / 0.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var sqrt(Var x) {
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::sqrt(into(y), x.value());
  return record("sqrt", y, [=] {
    if (Out d = add_to(x)) {
      const View twice = scratch(x.shape(), x.dtype());
      kernels::scale(twice, y.value(), 2);
      kernels::divide(d, y.grad(), twice);  // dx += dy / (2 y)
    }
  });
}

}  // namespace attune
