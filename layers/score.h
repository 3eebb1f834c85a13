// How often a model is right.
#pragma once

#include <algorithm>

#include "attune/autograd/tape.h"
#include "attune/layers/batch.h"

namespace attune {

// Counts over sequences. A token is right where its target is the argmax of its logits; a sequence is, where all of its
// asked tokens are. Since each answer token follows the right ones before it, a sequence is right just where the model,
// saying the likeliest token each time, would have said all of it.
struct Score {
  Index sequences = 0, right_sequences = 0;  // those of which anything is asked
  Index tokens = 0, right_tokens = 0;        // asked, that is, whose target is not ignored

  // Shares; 0 where nothing was asked.
  double exact_match() const { return share(right_sequences, sequences); }
  double token_accuracy() const { return share(right_tokens, tokens); }

  Score& operator+=(const Score& other);

 private:
  static double share(Index part, Index whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
};

// logits [..., T, V], targets i32 [..., T]. A classifier's logits [B, V] and labels [B] are one sequence: the share of
// those that it gets right is token_accuracy(). The first of equal logits counts as the largest; a row with a NaN is wrong.
Score score_of(const ConstView& logits, const ConstView& targets, Index ignored = -100);

// Of model(inputs) -> logits, without gradients, `at_once` sequences at a time.
template <class Model>
Score score(const Model& model, const Batch& batch, Index at_once = 64) {
  check(at_once >= 1, "score: {} sequences at once are not at least 1", at_once);
  Score total;
  for (Index begin = 0; begin < batch.inputs.size(0); begin += at_once) {
    const Index end = std::min(begin + at_once, batch.inputs.size(0));
    const NoGrad scope;
    const Tensor inputs = Tensor::copy_of(batch.inputs.view().slice(0, begin, end));
    const Var logits = model(inputs);
    total += score_of(logits.value(), batch.targets.view().slice(0, begin, end));
  }
  return total;
}

}  // namespace attune
