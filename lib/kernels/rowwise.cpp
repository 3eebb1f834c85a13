#include "attune/lib/kernels/rowwise.h"

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/run.h"
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

void check_type(const char* op, const ConstView& a, const ConstView& b) {
  check(a.dtype() == b.dtype(), "{}: element types {} and {} differ", op, a.dtype(), b.dtype());
}

void check_same(const char* op, const ConstView& a, const ConstView& b) {
  check_type(op, a, b);
  check(a.shape() == b.shape(), "{}: shapes {} and {} differ", op, a.shape(), b.shape());
}

void check_row_results(const char* op, const ConstView& results, const ConstView& x, DType type) {
  check(results.dtype() == type, "{}: element types {} and {} differ", op, type, results.dtype());
  check(results.shape() == without_last(x.shape()), "{}: {} are not the rows of {}", op, results.shape(), x.shape());
}

RowArguments row_arguments(const char* op, const ConstView& x) {
  check(is_float(x.dtype()), "{}: {} has no arithmetic", op, x.dtype());
  check(x.rank() >= 1, "{}: {} has no row", op, x.shape());
  RowArguments arguments{};
  arguments.rows = row_space(x.shape());
  arguments.width = x.shape().last();
  return arguments;
}

void fold_chunks(const Out& gradient, const void* partials, Index chunks, Index stride) {
  if (!gradient) return;
  const DType type = gradient.view.dtype();
  FoldArguments fold{};
  fold.partials = partials;
  fold.chunks = chunks;
  fold.stride = stride;
  fold.width = gradient.view.count();
  fold.y = gradient.view.data();
  fold.y_stride = gradient.view.stride(0);
  fold.accumulate = gradient.accumulate;
  fold.divisor = 1;
  const Index items = (fold.width + kFoldBlock - 1) / kFoldBlock;
  run(body_of(table().fold, type), type, &fold, items, kFoldBlock * chunks);
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
