// The smaller of a and b, element by element, with broadcasting. Also with a number on either side. NaN where either is
// NaN; at a tie each gets half of the gradient.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var minimum(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "minimum");
  Var y = output(shape, {a, b});
  kernels::minimum(into(y), a.value(), b.value());
  return record("minimum", y, [=] {  // da += dy where a wins, dy / 2 at a tie; and the same for b
    add_to_stretched(a, shape, [=](const Out& d) { kernels::minimum_backward(d, y.grad(), a.value(), b.value()); });
    add_to_stretched(b, shape, [=](const Out& d) { kernels::minimum_backward(d, y.grad(), b.value(), a.value()); });
  });
}

inline Var minimum(Var a, double number) { return minimum(a, scalar(number, a)); }
inline Var minimum(double number, Var b) { return minimum(scalar(number, b), b); }

}  // namespace attune
