// Cross-entropy of logits against class numbers: the mean of -log softmax(logits)[target].
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/cross_entropy.h"

namespace attune {

// logits [..., C], targets i32 [...] -> scalar: the mean over the targets that are not `ignored`, and 0, with a gradient
// of zeros, where all of them are. Any other target outside of 0 ... C - 1 is an error that names it and its place.
inline Var cross_entropy(Var logits, Var targets, Index ignored = -100) {
  check(targets.dtype() == i32, "cross_entropy: targets are i32, not {}", targets.dtype());
  check(logits.rank() >= 1 && logits.shape().last() >= 1, "cross_entropy: logits {} have no classes", logits.shape());
  Var loss = output({}, {logits}, {targets});
  const View lse = saved(targets.shape(), logits.dtype());
  kernels::cross_entropy(into(loss), lse, logits.value(), targets.value(), ignored);
  return record("cross_entropy", loss, [=] {
    if (Out d = add_to(logits))  // dlogits += (softmax(logits) - onehot) * dloss / count
      kernels::cross_entropy_backward(d, loss.grad(), lse, logits.value(), targets.value(), ignored);
  });
}

}  // namespace attune
