// For plain kernels, which are no bodies of the table: the lines of several views along one axis, shared out among
// threads. The views have the other axes in common; a line's result depends on nothing but the line.
#pragma once

#include <array>
#include <type_traits>

#include "attune/lib/kernels/run.h"
#include "attune/lib/view.h"

namespace attune::kernels {

// The sizes of the other axes: `shape` with a 1 at `axis`.
inline Shape around_axis(Shape shape, int axis) {
  shape[axis] = 1;
  return shape;
}

// line(number, offsets): the number counts the lines row by row; the offsets, in elements, lead to the start of the line
// in each view. `cost` is about how many operations a line takes.
template <std::size_t n, class F>
void each_line(const Shape& around, const std::array<const ConstView*, n>& views, Index cost, F&& line) {
  constexpr Index kGrainCost = 1 << 14;
  parallel_for(around.count(), 1 + kGrainCost / (cost + 1), [&](Index begin, Index end) {
    const DenormalMode mode(views[0]->dtype());
    for (Index number = begin; number < end; ++number) {
      std::array<Index, n> offsets{};
      Index left = number;
      for (int axis = around.rank() - 1; axis >= 0; left /= around[axis--]) {
        const Index place = left % around[axis];
        for (std::size_t v = 0; v < n; ++v) offsets[v] += place * views[v]->strides()[static_cast<std::size_t>(axis)];
      }
      line(number, offsets);
    }
  });
}

// Plain numbers, and the two parts of a dual.
template <class T>
void put(T& to, T number, bool accumulate) {
  if (!accumulate) to = number;
  else if constexpr (std::is_same_v<T, dual>) to = {to.value + number.value, to.tangent + number.tangent};
  else to = static_cast<T>(to + number);
}

}  // namespace attune::kernels
