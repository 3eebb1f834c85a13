// Random numbers that are functions of where they stand: the draw at a position of a stream of a seed is the
// same number in every build, on every machine and for any number of threads, whoever drew before.
// The generator is Philox 4x32-10, see lib/philox.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "attune/lib/philox.h"
#include "attune/lib/view.h"

namespace attune {

// A place in a stream of random numbers. Each draw, of whatever kind, takes one position: a block of 128 bits
// that no other draw sees. The three numbers below are its whole state: Rng(seed, stream, position) goes on
// from there.
class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0, std::uint64_t position = 0)
      : seed_(seed), stream_(stream), position_(position) {}

  std::uint64_t seed() const { return seed_; }
  std::uint64_t stream() const { return stream_; }
  std::uint64_t position() const { return position_; }
  void skip(std::uint64_t draws) { position_ += draws; }

  std::uint32_t next();
  // In [0, 1), a multiple of 2^-53.
  double uniform();
  // 0, 1, ..., n - 1, all equally likely (Lemire 2019; once in 2^64 / n draws it takes another position). n
  // is at least 1.
  Index below(Index n);
  // Of mean 0 and deviation 1 (Box and Muller 1958: the cosine of the pair), at most 8.6 from 0.
  double normal();

  // An independent stream, at its start. It depends on the seed, this stream and the number or name alone,
  // not on the position: the same name twice is the same stream.
  Rng split(std::uint64_t number) const;
  Rng split(std::string_view name) const;

  friend bool operator==(const Rng&, const Rng&) = default;

 private:
  std::uint64_t seed_, stream_, position_;
};

// Element i, in row-major order, is mean + deviation * (the i-th normal from here on), computed in double,
// rounded once to the element type. Takes as many positions as there are elements. A dual gets the tangent 0;
// i32 is an error.
void fill_normal(const View& y, Rng& rng, double mean = 0, double deviation = 1);
// The same with low + (high - low) * uniform: at least low and below high, or equal to it by rounding.
void fill_uniform(const View& y, Rng& rng, double low = 0, double high = 1);

// Every order equally likely (Fisher and Yates).
void shuffle(std::span<Index> items, Rng& rng);

}  // namespace attune
