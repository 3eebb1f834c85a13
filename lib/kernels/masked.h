// What attention's composed form needs besides the product and the softmax: hiding scores, and products that a hidden
// infinity or NaN must not reach.
#pragma once

#include "attune/lib/kernels/attention.h"

namespace attune::kernels {

// y = x + bias, and -inf where the mask or the bias hides; x is [..., Hq, L, S]. With a sink, y is [..., Hq, L, S + 1]:
// its last column is the sink, or -inf in a row that sees nothing. y is contiguous.
void masked_scores(const View& y, const ConstView& x, const Attention& a);

// How many keys each query sees by the mask: y i32 [..., Hq, L], contiguous, for scores [..., Hq, L, S].
void visible_keys(const View& y, const AttentionMask& mask, const Shape& scores);

// y = x, but exactly 0 where `scores`, of their shape, are -inf. y may be x.
void where_seen(const Out& y, const ConstView& x, const ConstView& scores);

// c = scale * a b as gemm computes it ([..., M, K] x [..., K, N], equal leading axes), but for the terms where `seen`
// [..., M, K] is -inf, or, given a itself, 0: they do not count, whatever is in b.
enum class Unseen { minus_infinity, zero };
void multiply_where_seen(const Out& c, const ConstView& a, const ConstView& b, double scale, const ConstView& seen,
                         Unseen unseen);

// y [...] = log sum exp of the rows of x [..., n], where x may be -inf; of duals, the values. y is contiguous.
void log_sum_exp(const View& y, const ConstView& x);

// Whether no number is infinite or NaN. Of duals, the values.
bool all_finite(const ConstView& x);

}  // namespace attune::kernels
