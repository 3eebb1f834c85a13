// Parts side by side along an axis.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

namespace detail {
// The shape of the parts side by side; throws where they do not fit.
Shape concat_shape(std::span<const Var> parts, int axis, std::source_location where);
}  // namespace detail

// Parts of one type, and of one shape but for their sizes along `axis` -> the same shape with the sum of those sizes.
// Token ids, too.
inline Var concat(std::span<const Var> parts, int axis = 0) {
  const Shape shape = detail::concat_shape(parts, axis, std::source_location::current());
  const DType dtype = parts.front().dtype();
  const std::span<const Var> kept = saved(parts);
  const auto each_place = [=](const auto& whole, auto&& visit_part) {
    Index begin = 0;
    for (const Var part : kept) {
      const Index end = begin + part.size(axis);
      visit_part(part, whole.slice(axis, begin, end));
      begin = end;
    }
  };
  const auto fill_places = [&](const View& whole) {
    each_place(whole, [](Var part, const View& place) { kernels::copy(place, part.value()); });
  };
  if (!is_float(dtype)) {
    const View whole = saved(shape, dtype);
    fill_places(whole);
    return constant_of("concat", whole);
  }
  Var y = output(shape, parts, Saves::nothing);
  fill_places(into(y).view);
  return record("concat", y, [=] {
    each_place(y.grad(), [](Var part, const ConstView& place) {
      if (Out d = add_to(part)) kernels::copy(d, place);  // dpart += its part of dy
    });
  });
}
inline Var concat(std::initializer_list<Var> parts, int axis = 0) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

}  // namespace attune
