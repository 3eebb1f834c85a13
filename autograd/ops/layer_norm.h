// Layer normalisation over the last axis (Ba, Kiros & Hinton 2016):
// y = (x - mean) / sqrt(var + epsilon) * weight + bias.
#pragma once

#include "attune/autograd/ops/expand.h"
#include "attune/lib/kernels/layer_norm.h"

namespace attune {

// x [..., C], weight [C], bias [C] -> [..., C]. A row of equal numbers gives the bias. So does a finite row whose
// squares overflow: one that is longer, without its mean, than 1.8e19 in f32, or 1.3e154 in f64.
inline Var layer_norm(Var x, Var weight, Var bias, double epsilon = 1e-5) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "layer_norm: {} has no row to normalise", x.shape());
  const Shape width{x.shape().last()};
  check(weight.shape() == width && bias.shape() == width,
        "layer_norm: weight {} and bias {} do not fit rows of {}", weight.shape(), bias.shape(), x.shape());
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

// Without a bias, and without a weight.
inline Var layer_norm(Var x, Var weight, double epsilon = 1e-5) {
  check(x.dtype() == weight.dtype(), "layer_norm: element types {} and {} differ", x.dtype(), weight.dtype());
  const Var none = scalar(0, x);
  const Var bias = expand(none, weight.shape());
  return layer_norm(x, weight, bias, epsilon);
}
inline Var layer_norm(Var x, double epsilon = 1e-5) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "layer_norm: {} has no row to normalise", x.shape());
  const Var one = scalar(1, x);
  const Var weight = expand(one, {x.shape().last()});
  return layer_norm(x, weight, epsilon);
}

}  // namespace attune
