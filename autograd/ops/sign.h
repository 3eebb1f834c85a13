// y = 1 above 0, -1 below, 0 at 0, and NaN where x is. A constant: its slope is 0 wherever it has one.
#pragma once

#include "attune/autograd/op.h"
#include "attune/autograd/ops/detach.h"

namespace attune {

inline Var sign(Var x) {
  const Shape shape = x.shape();
  Var y = output(shape, {detach(x)}, Saves::nothing);
  kernels::sign(into(y), x.value());
  return record("sign", y, [] {});
}

}  // namespace attune
