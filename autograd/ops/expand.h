// Sizes of 1, and missing leading axes, repeated to a shape. The value is a view; the gradient is summed back. Throws
// where x does not stretch to that shape.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var expand(Var x, const Shape& shape) {
  const View stretched = detail::views(x, std::source_location::current()).value.expand(shape);
  Var y = alias_of("expand", x, stretched, Flow::open);
  return record("expand", y, [=] {
    if (Out d = add_to(x)) kernels::sum(d, y.grad());  // dx += dy, summed over what was repeated
  });
}

// Sizes in braces, so that the message about a negative one names the op.
inline Var expand(Var x, std::initializer_list<Index> sizes) {
  for (const Index size : sizes) check(size >= 0, "expand: a size of {} is negative", size);
  return expand(x, Shape(sizes));
}

}  // namespace attune
