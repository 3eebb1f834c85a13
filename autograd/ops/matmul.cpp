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
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: {} x {}: a scalar has no axis to sum over", a, b);
  const Index inner = b.rank() == 1 ? b.last() : b.last(1);
  check(a.last() == inner, "matmul: {} x {}: inner sizes {} and {} differ", a, b, a.last(), inner);
  if (a.rank() == 1 || b.rank() == 1) return {};  // it is asked again with matrices
  Shape batch_a(std::span(a.begin(), a.end() - 2)), batch_b(std::span(b.begin(), b.end() - 2));
  Shape shape = broadcast(batch_a, batch_b, "matmul");
  shape.append(a.last(1));
  shape.append(b.last());
  return shape;
}

Var matmul_with_vector(Var a, Var b, double scale) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Var left = row ? reshape(a, {1, a.size(0)}) : a;
  const Var right = column ? reshape(b, {b.size(0), 1}) : b;
  const Var product = matmul(left, right, scale);
  Shape shape(std::span(product.shape().begin(), product.shape().end() - 2));
  if (!row) shape.append(product.size(-2));
  if (!column) shape.append(product.size(-1));
  return reshape(product, shape);
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
