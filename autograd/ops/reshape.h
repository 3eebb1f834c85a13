// The same elements in another shape: a view. One size may be -1, and is what the others leave. Token ids, too. Throws
// where strides allow no view: contiguous(x) first.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var reshape(Var x, std::initializer_list<Index> sizes) {
  return view_of("reshape", x, [=](const View& v) { return v.reshape(sizes); });
}

inline Var reshape(Var x, const Shape& shape) {
  return view_of("reshape", x, [&](const View& v) { return v.reshape(shape); });
}

}  // namespace attune
