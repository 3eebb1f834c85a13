// y = condition ? a : b, element by element; all three broadcast, and a number may stand for a or b.
//
// The condition is i32, as greater(x, 0) and its like give it: 0 is false, anything else true. The branch that is not
// taken gets a gradient of exactly 0, whatever its value and y's gradient are. What made that value then multiplies 0 by
// a slope of its own: of where(greater(x, 0), sqrt(x), 0) that is 0 / 0 at 0. Choose x first, then take the root.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var where(Var condition, Var a, Var b) {
  check(condition.dtype() == i32, "where: a condition is i32, not {}", condition.dtype());
  const Shape shape = broadcast(condition.shape(), broadcast(a.shape(), b.shape(), "where"), "where");
  Var y = output(shape, {a, b}, {condition});
  kernels::where(into(y), condition.value(), a.value(), b.value());
  return record("where", y, [=] {
    const kernels::Number none(0, y.dtype());
    add_to_stretched(a, shape, [&](const Out& d) { kernels::where(d, condition.value(), y.grad(), none); });
    add_to_stretched(b, shape, [&](const Out& d) { kernels::where(d, condition.value(), none, y.grad()); });
  });
}

inline Var where(Var condition, Var a, double b) { return where(condition, a, scalar(b, a)); }
inline Var where(Var condition, double a, Var b) { return where(condition, scalar(a, b), b); }

}  // namespace attune
