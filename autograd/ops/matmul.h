// y = a b: the matrix product over the last two axes, [..., M, K] x [..., K, N] -> [..., M, N], and with vectors.
#pragma once

#include "attune/autograd/ops/reshape.h"
#include "attune/lib/kernels/gemm.h"

namespace attune {

namespace detail {
Shape matmul_shape(const Shape& a, const Shape& b);
Var matmul_with_vector(Var a, Var b, double scale);
// The rows of all batches as one matrix, copied only where strides leave no other way.
ConstView flat_rows(const ConstView& x);
// The same for a place to write: write(rows) sees one matrix.
void add_flat_rows(const Out& place, void (*write)(void* object, const Out& rows), void* object);
template <class F>
void add_rows(const Out& place, F&& write) {
  add_flat_rows(place, [](void* object, const Out& rows) { (*static_cast<std::remove_reference_t<F>*>(object))(rows); },
                &write);
}
}  // namespace detail

// Leading axes broadcast. A matrix b under a batched a, as a layer's weight is, is one product over all rows. `scale`
// multiplies the result (attention's 1/sqrt(d) costs nothing here). A vector on the left is a row, one on the right a
// column, and the axis that it lacks is missing in the result: [K] x [K, N] -> [N], [M, K] x [K] -> [M], [K] x [K] -> [].
inline Var matmul(Var a, Var b, double scale = 1) {
  const Shape shape = detail::matmul_shape(a.shape(), b.shape());
  if (a.rank() == 1 || b.rank() == 1) return detail::matmul_with_vector(a, b, scale);
  Var y = output(shape, {a, b});
  if (b.rank() == 2) {
    const ConstView rows = detail::flat_rows(a.value());
    kernels::gemm(into(y).view.reshape({rows.size(0), shape.last()}), rows, b.value(), scale);
    return record("matmul", y, [=] {
      const ConstView dy = detail::flat_rows(y.grad());
      if (Out d = add_to(a))  // dA += dY Bᵀ
        detail::add_rows(d, [=](const Out& da) { kernels::gemm(da, dy, b.value().t(), scale); });
      if (Out d = add_to(b)) kernels::gemm(d, detail::flat_rows(a.value()).t(), dy, scale);  // dB += Aᵀ dY
    });
  }
  kernels::gemm(into(y), a.value(), b.value(), scale);
  Shape full_a = shape, full_b = shape;
  full_a[shape.rank() - 1] = full_b[shape.rank() - 2] = a.size(-1);
  return record("matmul", y, [=] {
    add_to_stretched(a, full_a, [=](const Out& d) { kernels::gemm(d, y.grad(), b.value().t(), scale); });  // dA += dY Bᵀ
    add_to_stretched(b, full_b, [=](const Out& d) { kernels::gemm(d, a.value().t(), y.grad(), scale); });  // dB += Aᵀ dY
  });
}

}  // namespace attune
