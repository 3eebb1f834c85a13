#include "attune/lib/kernels/log_softmax.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

void check_statistics(const char* op, const ConstView& statistics, const ConstView& x) {
  Shape expected = without_last(x.shape());
  expected.append(2);
  check(statistics.dtype() == x.dtype() && statistics.shape() == expected,
        "{}: statistics of {} in {} do not fit {} in {}", op, statistics.shape(), statistics.dtype(),
        x.shape(), x.dtype());
}

void run_rows(const Bodies& bodies, DType type, const RowArguments& arguments, Index rows, Index cost) {
  run(body_of(bodies, type), type, &arguments, rows, 64 + arguments.width * cost);
}

}  // namespace

void logsumexp(const Out& y, const Out& statistics, const ConstView& x) {
  if (!y) return;
  constexpr const char* op = "logsumexp";
  RowArguments arguments = row_arguments(op, x);
  check_row_results(op, y.view, x, x.dtype());
  if (statistics) check_statistics(op, statistics.view, x);
  check(!y.accumulate && !statistics.accumulate, "{}: the result cannot accumulate", op);
  const DenseOut kept(statistics, false, 0);
  arguments.y = row_operand(y.view, arguments.rows.rank);
  arguments.statistics = kept.operand(arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 1), arguments.rows.rank);
  run_rows(table().logsumexp, x.dtype(), arguments, y.view.count(), 4);
  kept.finish();
}

void logsumexp_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& statistics) {
  if (!dx) return;
  constexpr const char* op = "logsumexp_backward";
  RowArguments arguments = row_arguments(op, x);
  check_same(op, dx.view, x);
  check_row_results(op, dy, x, x.dtype());
  check_statistics(op, statistics, x);
  const DenseOut out(dx, true, 0);
  arguments.dx = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dy, arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 1), arguments.rows.rank);
  arguments.statistics = row_operand(dense_rows(statistics, 2), arguments.rows.rank);
  run_rows(table().logsumexp_backward, x.dtype(), arguments, dy.count(), 4);
  out.finish();
}

void log_softmax(const Out& y, const ConstView& x) {
  if (!y) return;
  RowArguments arguments = row_arguments("log_softmax", x);
  check_same("log_softmax", y.view, x);
  if (x.count() == 0) return;
  const DenseOut out(y, false, 0);
  arguments.y = out.operand(arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 1), arguments.rows.rank);
  run_rows(table().log_softmax, x.dtype(), arguments, x.count() / arguments.width, 4);
  out.finish();
}

void log_softmax_backward(const Out& dx, const ConstView& dy, const ConstView& y) {
  if (!dx) return;
  RowArguments arguments = row_arguments("log_softmax_backward", y);
  check_same("log_softmax_backward", dx.view, y);
  check_same("log_softmax_backward", dy, y);
  if (y.count() == 0) return;
  const DenseOut out(dx, true, 0);
  arguments.dx = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dense_rows(dy, 1), arguments.rows.rank);
  arguments.y = row_operand(dense_rows(y, 2), arguments.rows.rank);
  run_rows(table().log_softmax_backward, y.dtype(), arguments, y.count() / arguments.width, 4);
  out.finish();
}

}  // namespace attune::kernels
