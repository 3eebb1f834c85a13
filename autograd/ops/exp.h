// y = exp(x), element by element.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var exp(Var x) {
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::exp(into(y), x.value());
  return record("exp", y, [=] {
    if (Out d = add_to(x)) kernels::multiply(d, y.grad(), y.value());  // dx += dy * y
  });
}

}  // namespace attune
