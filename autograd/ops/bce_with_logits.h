// Binary cross-entropy of logits: -t log s(x) - (1 - t) log(1 - s(x)), s(x) = 1 / (1 + exp(-x)), computed as
// max(x, 0) - x t + log(1 + exp(-|x|)), which no logit overflows.
#pragma once

#include "attune/autograd/loss.h"
#include "attune/autograd/ops/mul.h"

namespace attune {

namespace detail {
// The losses, element by element.
inline Var binary_entropy(Var logits, Var targets, std::source_location where) {
  Var y = output(logits.shape(), {logits, targets}, Saves::values, where);
  kernels::binary_entropy(into(y), logits.value(), targets.value());
  return record("bce_with_logits", y, [=] {
    if (Out d = add_to(logits))  // dx += dy * (s(x) - t)
      kernels::binary_entropy_backward(d, y.grad(), logits.value(), targets.value());
    if (Out d = add_to(targets)) {
      const View away = scratch(logits.shape(), logits.dtype());
      kernels::scale(away, logits.value(), -1);
      kernels::multiply(d, y.grad(), away);  // dt -= dy * x
    }
  });
}
}  // namespace detail

// logits and targets (between 0 and 1) of one shape, both with gradients -> the mean over all elements, their
// sum, or each.
inline Var bce_with_logits(Var logits, Var targets, Reduction reduction = Reduction::mean) {
  check(logits.shape() == targets.shape(), "bce_with_logits: logits {} and targets {} differ in shape",
        logits.shape(), targets.shape());
  const Var losses = detail::binary_entropy(logits, targets, std::source_location::current());
  return detail::reduce_loss("bce_with_logits", losses, reduction);
}

// Each loss is multiplied by its weight first; weights stretch to the logits' shape. The mean is over
// elements, as PyTorch's, whatever the weights add up to.
inline Var bce_with_logits(Var logits, Var targets, Var weights, Reduction reduction = Reduction::mean) {
  check(broadcasts_to(weights.shape(), logits.shape()),
        "bce_with_logits: weights {} do not stretch to logits {}", weights.shape(), logits.shape());
  const Var losses = bce_with_logits(logits, targets, Reduction::none);
  const Var weighted = mul(losses, weights);
  return detail::reduce_loss("bce_with_logits", weighted, reduction);
}

}  // namespace attune
