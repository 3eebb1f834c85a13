// y = a + b, with broadcasting. Also with a number on either side.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var add(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "add");
  Var y = output(shape, {a, b}, Saves::nothing);
  kernels::add(into(y), a.value(), b.value());
  return record("add", y, [=] {
    if (Out d = add_to(b)) kernels::sum(d, y.grad());  // db += dy, summed where b was stretched
    add_grad_of(y, a);                                 // da += dy
  });
}

inline Var add(Var a, double number) { return add(a, scalar(number, a)); }
inline Var add(double number, Var b) { return add(b, number); }

inline Var operator+(Var a, Var b) { return add(a, b); }
inline Var operator+(Var a, double number) { return add(a, number); }
inline Var operator+(double number, Var b) { return add(b, number); }

}  // namespace attune
