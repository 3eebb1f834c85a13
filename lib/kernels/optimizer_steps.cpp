#include "attune/lib/kernels/optimizer_steps.h"

#include <cmath>

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

// beta^t by repeated squaring: std::pow's last bit depends on the machine's libm.
double power(double base, Index exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

StepPiece piece_of(const StepSegment& s, Index first_block) {
  return {
      .parameter = s.parameter,
      .gradient = s.gradient,
      .slots = {s.slots[0], s.slots[1]},
      .count = s.count,
      .first_block = first_block,
      .gradient_scale = s.gradient_scale,
      .couple = s.coupled_decay,
      .keep = 1 - s.lr * s.decay,
      .step = s.lr,
      .root_scale = 1,
  };
}

// Runs `bodies` over the segments; change(piece, segment) completes what the rule needs.
template <class F>
void run_steps(const char* op, const Bodies& bodies, std::span<const StepSegment> segments, StepArguments arguments,
               DType type, F&& change) {
  check(type == f32 || type == f64, "{}: {} cannot be stepped, only f32 and f64", op, type);
  const auto count = static_cast<Index>(segments.size());
  auto* pieces = static_cast<StepPiece*>(scratch(0, count * static_cast<Index>(sizeof(StepPiece))));
  Index blocks = 0;
  for (Index i = 0; i < count; ++i) {
    const StepSegment& segment = segments[static_cast<std::size_t>(i)];
    pieces[i] = piece_of(segment, blocks);
    change(pieces[i], segment);
    blocks += (segment.count + kStepBlock - 1) / kStepBlock;
  }
  arguments.pieces = pieces;
  arguments.count = count;
  run(body_of(bodies, type), type, &arguments, blocks, 8 * kStepBlock);
}

StepArguments with_betas(double beta1, double beta2) {
  StepArguments arguments{};
  arguments.beta1 = beta1;
  arguments.rest1 = 1 - beta1;
  arguments.beta2 = beta2;
  arguments.rest2 = 1 - beta2;
  return arguments;
}

}  // namespace

void sgd(std::span<const StepSegment> segments, const SgdRates& rates, DType type) {
  StepArguments arguments{};
  arguments.beta1 = rates.momentum;
  arguments.nesterov = rates.nesterov;
  run_steps("sgd", rates.momentum == 0 ? table().sgd : table().sgd_momentum, segments, arguments, type,
            [](StepPiece&, const StepSegment&) {});
}

void adam(std::span<const StepSegment> segments, const AdamRates& rates, DType type) {
  StepArguments arguments = with_betas(rates.beta1, rates.beta2);
  arguments.epsilon = rates.epsilon;
  run_steps("adam", table().adam, segments, arguments, type, [&](StepPiece& piece, const StepSegment& segment) {
    piece.step = segment.lr / (1 - power(rates.beta1, segment.step));
    // sqrt(v / c) = sqrt(v) / sqrt(c)
    piece.root_scale = 1 / std::sqrt(1 - power(rates.beta2, segment.step));
  });
}

void lion(std::span<const StepSegment> segments, const LionRates& rates, DType type) {
  run_steps("lion", table().lion, segments, with_betas(rates.beta1, rates.beta2), type,
            [](StepPiece&, const StepSegment&) {});
}

}  // namespace attune::kernels
