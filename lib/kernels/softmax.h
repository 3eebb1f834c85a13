// Softmax over the last axis, whole or causal (Bridle 1990; the shift by the maximum keeps exp from
// overflowing).
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// Which columns a row sees: all, or those up to its index in the second-last axis plus `shift`.
struct Visible {
  bool all = true;
  Index shift = 0;

  // Aligned at the bottom right: the last row sees everything.
  static Visible causal(Index rows, Index columns) { return {false, columns - rows}; }
};

// y = exp(x - max) / sum(exp(x - max)) along the last axis. y and x have one shape, of rank 1 or more (2 or
// more where not all is visible), and one element type; y may be x itself.
//
// What a row does not see is never read and gets exactly 0. An entry of -inf gets exactly 0. A row that sees
// nothing, or nothing but -inf, is all 0: -inf is how a bias masks. A row that sees NaN or +inf is NaN where
// it sees.
void softmax(const Out& y, const ConstView& x, const Visible& visible = {});

// dx = y * (dy - sum(dy * y)), from the result y. What is not visible gets 0 (or stays, where dx
// accumulates), and neither dy nor y is read there. dx may be dy itself.
void softmax_backward(const Out& dx, const ConstView& dy, const ConstView& y, const Visible& visible = {});

}  // namespace attune::kernels
