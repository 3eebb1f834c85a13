#include "attune/lib/shape.h"

namespace attune {

Shape broadcast(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape result;
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const Index size_a = in_a < 0 ? 1 : a[in_a], size_b = in_b < 0 ? 1 : b[in_b];
    check(size_a == size_b || size_a == 1 || size_b == 1, "{}: {} and {} do not broadcast: sizes {} and {} differ",
          op, a, b, size_a, size_b);
    result.append(size_a == 1 ? size_b : size_a);
  }
  return result;
}

bool broadcasts_to(const Shape& small, const Shape& large) {
  if (small.rank() > large.rank()) return false;
  for (int back = 0; back < small.rank(); ++back)
    if (small.last(back) != large.last(back) && small.last(back) != 1) return false;
  return true;
}

}  // namespace attune
