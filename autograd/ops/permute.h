// Axes in another order: a view, whose axis i is axis order[i] of x; each is named once. t swaps the last two.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var permute(Var x, const AxisList& order) {
  return view_of("permute", x, [=](const View& v) { return v.permute(order); });
}

inline Var t(Var x) {
  return view_of("t", x, [](const View& v) { return v.t(); });
}

}  // namespace attune
