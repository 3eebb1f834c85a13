// y = the sum of x over some axes, or over all.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

// Whether a reduced axis stays, with size 1, or goes.
enum class Axes { go, stay };

// The shape of x with each of `axes` (none twice, negative from the end) at size 1. No axes: all of them.
Shape reduced_shape(const Shape& shape, std::initializer_list<int> axes, const char* op);
// The same with sizes of 1 at these axes removed.
Shape without_axes(const Shape& shape, std::initializer_list<int> axes);

inline Var sum(Var x, std::initializer_list<int> axes = {}, Axes reduced = Axes::go) {
  const Shape kept = reduced_shape(x.shape(), axes, "sum"), full = x.shape();
  Var y = output(reduced == Axes::stay ? kept : without_axes(x.shape(), axes), {x}, Saves::nothing);
  kernels::sum(into(y).view.reshape(kept), x.value());
  return record("sum", y, [=] {
    if (Out d = add_to(x)) kernels::copy(d, y.grad().reshape(kept).expand(full));  // dx += dy, to every summand
  });
}

}  // namespace attune
