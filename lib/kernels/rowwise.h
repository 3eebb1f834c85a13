// For the public side of kernels that go row by row: how views become the operands of their bodies, and
// memory for what such a kernel needs on the way.
#pragma once

#include "attune/lib/kernels/table.h"
#include "attune/lib/view.h"

namespace attune::kernels {

// Memory of this thread that grows and is kept, so that a kernel called again asks the system for nothing.
// What a slot held is lost with the next call for that slot; kernels that call each other use different ones.
inline constexpr int kScratchSlots = 12;
void* scratch(int slot, Index bytes);
View scratch(int slot, const Shape& shape, DType dtype);

// The axes before the last, which count the rows, and how many rows there are.
RowSpace row_space(const Shape& shape);
Shape without_last(const Shape& shape);

// The strides of the first `rank` axes.
RowOperand row_operand(const ConstView& view, int rank);

// `x`, or a copy of it in a scratch slot where the elements of its rows do not stand side by side.
ConstView dense_rows(const ConstView& x, int slot);

// The same for an output: finish() brings the result to where it belongs, if it went elsewhere.
class DenseOut {
 public:
  // `adds`: whether the body itself can add to what stands there.
  DenseOut(const Out& out, bool adds, int slot);
  const View& view() const { return view_; }
  bool accumulate() const { return accumulate_; }
  bool wanted() const { return wanted_; }
  RowOperand operand(int rank) const { return wanted_ ? row_operand(view_, rank) : RowOperand{}; }
  void finish() const;

 private:
  Out out_;
  View view_;
  bool wanted_, accumulate_ = false, elsewhere_ = false;
};

// Calls fail(id, position), which throws, for the first number of `ids` (i32) that is neither `ignored` nor
// one of 0 ... size - 1. Returns how many are not ignored.
inline constexpr Index kNothingIgnored = Index{1} << 40;
template <class Fail>
Index check_ids(const ConstView& ids, Index size, Index ignored, Fail&& fail) {
  Index counted = 0;
  const std::int32_t* data = ids.as<std::int32_t>();
  const Index count = ids.count();
  Shape position = ids.shape();
  for (int axis = 0; axis < position.rank(); ++axis) position[axis] = 0;
  Index offset = 0;
  for (Index i = 0; i < count; ++i) {
    const Index id = data[offset];
    if (id != ignored) {
      if (id < 0 || id >= size) [[unlikely]]
        fail(id, position);
      ++counted;
    }
    for (int axis = position.rank() - 1; axis >= 0; --axis) {
      const Index stride = ids.strides()[static_cast<std::size_t>(axis)];
      offset += stride;
      if (++position[axis] < ids.shape()[axis]) break;
      offset -= stride * ids.shape()[axis];
      position[axis] = 0;
    }
  }
  return counted;
}

}  // namespace attune::kernels
