// Which keys a query may attend to: a type, so that no tensor's true can be taken for its false.
//
//   const Mask mask = Mask::causal() & Mask::padding(lengths);
//   fmt::print("{:4x6}", mask);   // a picture for 4 queries and 6 keys
//
// Letters: L queries, S keys, H heads.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attune/lib/kernels/attention.h"
#include "attune/lib/tensor.h"

namespace attune {

// Where L and S differ: whether the last query meets the last key, or the first the first.
enum class Align { bottom_right, top_left };

// A value, cheap to copy: copies share what they hold.
class Mask {
 public:
  // Every query sees every key.
  Mask() = default;
  // A query sees the keys up to its own place: query i sees key j where j <= i + S - L, or, aligned at the top left,
  // where j <= i.
  static Mask causal(Align align = Align::bottom_right);
  // A query sees the n keys up to and including its own place, so it is causal, too. n < 1 is an error.
  static Mask window(Index n, Align align = Align::bottom_right);
  // Of batch entry b, the first lengths[b] keys are seen. One length, 0 ... S, for each entry of the axes before the
  // heads, row-major. The numbers are copied.
  static Mask padding(std::span<const Index> lengths);
  static Mask padding(std::initializer_list<Index> lengths) {
    return padding(std::span(lengths.begin(), lengths.size()));
  }
  // The same from i32, as a PaddedBatch has them.
  static Mask padding(const Tensor& lengths);
  // An i32 of 0 and 1, where 1 means: may attend. It stretches to [..., H, L, S]. The numbers are copied.
  static Mask allow(const Tensor& allowed);

  // What both allow.
  friend Mask operator&(const Mask& a, const Mask& b);

  // For L queries and S keys, as kernels take it. It shows memory of this mask (and of its copies), which must live on.
  kernels::AttentionMask visible(Index queries, Index keys) const;
  // Whether a query sees the same keys in the whole sequence and when it is the last that was read: causal or a window,
  // aligned at the bottom right, and nothing else.
  bool suits_cache() const;
  // What allow() was given, or null.
  const Tensor* allowed() const { return allow_.get(); }

  // "causal & padding(3, 5)", or "all".
  std::string text() const;

 private:
  // What is said about distances, for each way to align.
  struct Band {
    bool causal = false;
    Index window = 0;  // 0: none
  };

  Band bands_[2];  // by Align
  std::shared_ptr<const std::vector<Index>> lengths_;
  std::shared_ptr<const Tensor> allow_;
};

// A line for each query, two columns for each key, "██" where it may attend: of one batch entry (counted over the axes
// before the heads) and head.
std::string draw_mask(const Mask& mask, Index queries, Index keys, Index entry = 0, Index head = 0);

}  // namespace attune

// "{}" writes what the mask is made of, "{:4x6}" draws it for 4 queries and 6 keys.
template <>
struct fmt::formatter<attune::Mask> {
  constexpr auto parse(fmt::format_parse_context& context) {
    auto at = context.begin();
    const auto number = [&] {
      attune::Index n = 0;
      while (at != context.end() && *at >= '0' && *at <= '9') n = 10 * n + (*at++ - '0');
      return n;
    };
    if (at == context.end() || *at == '}') return at;
    queries_ = number();
    if (at != context.end() && *at == 'x') ++at;
    keys_ = number();
    if (at != context.end() && *at != '}') throw fmt::format_error("a mask is drawn by {:4x6}: queries, keys");
    return at;
  }
  template <class Context>
  auto format(const attune::Mask& mask, Context& context) const {
    return fmt::format_to(context.out(), "{}", queries_ < 0 ? mask.text() : attune::draw_mask(mask, queries_, keys_));
  }

 private:
  attune::Index queries_ = -1, keys_ = 0;
};
