// Cross-entropy of logits against class numbers: log-softmax and negative log-likelihood in one pass.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// loss = the mean, over the targets that are not `ignored`, of lse - logits[target], where lse is the row's
// log(sum(exp(logits))); 0 where every target is ignored, or there are none. Each row's loss is computed as
// (max - logits[target]) + log(sum(exp(logits - max))), so that large logits cancel before anything is
// rounded.
//
// Shapes: logits [..., C], C at least 1; targets i32 [...]; loss []; lse [...], which backward needs. loss and
// lse have the element type of the logits and cannot accumulate. Any strides. Throws, before anything is
// written, where a target is neither ignored nor one of 0 to C - 1: the message names it and where it stands.
void cross_entropy(const Out& loss, const Out& lse, const ConstView& logits, const ConstView& targets,
                   Index ignored = -100);

// dlogits = (exp(logits - lse) - onehot(target)) * dloss / (how many targets are not ignored); exactly 0 in
// ignored rows. dloss []. dlogits may be the logits' own memory.
void cross_entropy_backward(const Out& dlogits, const ConstView& dloss, const ConstView& lse,
                            const ConstView& logits, const ConstView& targets, Index ignored = -100);

}  // namespace attune::kernels
