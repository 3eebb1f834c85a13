// y = max(x, 0), element by element. The slope at 0 is 0; NaN stays NaN, with the slope 0.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var relu(Var x) {
  Var y = output(x.shape(), {x});
  kernels::relu(into(y), x.value());
  return record("relu", y, [=] {
    if (Out d = add_to(x)) kernels::relu_backward(d, y.grad(), x.value());  // dx += dy where x > 0
  });
}

}  // namespace attune
