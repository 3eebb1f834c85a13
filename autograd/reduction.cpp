#include "attune/autograd/reduction.h"

#include <bitset>

namespace attune {
namespace {

using AxisSet = std::bitset<kMaxRank>;

AxisSet named(const Shape& shape, const AxisList& axes, const char* op) {
  AxisSet result;
  for (int axis : axes) {
    const auto place = static_cast<std::size_t>(shape.axis(axis, op));
    check(!result[place], "{}: axis {} of {} is named twice", op, axis, shape);
    result.set(place);
  }
  return axes.empty() ? ~result : result;
}

// The sizes along the axes that are in the set, or along those that are not.
Shape chosen(const Shape& shape, const AxisSet& axes, bool in_set) {
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axes[static_cast<std::size_t>(axis)] == in_set) result.append(shape[axis]);
  return result;
}

}  // namespace

Shape reduced_shape(const Shape& shape, const AxisList& axes, const char* op) {
  const AxisSet reduced = named(shape, axes, op);
  Shape result = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) result[axis] = 1;
  return result;
}

Shape without_axes(const Shape& shape, const AxisList& axes) {
  return chosen(shape, named(shape, axes, "without_axes"), false);
}

AxisRows::AxisRows(const Shape& shape, const AxisList& axes, const char* op) {
  const AxisSet reduced = named(shape, axes, op);
  kept_ = chosen(shape, reduced, false);
  staying_ = reduced_shape(shape, axes, op);
  length_ = chosen(shape, reduced, true).count();
  int order[kMaxRank] = {}, count = 0;
  for (bool in_set : {false, true})
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (reduced[static_cast<std::size_t>(axis)] == in_set) order[count++] = axis;
  order_ = AxisList(std::span(order).first(static_cast<std::size_t>(count)));
}

// Whether the reduced axes, which are the last ones here, run through memory as one.
bool AxisRows::merges(const ConstView& moved) const {
  Index next = -1;  // the stride that continues what is merged so far
  for (int axis = moved.rank() - 1; axis >= kept_.rank(); --axis) {
    if (moved.shape()[axis] == 1) continue;
    if (next >= 0 && moved.stride(axis) != next) return false;
    next = moved.stride(axis) * moved.shape()[axis];
  }
  return true;
}

Shape AxisRows::merged() const {
  Shape result = kept_;
  result.append(length_);
  return result;
}

ConstView AxisRows::of(const ConstView& x) const {
  const ConstView moved = x.permute(order_);
  if (merges(moved)) return moved.reshape(merged());
  const View copy = scratch(moved.shape(), moved.dtype());
  kernels::copy(copy, moved);
  return copy.reshape(merged());
}

}  // namespace attune
