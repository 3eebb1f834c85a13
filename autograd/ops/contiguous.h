// The same elements, row-major and without gaps: x itself where it is so already, else a copy.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var contiguous(Var x) {
  if (x.value().is_contiguous()) return x;
  if (!is_float(x.dtype())) {  // token ids: moved like any numbers, and constant
    const View copy = saved(x.shape(), x.dtype());
    kernels::copy(copy, x.value());
    return constant_of("contiguous", copy, {x});
  }
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::copy(into(y), x.value());
  return record("contiguous", y, [=] {
    add_grad_of(y, x);  // dx += dy
  });
}

}  // namespace attune
