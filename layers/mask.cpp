#include "attune/layers/mask.h"

#include <algorithm>

#include "attune/lib/kernels/elementwise.h"

namespace attune {
namespace {

std::size_t at(Align align) { return static_cast<std::size_t>(align); }

// Neither limits, or the closer one.
Index closer(Index a, Index b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

template <class T, class F>
std::shared_ptr<const T> both(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b, F&& combine) {
  return !a ? b : !b ? a : std::make_shared<const T>(combine(*a, *b));
}

std::vector<Index> shorter(const std::vector<Index>& a, const std::vector<Index>& b) {
  check(a.size() == b.size(), "mask: paddings of {} and of {} lengths cannot be combined", a.size(), b.size());
  std::vector<Index> result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(std::min(a[i], b[i]));
  return result;
}

Tensor allowed_by_both(const Tensor& a, const Tensor& b) {
  Tensor result(broadcast(a.shape(), b.shape(), "mask"), i32);
  const Tensor left = Tensor::copy_of(a.view().expand(result.shape()));
  const Tensor right = Tensor::copy_of(b.view().expand(result.shape()));
  const auto to = result.data<std::int32_t>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = left.data<std::int32_t>()[i] & right.data<std::int32_t>()[i];
  return result;
}

}  // namespace

Mask Mask::causal(Align align) {
  Mask mask;
  mask.bands_[at(align)].causal = true;
  return mask;
}

Mask Mask::window(Index n, Align align) {
  check(n >= 1, "mask: a window of {} keys: a query sees at least the key at its own place", n);
  Mask mask;
  mask.bands_[at(align)] = {true, n};
  return mask;
}

Mask Mask::padding(std::span<const Index> lengths) {
  for (std::size_t entry = 0; entry < lengths.size(); ++entry)
    check(lengths[entry] >= 0, "mask: batch entry {} has a length of {}", entry, lengths[entry]);
  check(!lengths.empty(), "mask: padding needs a length for each batch entry");
  Mask mask;
  mask.lengths_ = std::make_shared<const std::vector<Index>>(lengths.begin(), lengths.end());
  return mask;
}

Mask Mask::padding(const Tensor& lengths) {
  check(lengths.dtype() == i32, "mask: padding takes lengths in i32, not {}", lengths.dtype());
  const std::span<const std::int32_t> numbers = lengths.data<std::int32_t>();
  return padding(std::vector<Index>(numbers.begin(), numbers.end()));
}

Mask Mask::allow(const Tensor& allowed) {
  check(allowed.dtype() == i32,
        "mask: allow takes i32 of 1 (may attend) and 0, not {}: numbers to add to the scores are a bias",
        allowed.dtype());
  for (const std::int32_t number : allowed.data<std::int32_t>())
    check(number == 0 || number == 1, "mask: allow takes 1 (may attend) and 0, not {}", number);
  Mask mask;
  mask.allow_ = std::make_shared<const Tensor>(allowed.clone());
  return mask;
}

Mask operator&(const Mask& a, const Mask& b) {
  Mask mask;
  for (const Align align : {Align::bottom_right, Align::top_left}) {
    const Mask::Band &left = a.bands_[at(align)], &right = b.bands_[at(align)];
    mask.bands_[at(align)] = {left.causal || right.causal, closer(left.window, right.window)};
  }
  mask.lengths_ = both(a.lengths_, b.lengths_, shorter);
  mask.allow_ = both(a.allow_, b.allow_, allowed_by_both);
  return mask;
}

kernels::AttentionMask Mask::visible(Index queries, Index keys) const {
  kernels::AttentionMask result;
  for (const Align align : {Align::bottom_right, Align::top_left}) {
    const Band& band = bands_[at(align)];
    const Index own_place = align == Align::bottom_right ? keys - queries : 0;
    if (band.causal) result.last = std::min(result.last, own_place);
    if (band.window > 0) result.first = std::max(result.first, own_place - band.window + 1);
  }
  if (lengths_) result.lengths = *lengths_;
  if (allow_) result.allow = allow_->view();
  return result;
}

bool Mask::suits_cache() const {
  const Band &last = bands_[static_cast<int>(Align::bottom_right)], &first = bands_[static_cast<int>(Align::top_left)];
  return last.causal && !first.causal && first.window == 0 && !lengths_ && !allow_;
}

std::string Mask::text() const {
  std::vector<std::string> parts;
  for (const Align align : {Align::bottom_right, Align::top_left}) {
    const Band& band = bands_[at(align)];
    const char* by_name = align == Align::top_left ? "top left" : "";
    if (band.window > 0)
      parts.push_back(fmt::format("window({}{}{})", band.window, *by_name ? ", " : "", by_name));
    else if (band.causal)
      parts.push_back(*by_name ? fmt::format("causal({})", by_name) : "causal");
  }
  if (lengths_) parts.push_back(fmt::format("padding({})", fmt::join(*lengths_, ", ")));
  if (allow_) parts.push_back(fmt::format("allow({})", allow_->shape()));
  return parts.empty() ? "all" : fmt::format("{}", fmt::join(parts, " & "));
}

std::string draw_mask(const Mask& mask, Index queries, Index keys, Index entry, Index head) {
  const kernels::AttentionMask visible = mask.visible(queries, keys);
  Index length = keys;
  if (!visible.lengths.empty()) {
    check(entry >= 0 && entry < static_cast<Index>(visible.lengths.size()),
          "draw_mask: there is no batch entry {} of {}", entry, visible.lengths.size());
    length = visible.lengths[static_cast<std::size_t>(entry)];
  }
  ConstView allowed;
  if (visible.allow) {
    // The last two axes of the entry and head, as far as the mask tells them apart.
    allowed = *visible.allow;
    while (allowed.rank() > 3) {
      Index below = 1;
      for (int axis = 1; axis < allowed.rank() - 3; ++axis) below *= allowed.shape()[axis];
      allowed = allowed.select(0, allowed.size(0) == 1 ? 0 : entry / below % allowed.size(0));
    }
    if (allowed.rank() == 3) allowed = allowed.select(0, allowed.size(0) == 1 ? 0 : head);
    check(broadcasts_to(allowed.shape(), {queries, keys}),
          "draw_mask: allow {} does not stretch to {} queries and {} keys", visible.allow->shape(), queries, keys);
    allowed = allowed.expand({queries, keys});
  }
  std::string picture;
  for (Index i = 0; i < queries; ++i) {
    for (Index j = 0; j < keys; ++j) {
      const bool seen =
          j >= i + visible.first && j <= i + visible.last && j < length && (!visible.allow || allowed.at({i, j}) != 0);
      picture += seen ? "██" : "··";
    }
    picture += '\n';
  }
  return picture;
}

}  // namespace attune
