// A text to train on, byte by byte: a character of ASCII is one, any other in UTF-8 two to four.
#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/layers/batch.h"
#include "attune/lib/random.h"

namespace attune {

// A text as characters (bytes), numbered in the order of their codes; the first part trains, the rest validates.
class CharacterText {
 public:
  // `training` is the share of the text that trains, above 0 and below 1.
  explicit CharacterText(std::string_view text, double training = 0.9);
  // Throws where the file cannot be read.
  static CharacterText from_file(const std::filesystem::path& path, double training = 0.9);

  Index vocab() const { return static_cast<Index>(characters_.size()); }
  // inputs i32 [size, context], windows drawn uniformly over all starts, and as targets the same windows one character
  // further on: a function of rng's seed and stream, and the step. An error where the part is no longer than `context`.
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
