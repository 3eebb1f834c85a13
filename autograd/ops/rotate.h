// Pairs of elements turned by given angles: the op of rotary position embeddings (Su et al. 2021), which
// layers/position.h builds on.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/rotate.h"

namespace attune {

using kernels::RotaryPairs;

// x [..., d], d even; cos and sin of the angles are constants that stretch to [..., d / 2].
inline Var rotate(Var x, Var cos, Var sin, RotaryPairs pairs = RotaryPairs::half_split) {
  check(!cos.needs_grad() && !sin.needs_grad(), "rotate: angles are constants here, and a gradient would be lost");
  Var y = output(x.shape(), {x, cos, sin});
  kernels::rotate(into(y), x.value(), cos.value(), sin.value(), pairs, kernels::Turn::forward);
  return record("rotate", y, [=] {
    if (Out d = add_to(x))  // dx += dy, turned back
      kernels::rotate(d, y.grad(), cos.value(), sin.value(), pairs, kernels::Turn::back);
  });
}

}  // namespace attune
