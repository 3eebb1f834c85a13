// Root-mean-square normalisation over the last axis (Zhang & Sennrich 2019):
// y = x / sqrt(mean(x²) + epsilon) * weight.
#pragma once

#include "attune/autograd/ops/expand.h"
#include "attune/lib/kernels/rms_norm.h"

namespace attune {

// x [..., C], weight [C] -> [..., C]. A row of zeros stays, and its gradient is finite where epsilon is above 0. A finite
// row whose squares overflow gives zeros: one that is longer than 1.8e19 in f32, or 1.3e154 in f64.
inline Var rms_norm(Var x, Var weight, double epsilon = 1e-6) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "rms_norm: {} has no row to normalise", x.shape());
  check(weight.rank() == 1 && weight.size(0) == x.shape().last(),
        "rms_norm: weight {} does not fit rows of {}", weight.shape(), x.shape());
  check(epsilon >= 0, "rms_norm: an epsilon of {} is negative", epsilon);
  Var y = output(x.shape(), {x, weight});
  Shape rows = x.shape();
  rows[rows.rank() - 1] = 1;
  const View statistics = saved(rows, x.dtype());
  kernels::rms_norm(into(y), statistics, x.value(), weight.value(), epsilon);
  return record("rms_norm", y, [=] {
    const auto [dx, dweight] = add_to(x, weight);
    kernels::rms_norm_backward(dx, dweight, y.grad(), x.value(), weight.value(), statistics);
  });
}

// Without a weight.
inline Var rms_norm(Var x, double epsilon = 1e-6) {
  check(x.rank() >= 1 && x.shape().last() >= 1, "rms_norm: {} has no row to normalise", x.shape());
  const Var one = scalar(1, x);
  return rms_norm(x, expand(one, {x.shape().last()}), epsilon);
}

}  // namespace attune
