#include "attune/autograd/ops/cross_entropy.h"

#include "attune/autograd/ops/div.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/ops/sum.h"

namespace attune::detail {
namespace {

// 1 for each target that counts, 0 for the ignored ones.
Var counted(Var targets, Index ignored, DType dtype) {
  const Tensor ids = Tensor::copy_of(targets.value());
  Tensor result(ids.shape(), f64);
  const auto from = ids.data<std::int32_t>();
  const auto to = result.data<double>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i] != ignored;
  return Var(result.to(dtype));
}

}  // namespace

Var weighted_loss(const char* op, Var losses, Var targets, const CrossEntropyOptions& options) {
  const Var weights = *options.weights;
  check(weights.dtype() == losses.dtype(), "{}: element types {} and {} differ", op, losses.dtype(),
        weights.dtype());
  check(weights.shape() == targets.shape(), "{}: weights of {} do not fit targets of {}", op, weights.shape(),
        targets.shape());
  const Var terms = mul(losses, weights);
  if (options.reduction == Reduction::none) return terms;
  const Var total = sum(terms);
  if (options.reduction == Reduction::sum) return total;
  const Var counts = counted(targets, options.ignored, weights.dtype());
  const Var kept = mul(weights, counts);
  const Var divisor = sum(kept);
  return divisor.item() == 0 ? mul(total, 0) : div(total, divisor);
}

}  // namespace attune::detail
