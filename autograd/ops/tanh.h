// y = tanh(x), element by element. The rule goes by way of x, since 1 - y² loses digits.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var tanh(Var x) {
  Var y = output(x.shape(), {x});
  kernels::tanh(into(y), x.value());
  return record("tanh", y, [=] {
    if (Out d = add_to(x)) kernels::tanh_backward(d, y.grad(), x.value());  // dx += dy * (1 - y²), by way of x
  });
}

}  // namespace attune
