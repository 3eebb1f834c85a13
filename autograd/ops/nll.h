// Negative log-likelihood: cross-entropy of log-probabilities, such as log_softmax gives, against class
// numbers.
#pragma once

#include "attune/autograd/ops/cross_entropy.h"

namespace attune {

// x [..., C], targets i32 [...]: -x[target], with the options of cross_entropy.
inline Var nll(Var x, Var targets, const CrossEntropyOptions& options = {}) {
  check(targets.dtype() == i32, "nll: targets are i32, not {}", targets.dtype());
  if (options.weights) {
    const Var losses = nll(x, targets, detail::of_each_row(options));
    return detail::weighted_loss("nll", losses, targets, options);
  }
  const kernels::ClassLossOptions how = options.of_rows();
  Var loss = output(how.reduction == Reduction::none ? targets.shape() : Shape{}, {x}, {targets});
  kernels::nll(into(loss), x.value(), targets.value(), how);
  return record("nll", loss, [=] {
    if (Out d = add_to(x))  // dx -= target distribution * dloss / count
      kernels::nll_backward(d, loss.grad(), x.value(), targets.value(), how);
  });
}

}  // namespace attune
