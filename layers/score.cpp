#include "attune/layers/score.h"

namespace attune {
namespace {

// Whether the largest of these is the one at `target`.
template <class T>
bool is_argmax(std::span<const T> logits, std::int32_t target) {
  const auto at = static_cast<std::size_t>(target);
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (i < at ? !(logits[i] < logits[at]) : !(logits[i] <= logits[at])) return false;  // a NaN is never less
  return true;
}

template <class T>
Score count(const Tensor& logits, const Tensor& targets, Index ignored) {
  const Index classes = logits.shape().last(), length = targets.shape().last();
  const auto row = [&](Index i) {
    return logits.data<T>().subspan(static_cast<std::size_t>(i * classes), static_cast<std::size_t>(classes));
  };
  Score score;
  for (Index first = 0; first < targets.count(); first += length) {
    Index asked = 0, right = 0;
    for (Index i = first; i < first + length; ++i) {
      const std::int32_t target = targets.data<std::int32_t>()[static_cast<std::size_t>(i)];
      if (target == ignored) continue;
      check(target >= 0 && target < classes, "score: target {} is outside of {} classes", target, classes);
      ++asked;
      right += is_argmax(row(i), target);
    }
    score += {asked > 0, asked > 0 && right == asked, asked, right};
  }
  return score;
}

}  // namespace

Score& Score::operator+=(const Score& other) {
  sequences += other.sequences;
  right_sequences += other.right_sequences;
  tokens += other.tokens;
  right_tokens += other.right_tokens;
  return *this;
}

Score score_of(const ConstView& logits, const ConstView& targets, Index ignored) {
  check(targets.dtype() == i32, "score: targets are i32, not {}", targets.dtype());
  check(logits.dtype() == f32 || logits.dtype() == f64, "score: logits are f32 or f64, not {}", logits.dtype());
  Shape expected = targets.shape();
  if (expected.rank() < kMaxRank && logits.rank() >= 1) expected.append(logits.shape().last());
  check(targets.rank() >= 1 && expected == logits.shape(), "score: logits {} and targets {} do not fit", logits.shape(),
        targets.shape());
  const Tensor all = Tensor::copy_of(logits), asked = Tensor::copy_of(targets);
  return logits.dtype() == f32 ? count<float>(all, asked, ignored) : count<double>(all, asked, ignored);
}

}  // namespace attune
