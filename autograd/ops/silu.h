// Sigmoid linear unit: y = x * sigmoid(x) (Hendrycks & Gimpel 2016; as swish in Ramachandran, Zoph & Le 2017).
// 0 at -inf.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var silu(Var x) {
  Var y = output(x.shape(), {x});
  kernels::silu(into(y), x.value());
  return record("silu", y, [=] {
    if (Out d = add_to(x))  // dx += dy * s (1 + x (1 - s)), s = sigmoid(x)
      kernels::silu_backward(d, y.grad(), x.value());
  });
}

}  // namespace attune
