// How a loss that is one number for each element, or row, becomes one.
#pragma once

#include "attune/autograd/ops/mean.h"
#include "attune/autograd/ops/sum.h"

namespace attune::detail {

inline Var reduce_loss(const char* op, Var losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  if (reduction == Reduction::sum) return sum(losses);
  check(losses.shape().count() > 0, "{}: there is nothing to average", op);
  return mean(losses);
}

}  // namespace attune::detail
