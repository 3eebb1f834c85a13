// Tensor owns numbers: contiguous, row-major, 64-byte aligned. It moves, and is copied only by clone(). It computes
// nothing: kernels and ops do that, through views.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "attune/lib/memory.h"
#include "attune/lib/view.h"

namespace attune {

class Tensor {
 public:
  // No elements: shape [0].
  Tensor() { view_ = View(nullptr, Shape{0}, DType::f32); }
  // All zeros.
  explicit Tensor(const Shape& shape, DType dtype = f32);
  // A copy of what a view shows, made contiguous.
  static Tensor copy_of(const ConstView& view);

  Tensor(Tensor&& other) noexcept : Tensor() { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other));
    swap(taken);
    return *this;
  }
  Tensor clone() const { return copy_of(*this); }

  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }
  int rank() const { return view_.rank(); }
  Index size(int axis) const { return view_.size(axis); }
  Index count() const { return view_.count(); }

  // Every way to the numbers that may write raises the version, so that a tape which still needs the old ones can
  // say so. A View lives as long as its Tensor.
  View view() {
    touch();
    return view_;
  }
  ConstView view() const { return view_; }
  operator View() & { return view(); }
  operator Out() & { return view(); }
  operator ConstView() const& { return view_; }

  template <class T>
  std::span<T> data() {
    touch();
    return {view_.as<T>(), static_cast<std::size_t>(count())};
  }
  template <class T>
  std::span<const T> data() const {
    return {view_.as<T>(), static_cast<std::size_t>(count())};
  }

  // at and item read an element as a double, whatever the type; set writes one. See BasicView.
  double at(std::initializer_list<Index> index) const { return view_.at(index); }
  double item() const { return view_.item(); }
  void set(std::initializer_list<Index> index, double value);

  // The same numbers as another type. To f32 rounds; to dual has tangents 0; from dual drops them; to i32 throws on a
  // number that is not an integer of 32 bits.
  Tensor to(DType dtype) const;

  // For who must notice a change or keep the numbers alive: the tape and the optimizers.
  std::uint64_t version() const { return storage_ ? storage_->version.load(std::memory_order_relaxed) : 0; }
  const detail::StorageRef& storage() const { return storage_; }

 private:
  void touch() {
    if (storage_) storage_->version.fetch_add(1, std::memory_order_relaxed);
  }
  void swap(Tensor& other) noexcept {
    std::swap(storage_, other.storage_);
    std::swap(view_, other.view_);
  }

  detail::StorageRef storage_;
  View view_;
};

// Numbers written as nested braces: {{1, 2}, {3, 4}}.
class Nested {
 public:
  Nested(double number) : number_(number) {}  // NOLINT: braces should read as numbers
  Nested(std::initializer_list<Nested> items) : items_(items), is_list_(true) {}

  double number() const { return number_; }
  const std::vector<Nested>& items() const { return items_; }
  bool is_list() const { return is_list_; }

 private:
  double number_ = 0;
  std::vector<Nested> items_;
  bool is_list_ = false;
};

// tensor({{1, 2}, {3, 4}}) is [2, 2]; tensor(3) is a scalar. Rows of different lengths are an error.
Tensor tensor(const Nested& numbers, DType dtype = f32);

Tensor zeros(const Shape& shape, DType dtype = f32);
Tensor ones(const Shape& shape, DType dtype = f32);
Tensor full(const Shape& shape, double value, DType dtype = f32);
// 0, 1, ..., n - 1.
Tensor arange(Index n, DType dtype = f32);

}  // namespace attune
