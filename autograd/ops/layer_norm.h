// Layer normalisation over the last axis (Ba, Kiros & Hinton 2016): y = (x - mean) / sqrt(var + epsilon) * weight + bias.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/layer_norm.h"

namespace attune {

// x [..., C], weight [C], bias [C].
inline Var layer_norm(Var x, Var weight, Var bias, double epsilon = 1e-5) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "layer_norm: {} has no row to normalise", x.shape());
  const Shape width{x.shape().last()};
  check(weight.shape() == width && bias.shape() == width, "layer_norm: weight {} and bias {} do not fit rows of {}",
        weight.shape(), bias.shape(), x.shape());
  Var y = output(x.shape(), {x, weight, bias});
  Shape rows = x.shape();
  rows[rows.rank() - 1] = 3;
  const View statistics = saved(rows, x.dtype());
  kernels::layer_norm(into(y), statistics, x.value(), weight.value(), bias.value(), epsilon);
  return record("layer_norm", y, [=] {
    const auto [dx, dweight, dbias] = add_to(x, weight, bias);
    kernels::layer_norm_backward(dx, dweight, dbias, y.grad(), x.value(), weight.value(), statistics);
  });
}

}  // namespace attune
