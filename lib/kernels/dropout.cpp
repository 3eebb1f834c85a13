#include "attune/lib/kernels/dropout.h"

#include <cmath>

#include "attune/lib/kernels/run.h"

namespace attune::kernels {

DropoutMask dropout_mask(const Rng& stream, double p) {
  check(p >= 0 && p <= 1, "dropout: a share of {} is not between 0 and 1", p);
  return {.seed = stream.seed(),
          .stream = stream.stream(),
          .position = stream.position(),
          .threshold = static_cast<std::uint64_t>(std::nearbyint(p * 0x1p32)),
          .factor = p < 1 ? 1 / (1 - p) : 0};
}

void dropout_factors(const View& y, const DropoutMask& mask) {
  check(is_float(y.dtype()) && y.is_contiguous(), "dropout: factors of {} {} need contiguous floating-point memory",
        y.dtype(), y.shape());
  const DropoutArguments arguments{y.data(), y.count(), mask};
  const Index blocks = (arguments.count + kDropoutBlock - 1) / kDropoutBlock;
  run(body_of(table().dropout_factors, y.dtype()), y.dtype(), &arguments, blocks, 4 * kDropoutBlock);
}

}  // namespace attune::kernels
