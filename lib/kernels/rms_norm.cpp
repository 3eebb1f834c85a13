#include "attune/lib/kernels/rms_norm.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

LayerNormArguments arguments_of(const char* op, const ConstView& x, const ConstView& weight,
                                const ConstView& statistics) {
  check(is_float(x.dtype()), "{}: {} has no arithmetic", op, x.dtype());
  check(x.rank() >= 1 && x.shape().last() >= 1, "{}: {} has no elements along a last axis", op, x.shape());
  check_type(op, x, weight);
  check(weight.rank() == 1 && weight.shape()[0] == x.shape().last(),
        "{}: a weight of {} does not fit rows of {}", op, weight.shape(), x.shape());
  Shape expected = without_last(x.shape());
  expected.append(1);
  check_type(op, x, statistics);
  check(statistics.shape() == expected, "{}: statistics of {} do not fit {}: {} would", op,
        statistics.shape(), x.shape(), expected);
  LayerNormArguments arguments{};
  arguments.rows = row_space(x.shape());
  arguments.width = x.shape().last();
  arguments.count = x.count() / arguments.width;
  arguments.weight = dense_rows(weight, 3).data();
  arguments.statistics = row_operand(statistics, arguments.rows.rank);
  return arguments;
}

}  // namespace

void rms_norm(const Out& y, const Out& statistics, const ConstView& x, const ConstView& weight,
              double epsilon) {
  if (!y) return;
  Shape one_each = x.shape();
  if (x.rank() >= 1) one_each[x.rank() - 1] = 1;
  const View none(nullptr, one_each, x.dtype());
  LayerNormArguments arguments = arguments_of("rms_norm", x, weight, statistics ? statistics.view : none);
  check_same("rms_norm", y.view, x);
  check(epsilon >= 0, "rms_norm: an epsilon of {} is negative", epsilon);
  check(!statistics.accumulate, "rms_norm: statistics cannot accumulate");
  const DenseOut out(y, false, 0);
  arguments.y = out.operand(arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 2), arguments.rows.rank);
  arguments.epsilon = epsilon;
  run(body_of(table().rms_norm, x.dtype()), x.dtype(), &arguments, arguments.count, 32 + 2 * arguments.width);
  out.finish();
}

void rms_norm_backward(const Out& dx, const Out& dweight, const ConstView& dy, const ConstView& x,
                       const ConstView& weight, const ConstView& statistics) {
  constexpr const char* op = "rms_norm_backward";
  LayerNormArguments arguments = arguments_of(op, x, weight, statistics);
  check_same(op, dy, x);
  if (dx) check_same(op, dx.view, x);
  if (dweight) check_same(op, dweight.view, weight);

  const DType type = x.dtype();
  const Index chunks = (arguments.count + kNormChunk - 1) / kNormChunk, width = arguments.width;
  const DenseOut out(dx, true, 0);
  arguments.dx = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dense_rows(dy, 1), arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 2), arguments.rows.rank);
  if (dweight) arguments.partials = scratch(5, chunks * width * size_of(type));
  run(body_of(table().rms_norm_backward, type), type, &arguments, chunks, kNormChunk * (32 + 3 * width));
  out.finish();
  fold_chunks(dweight, arguments.partials, chunks, width);
}

}  // namespace attune::kernels
