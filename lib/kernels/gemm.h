// The matrix product. Everything that multiplies matrices goes through here: layers, attention's composed
// form, and all their gradients, with a transposed operand or a head of a wider buffer given as a strided
// view.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

// C = scale * A B, or C += scale * A B where `c` accumulates: [..., M, K] x [..., K, N] -> [..., M, N], of
// one dtype (f32, f64 or dual), with any strides, C's included. Leading axes broadcast as usual; C has them
// in full.
//
// What is computed, to the bit, whatever the strides, the batch, the instruction set and the threads: for
// every 384 steps of k (0 ... 383, 384 ... 767, ...) a sum that starts at +0 and takes one fused multiply-add
// for each k in ascending order, s = fma(a, b, s); then C = scale * s for the first of them unless `c`
// accumulates, and C = C + scale * s for the others. So an empty K gives zeros, or leaves C as it is when it
// accumulates.
//
// Throws std::invalid_argument where sizes or dtypes do not fit, where C shares memory with A or B, or where
// an element of C stands for several (a stride of 0).
void gemm(const Out& c, const ConstView& a, const ConstView& b, double scale = 1);

}  // namespace attune::kernels
