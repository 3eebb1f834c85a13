// Cross-entropy of rows against class numbers: of logits (log-softmax and negative log-likelihood in one
// pass), or of log-probabilities.
#pragma once

#include "attune/lib/kernels/reduce.h"
#include "attune/lib/view.h"

namespace attune::kernels {

struct ClassLossOptions {
  Index ignored = -100;  // a target of this number does not count
  double smoothing = 0;  // e in [0, 1]: the targets are (1 - e) * onehot + e / C (Szegedy et al. 2016)
  Reduction reduction = Reduction::mean;
};

// The loss of a row is -sum over classes of target distribution * log softmax(logits). It is computed as
// (max - logits[target]) + log(sum(exp(logits - max))), so that large logits cancel before anything is
// rounded. `loss` is the mean over the targets that are not ignored (0 where all are, or there are none);
// their sum; or the loss of each row, with 0 for the ignored ones.
//
// Shapes: logits [..., C], C at least 1; targets i32 [...]; loss [], or [...] where nothing is reduced;
// statistics [..., 2], which backward needs: the row's maximum and 1 / sum(exp(logits - max)). loss and
// statistics have the element type of the logits and cannot accumulate. Any strides. Throws, before anything
// is written, where a target is neither ignored nor one of 0 to C - 1 (the message names it and where it
// stands), or a smoothing is outside of [0, 1].
void cross_entropy(const Out& loss, const Out& statistics, const ConstView& logits, const ConstView& targets,
                   const ClassLossOptions& options = {});

// dlogits = (softmax(logits) - target distribution) * dloss, / (how many targets are not ignored) for a mean;
// exactly 0 in ignored rows. dloss has the shape of the loss. dlogits may be the logits' own memory.
void cross_entropy_backward(const Out& dlogits, const ConstView& dloss, const ConstView& statistics,
                            const ConstView& logits, const ConstView& targets,
                            const ClassLossOptions& options = {});

// The same of rows that are log-probabilities already: -sum of target distribution * x. Nothing checks that
// they are.
void nll(const Out& loss, const ConstView& x, const ConstView& targets, const ClassLossOptions& options = {});
void nll_backward(const Out& dx, const ConstView& dloss, const ConstView& x, const ConstView& targets,
                  const ClassLossOptions& options = {});

}  // namespace attune::kernels
