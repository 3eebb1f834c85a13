// y = log(1 + exp(x)), element by element: a smooth max(x, 0) (Dugas et al. 2001).
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var softplus(Var x) {
  Var y = output(x.shape(), {x});
  kernels::softplus(into(y), x.value());
  return record("softplus", y, [=] {
    if (Out d = add_to(x)) {
      const View slope = scratch(x.shape(), x.dtype());
      kernels::sigmoid(slope, x.value());
      kernels::multiply(d, y.grad(), slope);  // dx += dy * sigmoid(x)
    }
  });
}

}  // namespace attune
