// The sizes of a tensor: up to six axes, stored inline. A scalar has rank 0. And lists of axes.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <span>
#include <type_traits>

#include "attune/lib/error.h"

namespace attune {

class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<Index> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const Index> sizes) : rank_(static_cast<int>(sizes.size())) {
    check(sizes.size() <= kMaxRank, "shape: rank {} is above the limit of {}", sizes.size(), kMaxRank);
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
    for (Index size : sizes) check(size >= 0, "shape: a size of {} is negative", size);
  }

  int rank() const { return rank_; }
  Index operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  Index& operator[](int axis) { return sizes_[static_cast<std::size_t>(axis)]; }
  const Index* begin() const { return sizes_.data(); }
  const Index* end() const { return sizes_.data() + rank_; }

  // The size of the last axis, or of the one `back` places before it: shape.last(1) is the rows of a matrix.
  Index last(int back = 0) const { return (*this)[rank_ - 1 - back]; }

  // How many elements: 1 for a scalar, 0 where any size is 0; the largest Index where there are more than that.
  Index count() const {
    Index product = 1;
    for (Index size : *this)
      if (__builtin_mul_overflow(product, size, &product)) product = std::numeric_limits<Index>::max();
    return product;
  }

  void append(Index size) {
    check(rank_ < kMaxRank, "shape: rank {} is above the limit of {}", rank_ + 1, kMaxRank);
    (*this)[rank_++] = size;
  }

  // The axis that `axis` names, counted from the end where it is negative. `op` is named in the error.
  int axis(int axis, const char* op) const {
    const int named = axis < 0 ? axis + rank_ : axis;
    check(named >= 0 && named < rank_, "{}: axis {} does not exist in a tensor of rank {}", op, axis, rank_);
    return named;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<Index, kMaxRank> sizes_{};
  int rank_ = 0;
};

// Axes by their numbers, negative ones counted from the end: {0, 2}, a span or vector of them, or a single one.
class AxisList {
 public:
  constexpr AxisList() = default;
  AxisList(int axis) : AxisList(std::span(&axis, 1)) {}                                                // NOLINT
  AxisList(std::initializer_list<int> axes) : AxisList(std::span(axes.begin(), axes.size())) {}        // NOLINT
  AxisList(std::span<const int> axes) : size_(axes.size()) {                                           // NOLINT
    check(axes.size() <= kMaxRank, "axes: {} are named, above the limit of {}", axes.size(), kMaxRank);
    std::copy(axes.begin(), axes.end(), axes_.begin());
  }
  template <class Range>
    requires std::is_convertible_v<const Range&, std::span<const int>>
  AxisList(const Range& axes) : AxisList(std::span<const int>(axes)) {}  // NOLINT: a vector or an array is one

  const int* begin() const { return axes_.data(); }
  const int* end() const { return axes_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](std::size_t place) const { return axes_[place]; }

 private:
  std::array<int, kMaxRank> axes_{};
  std::size_t size_ = 0;
};

// The common shape of two operands: sizes of 1, and missing leading axes, stretch. `op` is named in the error.
Shape broadcast(const Shape& a, const Shape& b, const char* op);

// Whether `small` stretches to exactly `large`.
bool broadcasts_to(const Shape& small, const Shape& large);

}  // namespace attune

template <>
struct fmt::formatter<attune::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const attune::Shape& shape, Context& context) const {
    auto out = fmt::format_to(context.out(), "[");
    for (int axis = 0; axis < shape.rank(); ++axis)
      out = fmt::format_to(out, "{}{}", axis ? ", " : "", shape[axis]);
    return fmt::format_to(out, "]");
  }
};
