// Elements by their number along an axis, and back; and the triangle below a diagonal. They move and add, and compute
// nothing else, so they are plain loops and no bodies of the kernel table.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y[i, a, j] = x[i, ids[i, a, j], j], where a is the place along `axis`, and i and j stand for the axes around it. ids
// is i32, of y's shape, which is x's but for `axis`; an id outside of 0 ... size - 1 is an error that names its place.
void gather(const Out& y, const ConstView& x, const ConstView& ids, int axis);
// y[i, ids[i, a, j], j] += source[i, a, j], in the order of a: equal ids add up.
void scatter_add(const View& y, const ConstView& source, const ConstView& ids, int axis);
// y = x where column <= row + diagonal, in the last two axes, and 0 elsewhere.
void lower_triangle(const Out& y, const ConstView& x, Index diagonal);

}  // namespace attune::kernels
