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

}  // namespace attune
