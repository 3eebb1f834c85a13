// One's own sequences as batches: shuffled, padded to the longest of each batch, with their lengths.
#pragma once

#include <vector>

#include "attune/layers/batch.h"
#include "attune/lib/random.h"

namespace attune {

// inputs i32 [B, T], T the longest sequence of the batch; lengths i32 [B], for Mask::padding; targets i32 [B, T], -100 at
// padding, or, of classified sequences, [B].
struct PaddedBatch {
  Tensor inputs, targets, lengths;
};

struct SequencesOptions {
  Index batch = 32;         // B, but of the last batch of an epoch
  std::int32_t padding = 0; // the token that fills inputs up
  bool shuffled = true;
  bool keep_last = true;    // whether an epoch's last batch is there where it has fewer sequences than the others
  std::uint64_t seed = 0;   // of the order, which is a function of (seed, epoch)
};

// It owns its sequences. No sequences, lengths that do not agree, and batches that do not exist are errors.
class Sequences {
 public:
  using Ids = std::vector<std::int32_t>;

  // Each token is asked to foresee the next: inputs have all tokens but the last, targets all but the first. Sequences
  // have at least two.
  static Sequences next_token(std::vector<Ids> sequences, const SequencesOptions& options = {});
  // A label for each token (-100 where none is asked).
  static Sequences labelled(std::vector<Ids> sequences, std::vector<Ids> labels, const SequencesOptions& options = {});
  // One class for each sequence.
  static Sequences classified(std::vector<Ids> sequences, const Ids& classes, const SequencesOptions& options = {});

  Index size() const { return static_cast<Index>(inputs_.size()); }
  // In an epoch. Where the sequences do not fill the last batch, it has the rest of them (or is left out: keep_last).
  Index batches() const;
  // Batch i = 0 ... batches() - 1 of an epoch.
  PaddedBatch batch(Index epoch, Index i) const;
  // The batch of step 0, 1, ..., epoch after epoch.
  PaddedBatch batch(Index step) const { return batch(step / batches(), step % batches()); }
  // The sequences' numbers in the order of an epoch. Each call shuffles anew: about 10 ns a sequence.
  std::vector<Index> order(Index epoch) const;

 private:
  Sequences(std::vector<Ids> inputs, std::vector<Ids> targets, bool is_classified, const SequencesOptions& options);

  std::vector<Ids> inputs_, targets_;  // of equal lengths, or one target each
  bool is_classified_;
  SequencesOptions options_;
};

}  // namespace attune
