// y = a / b, element by element, with broadcasting. Also with a number on either side.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var div(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "div");
  Var y = output(shape, {a, b});
  kernels::divide(into(y), a.value(), b.value());
  return record("div", y, [=] {
    add_to_stretched(a, shape, [=](const Out& d) { kernels::divide(d, y.grad(), b.value()); });  // da += dy / b
    add_to_stretched(b, shape, [=](const Out& d) {
      kernels::divide_backward(d, y.grad(), y.value(), b.value());  // db -= dy * y / b
    });
  });
}

inline Var div(Var a, double number) { return div(a, scalar(number, a)); }
inline Var div(double number, Var b) { return div(scalar(number, b), b); }

inline Var operator/(Var a, Var b) { return div(a, b); }
inline Var operator/(Var a, double number) { return div(a, number); }
inline Var operator/(double number, Var b) { return div(number, b); }

}  // namespace attune
