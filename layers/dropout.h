// Dropout as a layer: it remembers its share, and nothing else.
#pragma once

#include "attune/autograd/ops.h"

namespace attune {

// Any shape. In training it needs a tape with random numbers: Tape tape({.random = &rng}). A share that is not between 0
// and 1 is an error.
struct Dropout {
  double share = 0;

  explicit Dropout(double p = 0) : share(p) { check(p >= 0 && p <= 1, "dropout: a share of {} is not between 0 and 1", p); }
  Var operator()(Var x) const { return dropout(x, share); }

  void each(auto&&) const {}
};

}  // namespace attune
