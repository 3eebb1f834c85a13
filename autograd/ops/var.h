// The variance of x over some axes, or over all: y = sum((x - mean)²) / (n - correction).
#pragma once

#include "attune/autograd/reduction.h"

namespace attune {

struct VarianceOptions {
  int correction = 0;  // 0: of the numbers themselves, as in layer_norm; 1: of what they are a sample of
  Axes reduced = Axes::go;
};

// In two passes, the mean in two parts, as layer_norm has it: a mean far above the deviation costs no digits.
// Needs more than `correction` elements for each result. The default correction of PyTorch is 1; that of
// NumPy, as ours, 0.
inline Var var(Var x, const AxisList& axes = {}, const VarianceOptions& options = {}) {
  const Shape kept = reduced_shape(x.shape(), axes, "var"), full = x.shape();
  const Index count = AxisRows(full, axes, "var").length(), freedom = count - options.correction;
  check(options.correction >= 0, "var: a correction of {} is negative", options.correction);
  check(freedom > 0, "var: {} with {} elements for each result, and a correction of {}", full, count,
        options.correction);
  Var y = output(options.reduced == Axes::stay ? kept : without_axes(full, axes), {x}, Saves::nothing);
  const View deviations = saved(full, x.dtype()), centre = scratch(kept, x.dtype()),
             squares = scratch(full, x.dtype());
  kernels::mean(centre, x.value());
  kernels::subtract(deviations, x.value(), centre);
  kernels::mean(centre, deviations);  // what rounding the mean has lost
  kernels::subtract(deviations, deviations, centre);
  kernels::multiply(squares, deviations, deviations);
  const View place = into(y).view.reshape(kept);
  kernels::mean(place, squares);
  const double n = static_cast<double>(count), per_freedom = 1 / static_cast<double>(freedom);
  if (options.correction > 0) kernels::scale(place, place, n * per_freedom);
  return record("var", y, [=] {
    if (Out d = add_to(x)) {
      const View slope = scratch(full, deviations.dtype());
      kernels::scale(slope, deviations, 2 * per_freedom);
      kernels::multiply(d, y.grad().reshape(kept), slope);  // dx += dy * 2 (x - mean) / (n - correction)
    }
  });
}

}  // namespace attune
