// The larger of a and b, element by element, with broadcasting. Also with a number on either side. NaN where either is
// NaN; at a tie each gets half of the gradient.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var maximum(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "maximum");
  Var y = output(shape, {a, b});
  kernels::maximum(into(y), a.value(), b.value());
  return record("maximum", y, [=] {  // da += dy where a wins, dy / 2 at a tie; and the same for b
    add_to_stretched(a, shape, [=](const Out& d) { kernels::maximum_backward(d, y.grad(), a.value(), b.value()); });
    add_to_stretched(b, shape, [=](const Out& d) { kernels::maximum_backward(d, y.grad(), b.value(), a.value()); });
  });
}

inline Var maximum(Var a, double number) { return maximum(a, scalar(number, a)); }
inline Var maximum(double number, Var b) { return maximum(scalar(number, b), b); }

}  // namespace attune
