// Where the smallest element along an axis stands: numbers in i32, which no gradient passes.
#pragma once

#include "attune/autograd/ops/argmax.h"

namespace attune {

// The first of equal ones; a NaN counts as the smallest, too. An axis without elements is an error.
inline Var argmin(Var x, int axis, Axes reduced = Axes::go) {
  x.value();  // of a tape that is still open
  return detail::arg_extreme("argmin", kernels::argmin, x, axis, reduced);
}

}  // namespace attune
