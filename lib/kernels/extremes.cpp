#include "attune/lib/kernels/extremes.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

constexpr Index kMostElements = std::numeric_limits<std::int32_t>::max();

// One number for each row of x, of the given type.
void reduce(const char* op, const Bodies& bodies, const Out& y, const ConstView& x, DType result) {
  if (!y) return;
  RowArguments arguments = row_arguments(op, x);
  check_row_results(op, y.view, x, result);
  check(!y.accumulate, "{}: the result cannot accumulate", op);
  check(arguments.width > 0, "{}: {} has rows without an element", op, x.shape());
  check(arguments.width <= kMostElements, "{}: rows of {} have more elements than an i32 can count", op,
        x.shape());
  arguments.y = row_operand(y.view, arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 0), arguments.rows.rank);
  run(body_of(bodies, x.dtype()), x.dtype(), &arguments, y.view.count(), 32 + arguments.width);
}

}  // namespace

void max(const Out& y, const ConstView& x) { reduce("max", table().max, y, x, x.dtype()); }
void min(const Out& y, const ConstView& x) { reduce("min", table().min, y, x, x.dtype()); }
void argmax(const Out& y, const ConstView& x) { reduce("argmax", table().argmax, y, x, i32); }
void argmin(const Out& y, const ConstView& x) { reduce("argmin", table().argmin, y, x, i32); }

void extreme_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& y) {
  if (!dx) return;
  constexpr const char* op = "extreme_backward";
  RowArguments arguments = row_arguments(op, x);
  check_same(op, dx.view, x);
  check_row_results(op, dy, x, x.dtype());
  check_row_results(op, y, x, x.dtype());
  const DenseOut out(dx, true, 0);
  const int rank = arguments.rows.rank;
  arguments.dx = out.operand(rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dy, rank);
  arguments.x = row_operand(dense_rows(x, 1), rank);
  arguments.y = row_operand(y, rank);
  run(body_of(table().extreme_backward, x.dtype()), x.dtype(), &arguments, dy.count(),
      32 + 2 * arguments.width);
  out.finish();
}

}  // namespace attune::kernels
