// What ops that bring the elements along some axes together have in common.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

// Whether a reduced axis stays, with size 1, or goes.
enum class Axes { go, stay };

// The shape with each of `axes` (none twice, negative from the end) at size 1. No axes: all of them.
Shape reduced_shape(const Shape& shape, const AxisList& axes, const char* op);
// The same with sizes of 1 at these axes removed.
Shape without_axes(const Shape& shape, const AxisList& axes);

// How kernels that go along the last axis see others: the axes that are reduced come last, as one. Trivially
// copyable, so that a rule can capture it.
class AxisRows {
 public:
  // The axes of a shape that are reduced: all, where none is named. `op` is named in errors.
  AxisRows(const Shape& shape, const AxisList& axes, const char* op);

  const Shape& kept() const { return kept_; }  // the other axes: one row for each of their elements
  Index length() const { return length_; }     // of a row
  Shape result(Axes reduced) const { return reduced == Axes::stay ? staying_ : kept_; }

  // x as [kept..., length]: a view where its strides allow one, else a copy in the memory of scratch().
  ConstView of(const ConstView& x) const;
  // write(rows) writes, or adds, to the rows of a place of x's shape; nothing happens where none is wanted.
  template <class F>
  void add(const Out& place, F&& write) const;

 private:
  bool merges(const ConstView& moved) const;
  Shape merged() const;

  Shape kept_, staying_;
  AxisList order_;  // the kept axes, then the reduced ones
  Index length_ = 1;
};
static_assert(std::is_trivially_copyable_v<AxisRows>);

// The view with this axis and the last one swapped: what a kernel of rows needs to go along the axis.
template <class Pointer>
BasicView<Pointer> axis_last(const BasicView<Pointer>& x, int axis) {
  if (axis == x.rank() - 1) return x;
  int order[kMaxRank] = {0, 1, 2, 3, 4, 5};
  std::swap(order[axis], order[x.rank() - 1]);
  return x.permute(std::span(order).first(static_cast<std::size_t>(x.rank())));
}
inline Out axis_last(const Out& y, int axis) { return y ? Out(axis_last(y.view, axis), y.accumulate) : y; }

template <class F>
void AxisRows::add(const Out& place, F&& write) const {
  if (!place) return;
  const View moved = place.view.permute(order_);
  if (merges(moved)) {
    write(Out(moved.reshape(merged()), place.accumulate));
  } else {
    const View whole = scratch(moved.shape(), moved.dtype());
    write(Out(whole.reshape(merged())));
    kernels::copy(Out(moved, place.accumulate), whole);
  }
}

}  // namespace attune
