// The lower triangle of matrices.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/gather.h"

namespace attune {

// x [..., rows, columns]: what stands above the diagonal becomes 0. Diagonal 1 is the one above the main diagonal, -1
// the one below.
inline Var tril(Var x, Index diagonal = 0) {
  check(x.rank() >= 2, "tril: {} is no matrix", x.shape());
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::lower_triangle(into(y), x.value(), diagonal);
  return record("tril", y, [=] {
    if (Out d = add_to(x)) kernels::lower_triangle(d, y.grad(), diagonal);  // dx += tril(dy)
  });
}

}  // namespace attune
