#include "attune/lib/kernels/softmax.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

SoftmaxArguments arguments_of(const char* op, const View& out, const Visible& visible) {
  const int rank = out.rank(), least = visible.all ? 1 : 2;
  check(is_float(out.dtype()), "{}: {} has no arithmetic", op, out.dtype());
  check(rank >= least, "{}: {} has no {}", op, out.shape(),
        visible.all ? "row" : "rows and columns to be causal over");
  SoftmaxArguments arguments{};
  arguments.rows = row_space(out.shape());
  arguments.width = out.shape().last();
  arguments.all = visible.all;
  arguments.shift = visible.shift;
  return arguments;
}

void run_rows(const Bodies& bodies, const View& out, const SoftmaxArguments& arguments, Index cost) {
  const Index width = arguments.width;
  if (out.count() > 0)
    run(body_of(bodies, out.dtype()), out.dtype(), &arguments, out.count() / width, 32 + width * cost);
}

}  // namespace

void softmax(const Out& y, const ConstView& x, const Visible& visible) {
  if (!y) return;
  SoftmaxArguments arguments = arguments_of("softmax", y.view, visible);
  check_same("softmax", y.view, x);
  const DenseOut out(y, false, 0);
  arguments.y = out.operand(arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 1), arguments.rows.rank);
  run_rows(table().softmax, out.view(), arguments, 4);
  out.finish();
}

void softmax_backward(const Out& dx, const ConstView& dy, const ConstView& y, const Visible& visible) {
  if (!dx) return;
  SoftmaxArguments arguments = arguments_of("softmax_backward", dx.view, visible);
  check_same("softmax_backward", dx.view, dy);
  check_same("softmax_backward", dx.view, y);
  const DenseOut out(dx, true, 0);
  arguments.dx = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dense_rows(dy, 1), arguments.rows.rank);
  arguments.y = row_operand(dense_rows(y, 2), arguments.rows.rank);
  run_rows(table().softmax_backward, out.view(), arguments, 2);
  out.finish();
}

}  // namespace attune::kernels
