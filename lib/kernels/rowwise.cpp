#include "attune/lib/kernels/rowwise.h"

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/memory.h"

namespace attune::kernels {
namespace {

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { clear(); }
  void clear() {
    if (data) detail::free_block(data, bytes);
    data = nullptr;
    bytes = 0;
  }
};

bool has_dense_rows(const ConstView& view) {
  return view.rank() == 0 || view.shape().last() <= 1 || view.stride(-1) == 1;
}

}  // namespace

void* scratch(int slot, Index bytes) {
  thread_local Block blocks[kScratchSlots];
  Block& block = blocks[slot];
  const auto wanted = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  if (block.bytes < wanted) {
    block.clear();
    block.data = detail::allocate_block(wanted);
    block.bytes = wanted;
  }
  return block.data;
}

View scratch(int slot, const Shape& shape, DType dtype) {
  return View(scratch(slot, shape.count() * size_of(dtype)), shape, dtype);
}

RowSpace row_space(const Shape& shape) {
  RowSpace space{};
  space.rank = shape.rank() - 1;
  std::copy_n(shape.begin(), space.rank, space.sizes);
  return space;
}

Shape without_last(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 1)); }

RowOperand row_operand(const ConstView& view, int rank) {
  RowOperand operand{};
  operand.data = const_cast<void*>(view.data());
  std::copy_n(view.strides().begin(), rank, operand.strides);
  return operand;
}

ConstView dense_rows(const ConstView& x, int slot) {
  if (has_dense_rows(x)) return x;
  const View dense = scratch(slot, x.shape(), x.dtype());
  copy(dense, x);
  return dense;
}

DenseOut::DenseOut(const Out& out, bool adds, int slot) : out_(out), view_(out.view), wanted_(out.wanted) {
  if (!wanted_) return;
  elsewhere_ = !has_dense_rows(out.view) || (out.accumulate && !adds);
  accumulate_ = out.accumulate && !elsewhere_;
  if (elsewhere_) view_ = scratch(slot, out.view.shape(), out.view.dtype());
}

void DenseOut::finish() const {
  if (elsewhere_) copy(out_, view_);  // or adds it
}

}  // namespace attune::kernels
