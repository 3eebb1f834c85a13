#include "attune/autograd/ops/concat.h"

namespace attune::detail {

Shape concat_shape(std::span<const Var> parts, int axis, std::source_location where) {
  check(!parts.empty(), "concat: there are no parts");
  Shape whole = parts.front().shape(where);
  const int along = whole.axis(axis, "concat");
  const DType dtype = parts.front().dtype(where);
  whole[along] = 0;
  for (const Var part : parts) {
    Shape around = part.shape(where);
    check(part.dtype() == dtype, "concat: element types {} and {} differ", dtype, part.dtype());
    const bool fits = around.rank() == whole.rank();
    const Index size = fits ? around[along] : 0;
    if (fits) around[along] = whole[along];
    check(fits && around == whole, "concat: {} and {} do not fit side by side along axis {}", parts.front().shape(),
          part.shape(), axis);
    whole[along] += size;
  }
  return whole;
}

}  // namespace attune::detail
