// y = x^e, element by element, with broadcasting. Also with a number on either side.
//
// As C's pow: x^0 is 1 for any x, 0 and NaN among them, with gradient 0; a negative x has powers for whole e, and NaN
// for others. Where x is 0 and e is not below 0, the gradient of e is its limit, 0.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var pow(Var x, Var e) {
  const Shape shape = broadcast(x.shape(), e.shape(), "pow");
  Var y = output(shape, {x, e});
  kernels::pow(into(y), x.value(), e.value());
  return record("pow", y, [=] {
    add_to_stretched(x, shape, [=](const Out& d) {
      kernels::pow_backward(d, y.grad(), x.value(), e.value());  // dx += dy * e x^(e - 1)
    });
    add_to_stretched(e, shape, [=](const Out& d) {
      kernels::pow_exponent_backward(d, y.grad(), y.value(), x.value());  // de += dy * y log(x)
    });
  });
}

inline Var pow(Var x, double e) { return pow(x, scalar(e, x)); }
inline Var pow(double x, Var e) { return pow(scalar(x, e), e); }

}  // namespace attune
