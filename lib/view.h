// A strided window onto memory that somebody else owns: View may write, ConstView may not.
// Both are trivially copyable; every method below costs a few integers and copies no element.
#pragma once

#include <type_traits>

#include "attune/lib/dtype.h"
#include "attune/lib/shape.h"

namespace attune {

using Strides = std::array<Index, kMaxRank>;  // in elements

Strides contiguous_strides(const Shape& shape);

namespace detail {
// What a view is besides its pointer. The functions return the offset (in elements) of the new first element.
struct Layout {
  Shape shape;
  Strides strides{};
  DType dtype = DType::f32;

  bool is_contiguous() const {
    Index step = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (shape[axis] != 1 && strides[static_cast<std::size_t>(axis)] != step) return shape.count() == 0;
      step *= shape[axis];
    }
    return true;
  }
  Index slice(int axis, Index begin, Index end, Index step);
  Index select(int axis, Index index);
  void transpose();
  void permute(const AxisList& order);
  void reshape(std::span<const Index> target);
  void expand(const Shape& target);
};

double read(const void* data, const Layout& layout, std::initializer_list<Index> index);
double read_only(const void* data, const Layout& layout);
}  // namespace detail

template <class Pointer>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Pointer data, const Shape& shape, DType dtype)
      : data_(data), layout_{shape, contiguous_strides(shape), dtype} {}
  BasicView(Pointer data, const detail::Layout& layout) : data_(data), layout_(layout) {}
  // A View is also a ConstView; never the other way.
  template <class Other>
    requires(std::is_same_v<Other, void*> && std::is_same_v<Pointer, const void*>)
  BasicView(const BasicView<Other>& other) : data_(other.data()), layout_(other.layout()) {}

  Pointer data() const { return data_; }
  const detail::Layout& layout() const { return layout_; }
  const Shape& shape() const { return layout_.shape; }
  const Strides& strides() const { return layout_.strides; }
  DType dtype() const { return layout_.dtype; }
  int rank() const { return layout_.shape.rank(); }
  Index size(int axis) const { return layout_.shape[layout_.shape.axis(axis, "size")]; }
  Index stride(int axis) const {
    return layout_.strides[static_cast<std::size_t>(layout_.shape.axis(axis, "stride"))];
  }
  Index count() const { return layout_.shape.count(); }
  // Row-major without gaps. Empty views and single elements are.
  bool is_contiguous() const { return layout_.is_contiguous(); }

  // The elements as T; throws where T is not the element type.
  template <class T>
  auto* as() const {
    check(dtype_of<T> == dtype(), "view: an element of {} was read as {}", dtype(), dtype_of<T>);
    return static_cast<std::conditional_t<std::is_same_v<Pointer, void*>, T, const T>*>(data_);
  }

  // One element as a double: the value of a dual. at({i, j}) takes an index per axis, negative from the end.
  double at(std::initializer_list<Index> index) const { return detail::read(data_, layout_, index); }
  // The only element; throws where there are more, or none.
  double item() const { return detail::read_only(data_, layout_); }

  // Elements begin, begin + step, ... below end, along an axis. Negative axes count from the end; a negative
  // begin or end counts from the end of the axis. The step is at least 1.
  BasicView slice(int axis, Index begin, Index end, Index step = 1) const {
    return moved([&](auto& layout) { return layout.slice(axis, begin, end, step); });
  }
  // One element along an axis, which disappears: select(0, i) is row i.
  BasicView select(int axis, Index index) const {
    return moved([&](auto& layout) { return layout.select(axis, index); });
  }
  // The last two axes swapped.
  BasicView t() const { return with([](auto& layout) { layout.transpose(); }); }
  BasicView permute(const AxisList& order) const {
    return with([&](auto& layout) { layout.permute(order); });
  }
  // The same elements in another shape; one size may be -1. Throws where only a copy could do it.
  BasicView reshape(std::initializer_list<Index> sizes) const {
    return with([&](auto& layout) { layout.reshape(std::span(sizes.begin(), sizes.size())); });
  }
  BasicView reshape(const Shape& shape) const {
    return with([&](auto& layout) { layout.reshape(std::span(shape.begin(), shape.end())); });
  }
  // Sizes of 1 and missing leading axes repeated, by strides of 0.
  BasicView expand(const Shape& shape) const {
    return with([&](auto& layout) { layout.expand(shape); });
  }

 private:
  template <class F>
  BasicView with(F&& change) const {
    BasicView result = *this;
    change(result.layout_);
    return result;
  }
  template <class F>
  BasicView moved(F&& change) const {
    BasicView result = *this;
    result.advance(change(result.layout_));
    return result;
  }
  void advance(Index elements) {
    using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, char, const char>;
    if (elements != 0) data_ = static_cast<Byte*>(data_) + elements * size_of(dtype());
  }

  Pointer data_ = nullptr;
  detail::Layout layout_;
};

using View = BasicView<void*>;
using ConstView = BasicView<const void*>;

static_assert(std::is_trivially_copyable_v<View> && std::is_trivially_copyable_v<ConstView>);

// Whether two views may have an element in common. False only where they certainly have none, as the query and key parts
// of one projection.
bool overlap(const ConstView& a, const ConstView& b);

// Where a kernel writes, and whether it adds to what stands there (a gradient) or overwrites it. An Out without
// memory is a gradient that nobody wants: it is false, and a kernel that has several outputs skips it.
struct Out {
  Out() = default;
  Out(const View& place, bool adds = false) : view(place), accumulate(adds), wanted(true) {}
  Out(void* data, const detail::Layout& layout, bool adds) : view(data, layout), accumulate(adds), wanted(true) {}
  explicit operator bool() const { return wanted; }

  View view;
  bool accumulate = false;
  bool wanted = false;
};

}  // namespace attune
