#include "attune/lib/kernels/adamw.h"

#include <cmath>

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {

void adamw(std::span<const AdamWSegment> segments, DType type) {
  check(type == f32 || type == f64, "adamw: {} cannot be stepped, only f32 and f64", type);
  const auto count = static_cast<Index>(segments.size());
  auto* pieces = static_cast<AdamWPiece*>(scratch(0, count * static_cast<Index>(sizeof(AdamWPiece))));
  Index blocks = 0;
  for (Index i = 0; i < count; ++i) {
    const AdamWSegment& s = segments[static_cast<std::size_t>(i)];
    pieces[i] = {
        .parameter = s.parameter,
        .first_moment = s.first_moment,
        .second_moment = s.second_moment,
        .gradient = s.gradient,
        .count = s.count,
        .first_block = blocks,
        .gradient_scale = s.gradient_scale,
        .beta1 = s.beta1,
        .rest1 = 1 - s.beta1,
        .beta2 = s.beta2,
        .rest2 = 1 - s.beta2,
        .keep = 1 - s.lr * s.decay,
        .step = s.lr / s.correction1,
        .root_scale = 1 / std::sqrt(s.correction2),  // sqrt(v / c) = sqrt(v) / sqrt(c)
        .epsilon = s.epsilon,
    };
    blocks += (s.count + kAdamWBlock - 1) / kAdamWBlock;
  }
  const AdamWArguments arguments{pieces, count};
  run(body_of(table().adamw, type), type, &arguments, blocks, 8 * kAdamWBlock);
}

}  // namespace attune::kernels
