#include "attune/lib/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "attune/lib/kernels/run.h"
#include "attune/lib/math.h"

namespace attune {
namespace {

// The 128 bits at a position, as two numbers.
struct Block {
  std::uint64_t first, second;
};

Block block_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  const auto [word] = philox_at(seed, stream, position);
  return {word[0] | std::uint64_t{word[1]} << 32, word[2] | std::uint64_t{word[3]} << 32};
}

// 53 bits as a fraction: all that a double between 1/2 and 1 can hold.
double fraction(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

double normal_of(const Block& block) {
  const double above_zero = fraction(block.first) + 0x1p-53;  // in (0, 1]: its logarithm is finite
  const double radius = std::sqrt(-2 * math::log(above_zero));
  return radius * math::cos(2 * std::numbers::pi * fraction(block.second));
}

// High and low half of a * b.
std::pair<std::uint64_t, std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a_low = a & 0xffffffff, a_high = a >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
  const std::uint64_t cross = a_high * b_low + (a_low * b_low >> 32);
  const std::uint64_t middle = a_low * b_high + (cross & 0xffffffff);
  return {a_high * b_high + (cross >> 32) + (middle >> 32), a * b};
}

Index offset_of(const View& view, Index element) {
  Index offset = 0;
  for (int axis = view.rank() - 1; axis >= 0; --axis) {
    const Index size = view.shape()[axis];
    offset += element % size * view.strides()[static_cast<std::size_t>(axis)];
    element /= size;
  }
  return offset;
}

// y's element i becomes number(block at position + i). Any thread may take any part.
template <class Number>
void fill(const View& y, Rng& rng, Number&& number) {
  const Rng start = rng;
  const bool contiguous = y.is_contiguous();
  visit(y.dtype(), [&]<class T>() {
    if constexpr (dtype_of<T> != DType::i32) {
      T* elements = y.as<T>();
      constexpr Index grain = 1024;
      parallel_for(y.count(), grain, [&](Index begin, Index end) {
        const kernels::DenormalMode mode(f64);
        for (Index i = begin; i < end; ++i) {
          const std::uint64_t position = start.position() + static_cast<std::uint64_t>(i);
          T& element = elements[contiguous ? i : offset_of(y, i)];
          const double value = number(block_at(start.seed(), start.stream(), position));
          if constexpr (std::is_same_v<T, dual>)
            element = dual{value, 0};
          else
            element = static_cast<T>(value);
        }
      });
    }
  });
  rng.skip(static_cast<std::uint64_t>(y.count()));
}

}  // namespace

std::uint32_t Rng::next() { return static_cast<std::uint32_t>(block_at(seed_, stream_, position_++).first); }

double Rng::uniform() { return fraction(block_at(seed_, stream_, position_++).first); }

double Rng::normal() { return normal_of(block_at(seed_, stream_, position_++)); }

Index Rng::below(Index n) {
  check(n >= 1, "below: {} leaves no number to choose", n);
  const auto range = static_cast<std::uint64_t>(n);
  // The high half of range * x is below range, and equally likely to be any number once the products whose
  // low half is under 2^64 mod range are thrown away.
  const std::uint64_t unfair = (0 - range) % range;
  for (;;) {
    const auto [high, low] = product(range, block_at(seed_, stream_, position_++).first);
    if (low >= unfair) return static_cast<Index>(high);
  }
}

Rng Rng::split(std::uint64_t number) const {
  // Draws never use this key, so a stream's number is not one of them.
  constexpr std::uint64_t split_key = 0x73706c6974;
  return Rng(seed_, block_at(seed_ ^ split_key, stream_, number).first);
}

Rng Rng::split(std::string_view name) const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll and Vo 1991)
  for (char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return split(hash);
}

void fill_normal(const View& y, Rng& rng, double mean, double deviation) {
  check(is_float(y.dtype()), "fill_normal: {} has no fractions", y.dtype());
  check(std::isfinite(mean) && std::isfinite(deviation) && deviation >= 0,
        "fill_normal: a mean of {} with a deviation of {}", mean, deviation);
  fill(y, rng, [=](const Block& block) { return mean + deviation * normal_of(block); });
}

void fill_uniform(const View& y, Rng& rng, double low, double high) {
  check(is_float(y.dtype()), "fill_uniform: {} has no fractions", y.dtype());
  check(std::isfinite(low) && std::isfinite(high - low) && low <= high, "fill_uniform: from {} to {}", low,
        high);
  fill(y, rng,
       [=](const Block& block) { return std::min(high, low + (high - low) * fraction(block.first)); });
}

void shuffle(std::span<Index> items, Rng& rng) {
  for (std::size_t left = items.size(); left > 1; --left)
    std::swap(items[left - 1], items[static_cast<std::size_t>(rng.below(static_cast<Index>(left)))]);
}

}  // namespace attune
