// y = log(x), the natural logarithm, element by element: -inf at 0, NaN below.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var log(Var x) {
  Var y = output(x.shape(), {x});
  kernels::log(into(y), x.value());
  return record("log", y, [=] {
    if (Out d = add_to(x)) kernels::divide(d, y.grad(), x.value());  // dx += dy / x
  });
}

}  // namespace attune
