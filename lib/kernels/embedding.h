// Rows of a table by number: what turns token ids into vectors.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// y[..., :] = table[ids[...], :]. Shapes: y [..., C], table [V, C], ids i32 [...]. Any strides, so that the
// table may be the transposed weight of an output layer. Throws, before anything is written, where an id is
// not one of 0 to V - 1: the message names it and where it stands.
void embedding(const Out& y, const ConstView& table, const ConstView& ids);

// dtable[ids[...], :] += dy[..., :], in the order of the positions, however often an id repeats. A dtable
// that does not accumulate is set to 0 first.
void embedding_backward(const Out& dtable, const ConstView& dy, const ConstView& ids);

}  // namespace attune::kernels
