// What toy models are trained on: batches that depend on (seed, step) alone, so that they can be had again.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "attune/lib/random.h"
#include "attune/lib/tensor.h"

namespace attune {

// inputs i32 [B, T], and for each position what should follow: targets i32 [B, T], -100 where nothing is asked.
struct Batch {
  Tensor inputs, targets;
};

struct CopyTaskOptions {
  Index symbols = 10;
  Index length = 15;
  std::uint64_t seed = 0;
};

// Read `length` random symbols and a separator, then say the symbols again.
class CopyTask {
 public:
  explicit CopyTask(const CopyTaskOptions& options);

  Index vocab() const { return options_.symbols + 1; }  // the separator is the last token
  Index context() const { return 2 * options_.length; }
  Index length() const { return options_.length; }
  Index separator() const { return options_.symbols; }

  Batch batch(Index step, Index size) const;
  // Sequences i32 [n, length] from a stream that no batch draws from.
  Tensor held_out(Index n) const;

 private:
  Tensor sequences(const Rng& rng, Index n) const;
  CopyTaskOptions options_;
};

// A text as characters (bytes), numbered in the order of their codes; the first part trains, the rest validates.
class CharacterText {
 public:
  // `training` is the share of the text that trains, above 0 and below 1.
  explicit CharacterText(std::string_view text, double training = 0.9);
  // Throws where the file cannot be read.
  static CharacterText from_file(const std::filesystem::path& path, double training = 0.9);

  Index vocab() const { return static_cast<Index>(characters_.size()); }
  // Windows of `context` characters, each followed by the same window one further on, drawn uniformly over all starts.
  Batch batch(const Rng& rng, Index step, Index size, Index context) const;
  Batch validation_batch(const Rng& rng, Index step, Index size, Index context) const;

  // Characters to ids and back; a character that the text does not have is an error that names it.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> ids) const;

 private:
  Batch windows(std::span<const std::int32_t> ids, const char* part, const Rng& rng, Index step, Index size,
                Index context) const;

  std::string characters_;          // by id
  std::array<int, 256> id_of_{};    // by byte; -1 where the text does not have it
  std::vector<std::int32_t> ids_;
  std::size_t training_ = 0;
};

}  // namespace attune
