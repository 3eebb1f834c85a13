// y = a - b, with broadcasting. Also with a number on either side.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var sub(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "sub");
  Var y = output(shape, {a, b}, Saves::nothing);
  kernels::subtract(into(y), a.value(), b.value());
  return record("sub", y, [=] {
    if (Out d = add_to(a)) kernels::sum(d, y.grad());                                        // da += dy
    add_to_stretched(b, shape, [=](const Out& d) { kernels::scale(d, y.grad(), -1); });             // db -= dy
  });
}

inline Var sub(Var a, double number) { return sub(a, scalar(number, a)); }
inline Var sub(double number, Var b) { return sub(scalar(number, b), b); }

inline Var operator-(Var a, Var b) { return sub(a, b); }
inline Var operator-(Var a, double number) { return sub(a, number); }
inline Var operator-(double number, Var b) { return sub(number, b); }

}  // namespace attune
