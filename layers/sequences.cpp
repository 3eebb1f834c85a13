#include "attune/layers/sequences.h"

#include <algorithm>
#include <numeric>

namespace attune {
namespace {

Index length_of(const Sequences::Ids& ids) { return static_cast<Index>(ids.size()); }

void check_lengths(const std::vector<Sequences::Ids>& sequences, Index least) {
  for (std::size_t i = 0; i < sequences.size(); ++i)
    check(length_of(sequences[i]) >= least, "sequences: number {} has {} tokens, and needs {}", i, sequences[i].size(),
          least);
}

}  // namespace

Sequences::Sequences(std::vector<Ids> inputs, std::vector<Ids> targets, bool is_classified,
                     const SequencesOptions& options)
    : inputs_(std::move(inputs)), targets_(std::move(targets)), is_classified_(is_classified), options_(options) {
  check(!inputs_.empty(), "sequences: there are none");
  check(options.batch >= 1, "sequences: a batch of {} is not at least 1", options.batch);
  check(batches() >= 1, "sequences: {} do not fill a batch of {}, and a last one is not kept", inputs_.size(),
        options.batch);
}

Sequences Sequences::next_token(std::vector<Ids> sequences, const SequencesOptions& options) {
  check_lengths(sequences, 2);
  std::vector<Ids> targets;
  for (Ids& sequence : sequences) {
    targets.emplace_back(sequence.begin() + 1, sequence.end());
    sequence.pop_back();
  }
  return Sequences(std::move(sequences), std::move(targets), false, options);
}

Sequences Sequences::labelled(std::vector<Ids> sequences, std::vector<Ids> labels, const SequencesOptions& options) {
  check_lengths(sequences, 1);
  check(sequences.size() == labels.size(), "sequences: {} of them, and {} of labels", sequences.size(), labels.size());
  for (std::size_t i = 0; i < sequences.size(); ++i)
    check(sequences[i].size() == labels[i].size(), "sequences: number {} has {} tokens and {} labels", i,
          sequences[i].size(), labels[i].size());
  return Sequences(std::move(sequences), std::move(labels), false, options);
}

Sequences Sequences::classified(std::vector<Ids> sequences, const Ids& classes, const SequencesOptions& options) {
  check_lengths(sequences, 1);
  check(sequences.size() == classes.size(), "sequences: {} of them, and {} classes", sequences.size(), classes.size());
  std::vector<Ids> targets;
  for (const std::int32_t one : classes) targets.push_back({one});
  return Sequences(std::move(sequences), std::move(targets), true, options);
}

Index Sequences::batches() const {
  return options_.keep_last ? (size() + options_.batch - 1) / options_.batch : size() / options_.batch;
}

std::vector<Index> Sequences::order(Index epoch) const {
  check(epoch >= 0, "sequences: there is no epoch {}", epoch);
  std::vector<Index> numbers(inputs_.size());
  std::iota(numbers.begin(), numbers.end(), Index{0});
  if (!options_.shuffled) return numbers;
  Rng rng = Rng(options_.seed).split("order").split(static_cast<std::uint64_t>(epoch));
  shuffle(numbers, rng);
  return numbers;
}

PaddedBatch Sequences::batch(Index epoch, Index i) const {
  check(i >= 0 && i < batches(), "sequences: there is no batch {} of {}", i, batches());
  const std::vector<Index> all = order(epoch);
  const Index begin = i * options_.batch, rows = std::min(options_.batch, size() - begin);
  const std::span<const Index> chosen =
      std::span(all).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows));

  Index longest = 0;
  for (const Index number : chosen) longest = std::max(longest, length_of(inputs_[static_cast<std::size_t>(number)]));
  const Index asked = is_classified_ ? 1 : longest;
  PaddedBatch batch{full({rows, longest}, options_.padding, i32), full({rows, asked}, -100, i32), Tensor({rows}, i32)};
  auto input = batch.inputs.data<std::int32_t>().begin(), target = batch.targets.data<std::int32_t>().begin();
  auto length = batch.lengths.data<std::int32_t>().begin();
  for (const Index number : chosen) {
    const Ids &ids = inputs_[static_cast<std::size_t>(number)], &targets = targets_[static_cast<std::size_t>(number)];
    std::copy(ids.begin(), ids.end(), input);
    std::copy(targets.begin(), targets.end(), target);
    *length++ = static_cast<std::int32_t>(ids.size());
    input += longest;
    target += asked;
  }
  if (is_classified_) batch.targets = Tensor::copy_of(batch.targets.view().reshape({rows}));
  return batch;
}

}  // namespace attune
