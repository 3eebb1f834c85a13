// Rotating pairs of elements of the last axis, as rotary position embeddings do (Su et al. 2021). A plain loop, no body
// of the kernel table.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// Which elements of a row of d make pair i: i and i + d / 2, or 2 i and 2 i + 1.
enum class RotaryPairs { half_split, interleaved };
enum class Turn { forward, back };

// (a, b) -> (a cos - b sin, b cos + a sin) for each pair of x [..., d], d even; backwards with -sin. cos and sin stretch
// to [..., d / 2], have one layout and x's element type.
void rotate(const Out& y, const ConstView& x, const ConstView& cos, const ConstView& sin, RotaryPairs pairs, Turn turn);

}  // namespace attune::kernels
