// Gaussian error linear unit, exact: y = x * Phi(x), Phi the normal distribution function (Hendrycks & Gimpel 2016).
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var gelu(Var x) {
  Var y = output(x.shape(), {x});
  kernels::gelu(into(y), x.value());
  return record("gelu", y, [=] {
    if (Out d = add_to(x)) kernels::gelu_backward(d, y.grad(), x.value());  // dx += dy * (Phi(x) + x * phi(x))
  });
}

}  // namespace attune
