// Dropout (Srivastava et al. 2014): in training each element is 0 with probability p, and else divided by 1 - p.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/dropout.h"

namespace attune {

// By a given mask, whatever the tape.
inline Var dropout(Var x, const kernels::DropoutMask& mask) {
  Var y = output(x.shape(), {x}, Saves::nothing);
  const View place = into(y).view;
  kernels::dropout_factors(place, mask);
  kernels::multiply(place, x.value(), place);
  return record("dropout", y, [=] {
    if (Out d = add_to(x)) {
      const View factors = scratch(x.shape(), x.dtype());
      kernels::dropout_factors(factors, mask);
      kernels::multiply(d, y.grad(), factors);  // dx += dy * factor
    }
  });
}

// Outside of training, and where p is 0, it is x itself. What is dropped is drawn from the tape's random numbers
// (TapeOptions) and had again in backward instead of being kept; without them it is an error.
inline Var dropout(Var x, double p) {
  check(p >= 0 && p <= 1, "dropout: a share of {} is not between 0 and 1", p);
  if (p == 0 || !is_training()) return x;
  return dropout(x, kernels::dropout_mask(draw_stream(), p));
}

}  // namespace attune
