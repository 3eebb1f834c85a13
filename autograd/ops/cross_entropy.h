// Cross-entropy of logits against class numbers: -log softmax(logits)[target].
#pragma once

#include <optional>

#include "attune/autograd/op.h"
#include "attune/lib/kernels/cross_entropy.h"

namespace attune {

// Of cross_entropy and nll.
struct CrossEntropyOptions {
  Index ignored = -100;  // a target of this number does not count, be it a class or not
  double smoothing = 0;  // e in [0, 1]: the targets are (1 - e) * onehot + e / C (Szegedy et al. 2016)
  Reduction reduction = Reduction::mean;
  std::optional<Var> weights = {};  // of the targets' shape: what each loss is multiplied by

  kernels::ClassLossOptions of_rows() const { return {ignored, smoothing, reduction}; }
};

namespace detail {
// The losses of rows (0 where ignored) times their weights, brought together: composed of mul, sum and div.
Var weighted_loss(const char* op, Var losses, Var targets, const CrossEntropyOptions& options);
inline CrossEntropyOptions of_each_row(const CrossEntropyOptions& options) {
  return {.ignored = options.ignored, .smoothing = options.smoothing, .reduction = Reduction::none};
}
}  // namespace detail

// logits [..., C], targets i32 [...] -> scalar: the mean over the targets that are not ignored, and 0, with a
// gradient of zeros, where all of them are; their sum; or, of [...], the loss of each (0 where ignored). With
// weights the mean is divided by the weights' sum, over what is not ignored (and is 0 where that is 0); they
// get their gradient, and must be finite. A target that is neither ignored nor one of 0 ... C - 1 is an error
// that names it and its place.
inline Var cross_entropy(Var logits, Var targets, const CrossEntropyOptions& options = {}) {
  check(targets.dtype() == i32, "cross_entropy: targets are i32, not {}", targets.dtype());
  check(logits.rank() >= 1 && logits.shape().last() >= 1, "cross_entropy: logits {} have no classes",
        logits.shape());
  if (options.weights) {
    const Var losses = cross_entropy(logits, targets, detail::of_each_row(options));
    return detail::weighted_loss("cross_entropy", losses, targets, options);
  }
  const kernels::ClassLossOptions how = options.of_rows();
  Var loss = output(how.reduction == Reduction::none ? targets.shape() : Shape{}, {logits}, {targets});
  Shape two_each = logits.shape();
  two_each[two_each.rank() - 1] = 2;
  const View statistics = saved(two_each, logits.dtype());
  kernels::cross_entropy(into(loss), statistics, logits.value(), targets.value(), how);
  return record("cross_entropy", loss, [=] {
    if (Out d = add_to(logits))  // dlogits += (softmax(logits) - target distribution) * dloss / count
      kernels::cross_entropy_backward(d, loss.grad(), statistics, logits.value(), targets.value(), how);
  });
}

}  // namespace attune
