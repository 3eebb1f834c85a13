// y = log(sum(exp(x))) over some axes, or over all, without overflow.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/log_softmax.h"

namespace attune {

// Of nothing, and of nothing but -inf, it is -inf, and an entry of -inf has the gradient 0. With +inf it is
// +inf, and the gradient of such an entry NaN.
inline Var logsumexp(Var x, const AxisList& axes = {}, Axes reduced = Axes::go) {
  const AxisRows rows(x.shape(), axes, "logsumexp");
  Var y = output(rows.result(reduced), {x});
  Shape two_each = rows.kept();
  two_each.append(2);
  const View statistics = saved(two_each, x.dtype());
  kernels::logsumexp(into(y).view.reshape(rows.kept()), statistics, rows.of(x.value()));
  return record("logsumexp", y, [=] {
    rows.add(add_to(x), [=](const Out& d) {  // dx += dy * exp(x - y)
      kernels::logsumexp_backward(d, y.grad().reshape(rows.kept()), rows.of(x.value()), statistics);
    });
  });
}

}  // namespace attune
