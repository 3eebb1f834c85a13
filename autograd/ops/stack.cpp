#include "attune/autograd/ops/stack.h"

#include <vector>

namespace attune {

Shape detail::with_axis(const Shape& shape, int axis) {
  const int rank = shape.rank() + 1, place = axis < 0 ? axis + rank : axis;
  check(rank <= kMaxRank, "stack: parts {} make a result of rank {}, above the limit of {}", shape, rank, kMaxRank);
  check(place >= 0 && place < rank, "stack: axis {} does not exist in a result of rank {}", axis, rank);
  Shape result;
  for (int i = 0; i < rank; ++i) result.append(i == place ? 1 : shape[i < place ? i : i - 1]);
  return result;
}

Var stack(std::span<const Var> parts, int axis) {
  check(!parts.empty(), "stack: there are no parts");
  const Shape& shape = parts.front().shape();
  std::vector<Var> slices;
  for (const Var part : parts) {
    check(part.shape() == shape, "stack: {} and {} differ", shape, part.shape());
    slices.push_back(reshape(part, detail::with_axis(shape, axis)));
  }
  return concat(slices, axis);
}

}  // namespace attune
