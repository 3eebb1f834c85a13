// The outer product of two vectors: y[i, j] = a[i] * b[j].
#pragma once

#include "attune/autograd/ops/matmul.h"

namespace attune {

// a [M], b [N] -> [M, N].
inline Var outer(Var a, Var b) {
  check(a.rank() == 1 && b.rank() == 1, "outer: {} and {} are not two vectors", a.shape(), b.shape());
  const Var column = reshape(a, {a.size(0), 1});
  const Var row = reshape(b, {1, b.size(0)});
  return matmul(column, row);
}

}  // namespace attune
