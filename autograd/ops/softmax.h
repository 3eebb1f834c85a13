// Softmax over the last axis. With `visible`, the causal one of attention: unseen entries are exactly 0.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/softmax.h"

namespace attune {

inline Var softmax(Var x, const kernels::Visible& visible = {}) {
  check(x.rank() >= (visible.all ? 1 : 2), "softmax: {} has no row to normalise", x.shape());
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::softmax(into(y), x.value(), visible);
  return record("softmax", y, [=] {
    if (Out d = add_to(x)) kernels::softmax_backward(d, y.grad(), y.value(), visible);  // dx += y * (dy - dy·y)
  });
}

}  // namespace attune
