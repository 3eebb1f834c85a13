#include "attune/lib/kernels/cross_entropy.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

// What messages call the operation and its rows.
struct Names {
  const char *op, *rows;
};

void check_operands(const Names& names, const ConstView& x, const ConstView& targets, const ConstView& loss,
                    const ClassLossOptions& options) {
  const char* op = names.op;
  check(is_float(x.dtype()), "{}: {} of {} have no arithmetic", op, names.rows, x.dtype());
  check(x.rank() >= 1 && x.shape().last() >= 1, "{}: {} of {} have no classes", op, names.rows, x.shape());
  check(targets.dtype() == i32, "{}: targets are of {}, not i32", op, targets.dtype());
  const Shape rows = without_last(x.shape());
  check(targets.shape() == rows, "{}: targets of {} do not fit {} of {}", op, targets.shape(), names.rows,
        x.shape());
  check(options.smoothing >= 0 && options.smoothing <= 1, "{}: a smoothing of {} is outside of 0 to 1", op,
        options.smoothing);
  if (options.reduction == Reduction::none)
    check(loss.shape() == rows, "{}: a loss of {} is not one for each row of {}", op, loss.shape(),
          x.shape());
  else
    check(loss.rank() == 0, "{}: a loss of {} is not a scalar", op, loss.shape());
  check_type(op, x, loss);
}

// Checks what forward and backward have in common, every target included.
CrossEntropyArguments arguments_of(const Names& names, const ConstView& x, const ConstView& targets,
                                   const ConstView& loss, const ClassLossOptions& options) {
  check_operands(names, x, targets, loss, options);
  const Index classes = x.shape().last();
  CrossEntropyArguments arguments{};
  const Index counted =
      check_ids(targets, classes, options.ignored, [&](Index target, const Shape& position) {
        check(false, "{}: target {} at {} is outside of 0 to {} ({} classes)", names.op, target, position,
              classes - 1, classes);
      });
  arguments.rows = row_space(x.shape());
  arguments.count = targets.count();
  arguments.width = classes;
  arguments.targets = row_operand(targets, targets.rank());
  arguments.ignored = options.ignored;
  arguments.smoothing = options.smoothing;
  arguments.divisor = options.reduction == Reduction::mean ? static_cast<double>(counted) : 1;
  return arguments;
}

void check_statistics(const Names& names, const ConstView& statistics, const ConstView& x) {
  Shape expected = without_last(x.shape());
  expected.append(2);
  check(statistics.shape() == expected, "{}: statistics of {} do not fit {} of {}", names.op,
        statistics.shape(), names.rows, x.shape());
  check_type(names.op, x, statistics);
}

// The sum of the counted rows' losses, chunks in order, over the divisor; 0 where that is 0.
template <class T>
T total_loss(const void* partials, Index chunks, double divisor) {
  if (divisor == 0) return T{};
  if constexpr (std::is_same_v<T, dual>) {
    dual total;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      total.value += static_cast<const dual*>(partials)[chunk].value;
      total.tangent += static_cast<const dual*>(partials)[chunk].tangent;
    }
    return {total.value / divisor, total.tangent / divisor};
  } else {
    double total = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) total += static_cast<const double*>(partials)[chunk];
    return static_cast<T>(total / divisor);
  }
}

void forward(const Bodies& bodies, CrossEntropyArguments& arguments, const View& loss, const ConstView& x) {
  const DType type = x.dtype();
  const Index chunks = (arguments.count + kLossChunk - 1) / kLossChunk;
  const bool reduces = loss.rank() == 0 && arguments.rows.rank > 0;
  arguments.logits = row_operand(dense_rows(x, 0), arguments.rows.rank);
  arguments.partials = scratch(1, chunks * (type == DType::dual ? size_of(DType::dual) : size_of(f64)));
  if (!reduces) arguments.loss = row_operand(loss, arguments.rows.rank);
  run(body_of(bodies, type), type, &arguments, chunks, kLossChunk * (64 + 4 * arguments.width));
  if (!reduces) return;
  const DenormalMode mode(type);
  visit(type, [&]<class T>() {
    if constexpr (dtype_of<T> != i32)
      *loss.as<T>() = total_loss<T>(arguments.partials, chunks, arguments.divisor);
  });
}

void backward(const Bodies& bodies, CrossEntropyArguments& arguments, const Names& names, const Out& dx,
              const ConstView& dloss, const ConstView& x) {
  check_type(names.op, x, dx.view);
  check(dx.view.shape() == x.shape(), "{}: shapes {} and {} differ", names.op, dx.view.shape(), x.shape());
  const DenseOut out(dx, true, 0);
  arguments.dlogits = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.logits = row_operand(dense_rows(x, 1), arguments.rows.rank);
  arguments.dloss = row_operand(dloss, dloss.rank());  // strides of 0, where it is a scalar
  run(body_of(bodies, x.dtype()), x.dtype(), &arguments, arguments.count, 32 + 4 * arguments.width);
  out.finish();
}

constexpr Names kCrossEntropy{"cross_entropy", "logits"}, kNll{"nll", "log-probabilities"};
constexpr Names kCrossEntropyBackward{"cross_entropy_backward", "logits"},
    kNllBackward{"nll_backward", "log-probabilities"};

}  // namespace

void cross_entropy(const Out& loss, const Out& statistics, const ConstView& logits, const ConstView& targets,
                   const ClassLossOptions& options) {
  CrossEntropyArguments arguments = arguments_of(kCrossEntropy, logits, targets, loss.view, options);
  check_statistics(kCrossEntropy, statistics.view, logits);
  check(!loss.accumulate && !statistics.accumulate,
        "cross_entropy: the loss and the statistics cannot accumulate");
  const DenseOut kept(statistics, false, 2);
  arguments.statistics = kept.operand(arguments.rows.rank);
  forward(table().cross_entropy, arguments, loss.view, logits);
  kept.finish();
}

void cross_entropy_backward(const Out& dlogits, const ConstView& dloss, const ConstView& statistics,
                            const ConstView& logits, const ConstView& targets,
                            const ClassLossOptions& options) {
  if (!dlogits) return;
  CrossEntropyArguments arguments = arguments_of(kCrossEntropyBackward, logits, targets, dloss, options);
  check_statistics(kCrossEntropyBackward, statistics, logits);
  arguments.statistics = row_operand(dense_rows(statistics, 2), arguments.rows.rank);
  backward(table().cross_entropy_backward, arguments, kCrossEntropyBackward, dlogits, dloss, logits);
}

void nll(const Out& loss, const ConstView& x, const ConstView& targets, const ClassLossOptions& options) {
  CrossEntropyArguments arguments = arguments_of(kNll, x, targets, loss.view, options);
  check(!loss.accumulate, "nll: the loss cannot accumulate");
  forward(table().nll, arguments, loss.view, x);
}

void nll_backward(const Out& dx, const ConstView& dloss, const ConstView& x, const ConstView& targets,
                  const ClassLossOptions& options) {
  if (!dx) return;
  CrossEntropyArguments arguments = arguments_of(kNllBackward, x, targets, dloss, options);
  backward(table().nll_backward, arguments, kNllBackward, dx, dloss, x);
}

}  // namespace attune::kernels
