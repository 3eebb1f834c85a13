// Dropout's factors (Srivastava et al. 2014): 0 with probability p, and else 1 / (1 - p), so that the mean stays.
//
// Element e of a stream is dropped or kept whatever the shape, the instruction set and the number of threads: nothing
// needs to be stored, since the factors can be had again.
#pragma once

#include "attune/lib/kernels/table.h"
#include "attune/lib/random.h"
#include "attune/lib/view.h"

namespace attune::kernels {

// `stream` gives element e the (e % 4)-th of the four words at its position plus e / 4. p is in [0, 1].
DropoutMask dropout_mask(const Rng& stream, double p);

// y[e] = the factor of element e, counted row by row. y is contiguous.
void dropout_factors(const View& y, const DropoutMask& mask);

}  // namespace attune::kernels
