#include <bitset>

#include "attune/autograd/ops/sum.h"

namespace attune {
namespace {

std::bitset<kMaxRank> named(const Shape& shape, std::initializer_list<int> axes, const char* op) {
  std::bitset<kMaxRank> result;
  for (int axis : axes) {
    const auto place = static_cast<std::size_t>(shape.axis(axis, op));
    check(!result[place], "{}: axis {} of {} is named twice", op, axis, shape);
    result.set(place);
  }
  return axes.size() == 0 ? ~result : result;
}

}  // namespace

Shape reduced_shape(const Shape& shape, std::initializer_list<int> axes, const char* op) {
  const auto reduced = named(shape, axes, op);
  Shape result = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) result[axis] = 1;
  return result;
}

Shape without_axes(const Shape& shape, std::initializer_list<int> axes) {
  const auto reduced = named(shape, axes, "sum");
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (!reduced[static_cast<std::size_t>(axis)]) result.append(shape[axis]);
  return result;
}

}  // namespace attune
