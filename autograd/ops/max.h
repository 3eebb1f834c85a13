// y = the largest of x over some axes, or over all. A NaN among them makes it NaN.
#pragma once

#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/extremes.h"

namespace attune {

namespace detail {
using ExtremeKernel = void (*)(const Out& y, const ConstView& x);
inline Var extreme(const char* op, ExtremeKernel kernel, Var x, const AxisRows& rows, Axes reduced,
                   std::source_location where) {
  check(rows.length() > 0, "{}: {} has no element to choose from", op, x.shape());
  Var y = output(rows.result(reduced), {x}, Saves::values, where);
  kernel(into(y).view.reshape(rows.kept()), rows.of(x.value()));
  return record(op, y, [=] {
    rows.add(add_to(x), [=](const Out& d) {  // dx += dy, shared evenly among those that equal y
      const ConstView dy = y.grad().reshape(rows.kept()), most = y.value().reshape(rows.kept());
      kernels::extreme_backward(d, dy, rows.of(x.value()), most);
    });
  });
}
}  // namespace detail

// Where several elements are the largest, each gets the same share of the gradient; where the result is NaN,
// the NaNs do. An axis without elements is an error.
inline Var max(Var x, const AxisList& axes = {}, Axes reduced = Axes::go) {
  const AxisRows rows(x.shape(), axes, "max");
  return detail::extreme("max", kernels::max, x, rows, reduced, std::source_location::current());
}

}  // namespace attune
