#include "attune/autograd/ops/one_hot.h"

#include "attune/autograd/ops/contiguous.h"
#include "attune/lib/kernels/gather.h"
#include "attune/lib/kernels/rowwise.h"

namespace attune {

Var one_hot(Var ids, Index classes, DType dtype) {
  check(ids.dtype() == i32, "one_hot: ids are i32, not {}", ids.dtype());
  check(classes >= 1 && is_float(dtype), "one_hot: {} classes of {}: at least 1, of f32, f64 or dual", classes, dtype);
  check(ids.rank() < kMaxRank, "one_hot: classes for each of {} make rank {}, above the limit of {}", ids.shape(),
        ids.rank() + 1, kMaxRank);
  kernels::check_ids(ids.value(), classes, kernels::kNothingIgnored, [&](Index id, const Shape& position) {
    check(false, "one_hot: id {} at {} is outside of {} classes", id, position, classes);
  });
  Shape shape = ids.shape(), single = ids.shape();
  shape.append(classes);
  single.append(1);
  const View rows = saved(shape, dtype), one = saved(Shape(), dtype);
  kernels::fill(rows, 0);
  kernels::fill(one, 1);
  const Var places = contiguous(ids);
  kernels::scatter_add(rows, one.expand(single), places.value().reshape(single), -1);
  return constant_of("one_hot", rows, {ids});
}

}  // namespace attune
