// A row for each id, with a one at its place and zeros elsewhere: a constant.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

// ids i32 [...] -> [..., classes]. An id outside of 0 ... classes - 1 is an error that names it and its place.
Var one_hot(Var ids, Index classes, DType dtype = f32);

}  // namespace attune
