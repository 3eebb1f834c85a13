// y = x above 0, slope * x elsewhere (Maas, Hannun & Ng 2013). At 0 the slope is `slope`.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var leaky_relu(Var x, double slope = 0.01) {
  Var y = output(x.shape(), {x});
  kernels::leaky_relu(into(y), x.value(), slope);
  return record("leaky_relu", y, [=] {
    if (Out d = add_to(x))  // dx += dy * (x > 0 ? 1 : slope)
      kernels::leaky_relu_backward(d, y.grad(), x.value(), slope);
  });
}

}  // namespace attune
