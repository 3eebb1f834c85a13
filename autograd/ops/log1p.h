// y = log(1 + x), element by element, to the last digits where x is small.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var log1p(Var x) {
  Var y = output(x.shape(), {x});
  kernels::log1p(into(y), x.value());
  return record("log1p", y, [=] {
    if (Out d = add_to(x)) {
      const View whole = scratch(x.shape(), x.dtype());
      kernels::add(whole, x.value(), kernels::Number(1, x.dtype()));
      kernels::divide(d, y.grad(), whole);  // dx += dy / (1 + x)
    }
  });
}

}  // namespace attune
