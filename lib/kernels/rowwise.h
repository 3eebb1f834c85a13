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

// Throws where the element types, or those and the shapes, of two operands differ.
void check_type(const char* op, const ConstView& a, const ConstView& b);
void check_same(const char* op, const ConstView& a, const ConstView& b);
// Throws unless `results` has a number of that type for each row of x.
void check_row_results(const char* op, const ConstView& results, const ConstView& x, DType type);

// The rows of x, of an element type with arithmetic; throws where it has none.
RowArguments row_arguments(const char* op, const ConstView& x);

// Adds up what chunks of rows left for a parameter's gradient of `width` numbers, chunk after chunk: `partials` is the
// first of the first chunk, and the next chunk's are `stride` numbers further.
void fold_chunks(const Out& gradient, const void* partials, Index chunks, Index stride);

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
