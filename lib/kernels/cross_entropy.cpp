#include "attune/lib/kernels/cross_entropy.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

void check_type(const char* op, const ConstView& logits, const ConstView& other) {
  check(logits.dtype() == other.dtype(), "{}: element types {} and {} differ", op, logits.dtype(),
        other.dtype());
}

// Checks what forward and backward have in common, every target included.
CrossEntropyArguments arguments_of(const char* op, const ConstView& logits, const ConstView& targets,
                                   const ConstView& lse, const ConstView& scalar, Index ignored) {
  check(is_float(logits.dtype()), "{}: logits of {} have no arithmetic", op, logits.dtype());
  check(logits.rank() >= 1 && logits.shape().last() >= 1, "{}: logits of {} have no classes", op,
        logits.shape());
  check(targets.dtype() == i32, "{}: targets are of {}, not i32", op, targets.dtype());
  const Index classes = logits.shape().last();
  const Shape rows = without_last(logits.shape());
  check(targets.shape() == rows, "{}: targets of {} do not fit logits of {}", op, targets.shape(),
        logits.shape());
  check(lse.shape() == rows, "{}: a log-sum-exp of {} does not fit logits of {}", op, lse.shape(),
        logits.shape());
  check(scalar.rank() == 0, "{}: a loss of {} is not a scalar", op, scalar.shape());
  check_type(op, logits, lse);
  check_type(op, logits, scalar);

  CrossEntropyArguments arguments{};
  arguments.counted =
      static_cast<double>(check_ids(targets, classes, ignored, [&](Index target, const Shape& position) {
        check(false, "{}: target {} at {} is outside of 0 to {} ({} classes)", op, target, position,
              classes - 1, classes);
      }));
  arguments.rows = row_space(logits.shape());
  arguments.count = rows.count();
  arguments.width = classes;
  arguments.targets = row_operand(targets, rows.rank());
  arguments.lse = row_operand(lse, rows.rank());
  arguments.ignored = ignored;
  return arguments;
}

// The mean of the counted rows' losses: chunks in order.
template <class T>
T mean_loss(const void* partials, Index chunks, double counted) {
  if constexpr (std::is_same_v<T, dual>) {
    dual total;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      total.value += static_cast<const dual*>(partials)[chunk].value;
      total.tangent += static_cast<const dual*>(partials)[chunk].tangent;
    }
    return counted > 0 ? dual{total.value / counted, total.tangent / counted} : dual{};
  } else {
    double total = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) total += static_cast<const double*>(partials)[chunk];
    return counted > 0 ? static_cast<T>(total / counted) : T{};
  }
}

}  // namespace

void cross_entropy(const Out& loss, const Out& lse, const ConstView& logits, const ConstView& targets,
                   Index ignored) {
  CrossEntropyArguments arguments =
      arguments_of("cross_entropy", logits, targets, lse.view, loss.view, ignored);
  check(!loss.accumulate && !lse.accumulate, "cross_entropy: the loss and the log-sum-exp cannot accumulate");
  const DType type = logits.dtype();
  const Index chunks = (arguments.count + kLossChunk - 1) / kLossChunk;
  arguments.logits = row_operand(dense_rows(logits, 0), arguments.rows.rank);
  arguments.partials = scratch(1, chunks * (type == DType::dual ? size_of(DType::dual) : size_of(f64)));
  run(body_of(table().cross_entropy, type), type, &arguments, chunks,
      kLossChunk * (64 + 4 * arguments.width));
  const DenormalMode mode(type);
  visit(type, [&]<class T>() {
    if constexpr (dtype_of<T> != i32)
      *loss.view.as<T>() = mean_loss<T>(arguments.partials, chunks, arguments.counted);
  });
}

void cross_entropy_backward(const Out& dlogits, const ConstView& dloss, const ConstView& lse,
                            const ConstView& logits, const ConstView& targets, Index ignored) {
  if (!dlogits) return;
  constexpr const char* op = "cross_entropy_backward";
  CrossEntropyArguments arguments = arguments_of(op, logits, targets, lse, dloss, ignored);
  check_type(op, logits, dlogits.view);
  check(dlogits.view.shape() == logits.shape(), "{}: shapes {} and {} differ", op, dlogits.view.shape(),
        logits.shape());
  const DType type = logits.dtype();
  const DenseOut out(dlogits, true, 0);
  arguments.dlogits = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.logits = row_operand(dense_rows(logits, 1), arguments.rows.rank);
  arguments.dloss = dloss.data();
  run(body_of(table().cross_entropy_backward, type), type, &arguments, arguments.count,
      32 + 4 * arguments.width);
  out.finish();
}

}  // namespace attune::kernels
