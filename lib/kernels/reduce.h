// Sums, means and norms, in an order that the shapes alone fix: the same bits on every machine, in any
// layout, on any number of threads.
//
// Where the last axis (sizes of 1 aside) is summed, each result adds its elements in row-major order in
// chunks of 1024: sixteen lanes in each, folded as a tree (pairwise in spirit: Higham 1993, The accuracy of
// floating point summation). Where the last axis is kept, rows are added in chunks of 64. Chunks are added in
// double, in order, and the total is rounded once.
#pragma once

#include "attune/lib/view.h"

namespace attune {

// What becomes of a loss that is one number for each element, or row: their mean, their sum, or all of them.
enum class Reduction { mean, sum, none };

}  // namespace attune

namespace attune::kernels {

// y = the sum of x over the axes along which y has size 1, or lacks (leading axes): y's shape must stretch to
// x's, as [3, 1] and [4] do to [3, 4]. Same element type, any strides; y must not overlap x. The sum of nothing
// is 0. An accumulating y gets the rounded total added. Throws where the element types differ or are i32, or
// the shapes do not fit.
void sum(const Out& y, const ConstView& x);

// The same, divided by how many elements each result sums. Throws also where that is none.
void mean(const Out& y, const ConstView& x);

// The sum of the squares of all elements, in double: nothing overflows that an f32 can hold. Of a dual, the
// values count. Chunks of 4096 in sixteen lanes, added in order of the elements.
double squared_norm(const ConstView& x);

}  // namespace attune::kernels
