#include "attune/lib/kernels/reduce.h"

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

constexpr std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

struct Axis {
  Index size, x_stride, y_stride;
  bool summed;

  // Whether this axis, which is further out, steps on where the inner one ends.
  bool continues(const Axis& inner) const {
    return x_stride == inner.x_stride * inner.size && y_stride == inner.y_stride * inner.size;
  }
};

// The axes of x, without those of size 1, in an order from the outermost: they decide what is summed and how.
// Where y has fewer, its missing leading axes are summed.
struct Axes {
  Axis list[kMaxRank];
  int count = 0;

  Axes(const View& y, const ConstView& x) {
    const int missing = x.rank() - y.rank();
    for (int axis = 0; axis < x.rank(); ++axis) {
      const Index size = x.shape()[axis];
      if (size == 1) continue;
      const int in_y = axis - missing;
      const bool summed = in_y < 0 || y.shape()[in_y] == 1;
      list[count++] = {size, x.strides()[at(axis)], summed ? 0 : y.strides()[at(in_y)], summed};
    }
  }
  bool last_is_kept() const { return count > 0 && !list[count - 1].summed; }
};

// The axes that are summed, or those that are not, among the first `count`: merged where memory goes on
// evenly.
Axes chosen(const Axes& axes, int count, bool summed) {
  Axes result = axes;
  result.count = 0;
  for (int axis = count - 1; axis >= 0; --axis) {  // innermost first
    const Axis& next = axes.list[axis];
    if (next.summed != summed) continue;
    if (result.count > 0 && next.continues(result.list[result.count - 1]))
      result.list[result.count - 1].size *= next.size;
    else
      result.list[result.count++] = next;
  }
  std::reverse(result.list, result.list + result.count);
  return result;
}

RowSpace space_of(const Axes& axes) {
  RowSpace space{};
  space.rank = axes.count;
  for (int axis = 0; axis < axes.count; ++axis) space.sizes[axis] = axes.list[axis].size;
  return space;
}

Index elements(const RowSpace& space) {
  Index product = 1;
  for (int axis = 0; axis < space.rank; ++axis) product *= space.sizes[axis];
  return product;
}

// What is summed, what is kept, and which kept axes are the inner ones.
SumArguments arguments_of(const Out& y, const ConstView& x) {
  const Axes axes(y.view, x);
  SumArguments arguments{};
  int outer = axes.count;
  arguments.inner = 1;
  if (axes.last_is_kept()) {
    Axis inner = axes.list[--outer];
    while (outer > 0 && !axes.list[outer - 1].summed && axes.list[outer - 1].continues(inner))
      inner.size *= axes.list[--outer].size;
    arguments.inner = inner.size;
    arguments.x_inner_stride = inner.x_stride;
    arguments.y_inner_stride = inner.y_stride;
  }
  const Axes kept = chosen(axes, outer, false), summed = chosen(axes, outer, true);
  arguments.kept = space_of(kept);
  arguments.summed = space_of(summed);
  arguments.summed_count = elements(arguments.summed);
  arguments.x.data = const_cast<void*>(x.data());
  arguments.y.data = y.view.data();
  for (int axis = 0; axis < kept.count; ++axis) {
    arguments.x.strides[axis] = kept.list[axis].x_stride;
    arguments.y.strides[axis] = kept.list[axis].y_stride;
  }
  for (int axis = 0; axis < summed.count; ++axis) arguments.x_strides[axis] = summed.list[axis].x_stride;
  arguments.accumulate = y.accumulate;
  return arguments;
}

// Few results of many chunks each: the chunks are shared out, and fold adds up what they leave.
void reduce_in_chunks(SumArguments& arguments, const Bodies& bodies, DType type, Index kept, Index blocks,
                      Index cost) {
  const Index chunks = arguments.chunks, inner = arguments.inner;
  char* partials = static_cast<char*>(scratch(0, kept * chunks * inner * size_of(type)));
  arguments.partials = partials;
  run(body_of(bodies, type), type, &arguments, kept * chunks * blocks, cost);
  FoldArguments fold{};
  fold.chunks = chunks;
  fold.stride = fold.width = inner;
  fold.y_stride = arguments.y_inner_stride;
  fold.accumulate = arguments.accumulate;
  fold.divisor = arguments.divisor;
  for (Index result = 0; result < kept; ++result) {
    Index offset = 0, rest = result;
    for (int axis = arguments.kept.rank - 1; axis >= 0; rest /= arguments.kept.sizes[axis--])
      offset += rest % arguments.kept.sizes[axis] * arguments.y.strides[axis];
    fold.partials = partials + result * chunks * inner * size_of(type);
    fold.y = static_cast<char*>(arguments.y.data) + offset * size_of(type);
    run(body_of(table().fold, type), type, &fold, (inner + kFoldBlock - 1) / kFoldBlock, kFoldBlock * chunks);
  }
}

void reduce(const char* op, const Out& y, const ConstView& x, bool divide) {
  if (!y) return;
  const DType type = y.view.dtype();
  check(is_float(type), "{}: {} has no arithmetic", op, type);
  check(x.dtype() == type, "{}: element types {} and {} differ", op, type, x.dtype());
  check(broadcasts_to(y.view.shape(), x.shape()), "{}: {} does not stretch to {}", op, y.view.shape(),
        x.shape());
  if (y.view.count() == 0) return;
  if (y.view.shape() == x.shape()) return copy(y, x);  // each result is one element

  SumArguments arguments = arguments_of(y, x);
  check(!divide || arguments.summed_count > 0, "{}: {} to {} is a mean of no elements", op, x.shape(),
        y.view.shape());
  arguments.divisor = divide ? static_cast<double>(arguments.summed_count) : 1;
  const bool rows = arguments.inner > 1;  // sizes of 1 are no axes
  const Index chunk = rows ? kRowChunk : kSumChunk, block = std::min(arguments.inner, kInnerBlock);
  const Index blocks = (arguments.inner + kInnerBlock - 1) / kInnerBlock, kept = elements(arguments.kept);
  arguments.chunks = (arguments.summed_count + chunk - 1) / chunk;
  const Bodies& bodies = rows ? table().sum_first : table().sum_last;
  constexpr Index few = 16;
  if (kept * blocks < few && arguments.chunks >= 2 * few)
    reduce_in_chunks(arguments, bodies, type, kept, blocks, chunk * block);
  else
    run(body_of(bodies, type), type, &arguments, kept * blocks, 16 + arguments.summed_count * block);
}

}  // namespace

void sum(const Out& y, const ConstView& x) { reduce("sum", y, x, false); }

void mean(const Out& y, const ConstView& x) { reduce("mean", y, x, true); }

double squared_norm(const ConstView& x) {
  const DType type = x.dtype();
  check(is_float(type), "squared_norm: {} has no arithmetic", type);
  ConstView flat = x;
  if (!x.is_contiguous()) {
    const View dense = scratch(1, x.shape(), type);
    copy(dense, x);
    flat = dense;
  }
  const Index chunks = (x.count() + kSquareChunk - 1) / kSquareChunk;
  const SquareArguments arguments{flat.data(), x.count(),
                                  static_cast<double*>(scratch(0, chunks * size_of(f64)))};
  run(body_of(table().squares, type), type, &arguments, chunks, kSquareChunk);
  const DenormalMode mode(type);
  double total = 0;
  for (Index chunk = 0; chunk < chunks; ++chunk) total += arguments.partials[chunk];
  return total;
}

}  // namespace attune::kernels
