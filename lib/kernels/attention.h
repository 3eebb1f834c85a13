// Scaled dot-product attention (Vaswani et al. 2017, section 3.2) in memory that grows with L + S, forward and backward
// (Dao, "FlashAttention-2", 2023): the scores of a block of queries and a block of keys are used as soon as they are
// there, and of each row only its maximum and its sum are kept, from which backward computes the weights again.
//
// Letters in shapes: Hq and Hkv heads of queries and of keys, L queries, S keys, d width of a query and a key, dv width
// of a value.
#pragma once

#include <optional>
#include <span>

#include "attune/lib/kernels/table.h"
#include "attune/lib/view.h"

namespace attune::kernels {

// A distance that no key has.
inline constexpr Index kAnyDistance = Index{1} << 40;

// Which keys a query sees: those that every part of it allows.
struct AttentionMask {
  Index first = -kAnyDistance, last = kAnyDistance;  // query i sees keys i + first ... i + last
  std::span<const Index> lengths = {};  // the first so many keys, for each batch entry (the axes before the heads,
                                        // row-major); empty: all
  std::optional<ConstView> allow = {};  // i32 [..., Hq, L, S], stretched to it: where it is not 0
};

// score = softcap(scale q·k) + bias, and -inf where the mask, or a bias of -inf, hides the key. The softcap c, if above
// 0, makes c tanh(s / c) of a score. Query head h reads key head h / (Hq / Hkv).
struct Attention {
  ConstView q, k, v;  // [..., Hq, L, d], [..., Hkv, S, d], [..., Hkv, S, dv], of one type; any strides
  double scale = 1;
  double softcap = 0;
  std::optional<ConstView> bias = {};   // [..., Hq, L, S], stretched to it
  std::optional<ConstView> sinks = {};  // [Hq]: a score that takes its part of each row's weight, and has no value
  AttentionMask mask = {};
  // The weight of (b, h, i, j), b counted over the batch, is element ((b Hq + h) L + i) S + j of the mask.
  std::optional<DropoutMask> dropout = {};
};

// y [..., Hq, L, dv] = softmax(scores) v, in any strides. `statistics` [2, ..., Hq, L], contiguous, gets each row's
// maximum and the sum of exp(score - maximum), the sink among them; -inf and 0 where a query sees nothing, whose y is
// 0.
//
// The result of a query depends on q, on the keys that it sees and on their places in the row of keys, to the bit: not
// on L, S, the batch, or what is hidden, be it NaN. A row that sees a score of NaN or +inf is NaN.
void attention(const Out& y, const View& statistics, const Attention& a);

// The weights, before dropout, from the statistics: [..., Hq, L, S], contiguous. What is hidden is exactly 0.
void attention_weights(const View& weights, const ConstView& statistics, const Attention& a);

// The gradients, from dy, y and the statistics of forward. dq, dk and dv are distinct memory. `dscores` [..., Hq, L, S]
// and `dsinks` [..., Hq, L], contiguous where wanted, get those of the scores after the softcap (the bias's, before it
// is summed), and of the sink in each row. What is hidden passes back exactly 0.
struct AttentionGradients {
  Out dq, dk, dv;
  std::optional<View> dscores = {}, dsinks = {};
};
void attention_backward(const AttentionGradients& gradients, const ConstView& dy, const ConstView& y,
                        const ConstView& statistics, const Attention& a);

// Throws std::invalid_argument, with the shapes, where `a` does not fit together. Returns [..., Hq, L, S].
Shape check_attention(const Attention& a);

}  // namespace attune::kernels
