// Mean squared error: (x - target)².
#pragma once

#include "attune/autograd/loss.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/ops/sub.h"

namespace attune {

// x and target of one shape, both with gradients -> the mean over all elements, their sum, or each. Composed.
inline Var mse(Var x, Var target, Reduction reduction = Reduction::mean) {
  check(x.shape() == target.shape(), "mse: {} and {} differ in shape", x.shape(), target.shape());
  const Var difference = sub(x, target);
  const Var squares = mul(difference, difference);
  return detail::reduce_loss("mse", squares, reduction);
}

}  // namespace attune
