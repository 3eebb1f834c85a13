// y = x W + b: an affine map of the last axis, as one op.
#pragma once

#include "attune/autograd/ops/matmul.h"

namespace attune {

// x [..., K], weight [K, N], bias [N] -> [..., N]. The bias comes first: y begins as b, and each 384 steps of
// k add their sum to it, as an accumulating product does. For K up to 384 that is x W + b to the bit.
inline Var linear(Var x, Var weight, Var bias) {
  check(x.rank() >= 1 && weight.rank() == 2,
        "linear: {} x {}: x has an axis or more, and a weight is [in, out]", x.shape(), weight.shape());
  check(x.shape().last() == weight.size(0), "linear: {} x {}: inner sizes {} and {} differ", x.shape(),
        weight.shape(), x.shape().last(), weight.size(0));
  check(bias.rank() == 1 && bias.size(0) == weight.size(1),
        "linear: a bias of {} does not fit a weight of {}", bias.shape(), weight.shape());
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.size(1);
  Var y = output(shape, {x, weight, bias});
  const ConstView rows = detail::flat_rows(x.value());
  const View place = into(y).view.reshape({rows.size(0), weight.size(1)});
  kernels::copy(place, bias.value());
  kernels::gemm(Out(place, true), rows, weight.value());
  return record("linear", y, [=] {
    const ConstView dy = detail::flat_rows(y.grad());
    if (Out d = add_to(bias)) kernels::sum(d, dy);  // db += dY, summed over rows
    if (Out d = add_to(x))                          // dX += dY Wᵀ
      detail::add_rows(d, [=](const Out& dx) { kernels::gemm(dx, dy, weight.value().t()); });
    if (Out d = add_to(weight)) kernels::gemm(d, detail::flat_rows(x.value()).t(), dy);  // dW += Xᵀ dY
  });
}

}  // namespace attune
