// Gaussian error linear unit (Hendrycks & Gimpel 2016): y = x * Phi(x), Phi the normal distribution function; and its
// approximation, which GPT-2 has, y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))). Both are 0 at -inf.
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

// As x * s, s = sigmoid(t), t = 2 √(2/π) (x + 0.044715 x³), which is the same and keeps its digits where tanh nears
// -1.
inline Var gelu_tanh(Var x) {
  Var y = output(x.shape(), {x});
  kernels::gelu_tanh(into(y), x.value());
  return record("gelu_tanh", y, [=] {
    if (Out d = add_to(x)) kernels::gelu_tanh_backward(d, y.grad(), x.value());  // dx += dy * s (1 + x t' (1 - s))
  });
}

}  // namespace attune
