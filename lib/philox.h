// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds
// scramble a counter of 128 bits under a key of 64. It is not meant for cryptography.
//
// One block at a time, for lib/random.h and as the reference of body/dropout.inl, which draws sixteen in lanes.
#pragma once

#include <cstdint>

namespace attune {

struct PhiloxCounter {
  std::uint32_t word[4];
  friend bool operator==(const PhiloxCounter&, const PhiloxCounter&) = default;
};
struct PhiloxKey {
  std::uint32_t word[2];
};

__attribute__((always_inline)) constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xcd9e8d57} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key.word[0], static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key.word[1], static_cast<std::uint32_t>(a)}};
    key.word[0] += 0x9e3779b9;
    key.word[1] += 0xbb67ae85;
  }
  return counter;
}

// The 128 bits at a position of a stream of a seed.
__attribute__((always_inline)) constexpr PhiloxCounter philox_at(std::uint64_t seed, std::uint64_t stream,
                                                                  std::uint64_t position) {
  constexpr auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  constexpr auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  return philox({{low(position), high(position), low(stream), high(stream)}}, {{low(seed), high(seed)}});
}

}  // namespace attune
