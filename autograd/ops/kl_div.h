// The divergence of Kullback & Leibler (1951) of a distribution, the target, from a model's
// log-probabilities: KL(target ‖ model) = sum of target * (log target - log-probability).
#pragma once

#include "attune/autograd/loss.h"

namespace attune {

namespace detail {
// Its terms, element by element.
inline Var divergence(Var log_probabilities, Var target, std::source_location where) {
  Var y = output(target.shape(), {log_probabilities, target}, Saves::values, where);
  kernels::divergence(into(y), target.value(), log_probabilities.value());
  return record("kl_div", y, [=] {
    if (Out d = add_to(log_probabilities)) {
      const View away = scratch(target.shape(), target.dtype());
      kernels::scale(away, target.value(), -1);
      kernels::multiply(d, y.grad(), away);  // dx -= dy * target
    }
    if (Out d = add_to(target))  // dtarget += dy * (log target + 1 - x)
      kernels::divergence_backward(d, y.grad(), target.value(), log_probabilities.value());
  });
}
}  // namespace detail

// log_probabilities [..., C], as log_softmax gives them, and target [..., C], probabilities: a row is a
// distribution. Gives the mean over rows (PyTorch calls that batchmean; its mean divides by C besides), their
// sum, or, of [...], the divergence of each. Where the target is 0 the term is 0, whatever the model says,
// and so are its gradients.
inline Var kl_div(Var log_probabilities, Var target, Reduction reduction = Reduction::mean) {
  check(log_probabilities.shape() == target.shape() && target.rank() >= 1,
        "kl_div: log-probabilities {} and target {} are not rows of one shape", log_probabilities.shape(),
        target.shape());
  const Var terms = detail::divergence(log_probabilities, target, std::source_location::current());
  const Var rows = sum(terms, -1);
  return detail::reduce_loss("kl_div", rows, reduction);
}

}  // namespace attune
