// The parts along an axis that concat would put back together: views, in a list of their own.
#pragma once

#include <vector>

#include "attune/autograd/ops/slice.h"

namespace attune {

// One part for each of `sizes`, which add up to the axis.
inline std::vector<Var> split(Var x, std::span<const Index> sizes, int axis = 0) {
  const Index whole = x.shape()[x.shape().axis(axis, "split")];
  Index sum = 0;
  for (const Index size : sizes) {
    check(size >= 0, "split: a part of size {} is negative", size);
    sum += size;
  }
  check(sum == whole, "split: parts of {} in all do not make up axis {} of {}", sum, axis, x.shape());
  std::vector<Var> parts;
  Index begin = 0;
  for (const Index size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}
inline std::vector<Var> split(Var x, std::initializer_list<Index> sizes, int axis = 0) {
  return split(x, std::span(sizes.begin(), sizes.size()), axis);
}
// `count` equal parts.
inline std::vector<Var> split(Var x, Index count, int axis = 0) {
  const Index whole = x.shape()[x.shape().axis(axis, "split")];
  check(count >= 1 && whole % count == 0, "split: axis {} of {} has no {} equal parts", axis, x.shape(), count);
  return split(x, std::vector<Index>(static_cast<std::size_t>(count), whole / count), axis);
}

}  // namespace attune
