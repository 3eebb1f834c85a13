// y = a * b, element by element, with broadcasting. Also with a number on either side.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var mul(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "mul");
  Var y = output(shape, {a, b});
  kernels::multiply(into(y), a.value(), b.value());
  return record("mul", y, [=] {
    add_to_stretched(a, shape, [=](const Out& d) { kernels::multiply(d, y.grad(), b.value()); });  // da += dy * b
    add_to_stretched(b, shape, [=](const Out& d) { kernels::multiply(d, y.grad(), a.value()); });  // db += dy * a
  });
}

inline Var mul(Var a, double factor) {
  Var y = output(a.shape(), {a}, Saves::nothing);
  kernels::scale(into(y), a.value(), factor);
  return record("mul", y, [=] {
    if (Out d = add_to(a)) kernels::scale(d, y.grad(), factor);  // da += dy * factor
  });
}

inline Var mul(double factor, Var a) { return mul(a, factor); }

inline Var operator*(Var a, Var b) { return mul(a, b); }
inline Var operator*(Var a, double factor) { return mul(a, factor); }
inline Var operator*(double factor, Var a) { return mul(a, factor); }

}  // namespace attune
