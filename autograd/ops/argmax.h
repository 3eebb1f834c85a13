// Where the largest element along an axis stands: numbers in i32, which no gradient passes.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/extremes.h"

namespace attune {

namespace detail {
inline Var arg_extreme(const char* op, void (*kernel)(const Out& y, const ConstView& x), Var x, int axis,
                       Axes reduced) {
  check(is_float(x.dtype()), "{}: it computes with f32, f64 or dual, and got {}", op, x.dtype());
  const AxisRows rows(x.shape(), axis, op);
  check(rows.length() > 0, "{}: {} has no element to choose from", op, x.shape());
  const View places = saved(rows.result(reduced), i32);
  kernel(places.reshape(rows.kept()), rows.of(x.value()));
  return constant_of(op, places, {x});
}
}  // namespace detail

// The first of equal ones; a NaN counts as the largest. An axis without elements is an error.
inline Var argmax(Var x, int axis, Axes reduced = Axes::go) {
  x.value();  // of a tape that is still open
  return detail::arg_extreme("argmax", kernels::argmax, x, axis, reduced);
}

}  // namespace attune
