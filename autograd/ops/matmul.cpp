#include "attune/autograd/ops/matmul.h"

namespace attune::detail {
namespace {

bool rows_merge(const ConstView& x) {
  for (int axis = x.rank() - 3; axis >= 0; --axis)
    if (x.shape()[axis] != 1 && x.stride(axis) != x.stride(axis + 1) * x.shape()[axis + 1]) return false;
  return true;
}

}  // namespace

Shape matmul_shape(const Shape& a, const Shape& b) {
  check(a.rank() >= 2 && b.rank() >= 2, "matmul: {} x {}: both must have two axes or more", a, b);
  check(a.last() == b.last(1), "matmul: {} x {}: inner sizes {} and {} differ", a, b, a.last(), b.last(1));
  Shape batch_a(std::span(a.begin(), a.end() - 2)), batch_b(std::span(b.begin(), b.end() - 2));
  Shape shape = broadcast(batch_a, batch_b, "matmul");
  shape.append(a.last(1));
  shape.append(b.last());
  return shape;
}

ConstView flat_rows(const ConstView& x) {
  if (x.rank() == 2) return x;
  const Shape flat{x.count() == 0 ? Shape(std::span(x.shape().begin(), x.shape().end() - 1)).count()
                                  : x.count() / x.shape().last(),
                   x.shape().last()};
  if (rows_merge(x)) return x.reshape(flat);
  const View copy = saved(x.shape(), x.dtype());
  kernels::copy(copy, x);
  return copy.reshape(flat);
}

void add_flat_rows(const Out& place, void (*write)(void*, const Out&), void* object) {
  if (place.view.rank() == 2) return write(object, place);
  const Shape flat{Shape(std::span(place.view.shape().begin(), place.view.shape().end() - 1)).count(),
                   place.view.shape().last()};
  if (rows_merge(place.view)) return write(object, Out(place.view.reshape(flat), place.accumulate));
  const View whole = scratch(place.view.shape(), place.view.dtype());
  write(object, whole.reshape(flat));
  kernels::copy(place, whole);
}

}  // namespace attune::detail
