#include "attune/lib/kernels/layer_norm.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

// What forward and backward have in common: the shapes of x, statistics and weight.
LayerNormArguments arguments_of(const char* op, const ConstView& x, const ConstView& weight) {
  check(is_float(x.dtype()), "{}: {} has no arithmetic", op, x.dtype());
  check(x.rank() >= 1 && x.shape().last() >= 1, "{}: {} has no elements along a last axis", op, x.shape());
  check(weight.rank() == 1 && weight.shape()[0] == x.shape().last(),
        "{}: a weight of {} does not fit rows of {}", op, weight.shape(), x.shape());
  LayerNormArguments arguments{};
  arguments.rows = row_space(x.shape());
  arguments.width = x.shape().last();
  arguments.count = x.count() / arguments.width;
  return arguments;
}

void check_statistics(const char* op, const ConstView& statistics, const ConstView& x) {
  Shape expected = without_last(x.shape());
  expected.append(3);
  check_type(op, x, statistics);
  check(statistics.shape() == expected, "{}: statistics of {} do not fit {}: {} would", op,
        statistics.shape(), x.shape(), expected);
}

void check_parameter(const char* name, const Out& gradient, const ConstView& x, const ConstView& weight) {
  if (!gradient) return;
  check_type("layer_norm_backward", x, gradient.view);
  check(gradient.view.shape() == weight.shape(), "layer_norm_backward: {} of {} for parameters of {}", name,
        gradient.view.shape(), weight.shape());
}

}  // namespace

void layer_norm(const Out& y, const Out& statistics, const ConstView& x, const ConstView& weight,
                const ConstView& bias, double epsilon) {
  if (!y) return;
  LayerNormArguments arguments = arguments_of("layer_norm", x, weight);
  check(y.view.shape() == x.shape(), "layer_norm: shapes {} and {} differ", y.view.shape(), x.shape());
  check(bias.shape() == weight.shape(), "layer_norm: a weight of {} and a bias of {} differ", weight.shape(),
        bias.shape());
  check(epsilon >= 0, "layer_norm: an epsilon of {} is negative", epsilon);
  for (const ConstView& other : {ConstView(y.view), weight, bias}) check_type("layer_norm", x, other);
  if (statistics) {
    check(!statistics.accumulate, "layer_norm: statistics cannot accumulate");
    check_statistics("layer_norm", statistics.view, x);
  }
  const DenseOut out(y, false, 0), saved(statistics, false, 1);
  arguments.y = out.operand(arguments.rows.rank);
  arguments.statistics = saved.operand(arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 2), arguments.rows.rank);
  arguments.weight = dense_rows(weight, 3).data();
  arguments.bias = dense_rows(bias, 4).data();
  arguments.epsilon = epsilon;
  run(body_of(table().layer_norm, x.dtype()), x.dtype(), &arguments, arguments.count,
      32 + 2 * arguments.width);
  out.finish();
  saved.finish();
}

void layer_norm_backward(const Out& dx, const Out& dweight, const Out& dbias, const ConstView& dy,
                         const ConstView& x, const ConstView& weight, const ConstView& statistics) {
  constexpr const char* op = "layer_norm_backward";
  LayerNormArguments arguments = arguments_of(op, x, weight);
  check_type(op, x, dy);
  check_type(op, x, weight);
  check(dy.shape() == x.shape(), "{}: shapes {} and {} differ", op, dy.shape(), x.shape());
  check_statistics(op, statistics, x);
  if (dx) {
    check_type(op, x, dx.view);
    check(dx.view.shape() == x.shape(), "{}: shapes {} and {} differ", op, dx.view.shape(), x.shape());
  }
  check_parameter("a dweight", dweight, x, weight);
  check_parameter("a dbias", dbias, x, weight);

  const DType type = x.dtype();
  const Index chunks = (arguments.count + kNormChunk - 1) / kNormChunk, width = arguments.width;
  const DenseOut out(dx, true, 0);
  arguments.dx = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.dy = row_operand(dense_rows(dy, 1), arguments.rows.rank);
  arguments.x = row_operand(dense_rows(x, 2), arguments.rows.rank);
  arguments.weight = dense_rows(weight, 3).data();
  arguments.statistics = row_operand(dense_rows(statistics, 4), arguments.rows.rank);
  char* partials = nullptr;
  if (dweight || dbias) partials = static_cast<char*>(scratch(5, chunks * 2 * width * size_of(type)));
  arguments.partials = partials;
  run(body_of(table().layer_norm_backward, type), type, &arguments, chunks, kNormChunk * (32 + 3 * width));
  out.finish();
  fold_chunks(dweight, partials, chunks, 2 * width);
  fold_chunks(dbias, partials ? partials + width * size_of(type) : nullptr, chunks, 2 * width);
}

}  // namespace attune::kernels
