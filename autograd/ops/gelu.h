// Gaussian error linear unit (Hendrycks & Gimpel 2016): y = x * Phi(x), Phi the normal distribution function; or the
// approximation that GPT-2 has, y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
#pragma once

#include "attune/autograd/op.h"

namespace attune {

enum class Gelu { exact, tanh };

inline Var gelu(Var x, Gelu form = Gelu::exact) {
  Var y = output(x.shape(), {x});
  const bool exact = form == Gelu::exact;
  (exact ? kernels::gelu : kernels::gelu_tanh)(into(y), x.value());
  return record("gelu", y, [=] {
    if (Out d = add_to(x))  // exact: dx += dy * (Phi(x) + x * phi(x))
      (exact ? kernels::gelu_backward : kernels::gelu_tanh_backward)(d, y.grad(), x.value());
  });
}

}  // namespace attune
