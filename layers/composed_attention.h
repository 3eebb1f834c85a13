// Attention step by step, each step an op whose result is kept: what the fused kernel is tested against, and what runs
// where an observer puts other scores or weights in place. It takes memory for L times S numbers several times over.
#pragma once

#include "attune/layers/attention.h"

namespace attune::detail {

// scale q kᵀ [..., Hq, L, S].
Var attention_scores(const AttentionCall& call);

// From scores on: softcap, bias and mask, whose -inf is what hides a key; with sinks, a column for them follows.
Var masked_scores(const AttentionCall& call, Var scores);

// The normalizer of those, without the sinks' column: [..., Hq, L, S]. What is hidden is exactly 0.
Var attention_weights(const AttentionCall& call, Var masked);

// Dropout, and the sum over the values. `masked` tells what is hidden; where there is none, a weight of 0 does.
Var weigh(const AttentionCall& call, Var weights, const std::optional<Var>& masked);

// All of it, without taps.
AttentionResult composed_attention(const AttentionCall& call);

}  // namespace attune::detail
