// Elements begin, begin + step, ... below end, along an axis: a view. select is one of them, without the axis. Negative
// numbers count from the end of the axis; the step is at least 1; what lies outside of the axis is an error.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var slice(Var x, int axis, Index begin, Index end, Index step = 1) {
  return view_of("slice", x, [=](const View& v) { return v.slice(axis, begin, end, step); });
}

inline Var select(Var x, int axis, Index index) {
  return view_of("select", x, [=](const View& v) { return v.select(axis, index); });
}

}  // namespace attune
