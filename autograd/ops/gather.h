// Elements by their number along an axis, and adding back to where they came from.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/gather.h"

namespace attune {

// y[i, a, j] = x[i, ids[i, a, j], j] with a along `axis`: ids i32 has x's shape but for that axis, and gives y its own.
// An id outside of the axis is an error that names its place.
inline Var gather(Var x, Var ids, int axis) {
  Var y = output(ids.shape(), {x}, {ids});
  kernels::gather(into(y), x.value(), ids.value(), axis);
  return record("gather", y, [=] {
    if (Out d = add_to(x)) {
      if (!d.accumulate) kernels::fill(d, 0);
      kernels::scatter_add(d.view, y.grad(), ids.value(), axis);  // dx[ids] += dy, in order
    }
  });
}

// y = x, and y[i, ids[i, a, j], j] += source[i, a, j], in the order of a. ids and source have one shape, x's but for
// `axis`; an id outside of the axis is an error here, too.
inline Var scatter_add(Var x, Var ids, Var source, int axis) {
  Var y = output(x.shape(), {x, source}, {ids});
  const View place = into(y).view;
  kernels::copy(place, x.value());
  kernels::scatter_add(place, source.value(), ids.value(), axis);
  return record("scatter_add", y, [=] {
    if (Out d = add_to(source)) kernels::gather(d, y.grad(), ids.value(), axis);  // dsource += dy[ids]
    add_grad_of(y, x);                                                            // dx += dy
  });
}

}  // namespace attune
