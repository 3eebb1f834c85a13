// y = -x.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var neg(Var x) {
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::scale(into(y), x.value(), -1);
  return record("neg", y, [=] {
    if (Out d = add_to(x)) kernels::scale(d, y.grad(), -1);  // dx -= dy
  });
}

inline Var operator-(Var x) { return neg(x); }

}  // namespace attune
