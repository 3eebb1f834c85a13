// The logistic function, element by element: y = 1 / (1 + exp(-x)). The rule goes by way of x, since 1 - y loses digits.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var sigmoid(Var x) {
  Var y = output(x.shape(), {x});
  kernels::sigmoid(into(y), x.value());
  return record("sigmoid", y, [=] {
    if (Out d = add_to(x)) kernels::sigmoid_backward(d, y.grad(), x.value());  // dx += dy * y (1 - y), by way of x
  });
}

}  // namespace attune
