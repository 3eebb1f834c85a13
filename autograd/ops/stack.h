// Parts of one shape along a new axis.
#pragma once

#include "attune/autograd/ops/concat.h"
#include "attune/autograd/ops/reshape.h"

namespace attune {

namespace detail {
Shape with_axis(const Shape& shape, int axis);  // of size 1
}

// n parts [...] -> [..., n, ...], where `axis` is the new one's place in the result, negative from its end.
Var stack(std::span<const Var> parts, int axis = 0);
inline Var stack(std::initializer_list<Var> parts, int axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}

}  // namespace attune
