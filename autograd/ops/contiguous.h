// The same elements, row-major and without gaps: x itself where it is so already, else a copy.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var contiguous(Var x) {
  if (x.value().is_contiguous()) return x;
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::copy(into(y), x.value());
  return record("contiguous", y, [=] {
    if (Out d = add_to(x)) kernels::copy(d, y.grad());  // dx += dy
  });
}

}  // namespace attune
