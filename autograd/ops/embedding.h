// y[..., :] = table[ids[...], :]: a row of the table for each id.
#pragma once

#include "attune/autograd/op.h"
#include "attune/lib/kernels/embedding.h"

namespace attune {

// table [V, C], ids i32 [...] -> [..., C]. An id outside of 0 ... V - 1 is an error that names it and its place.
inline Var embedding(Var table, Var ids) {
  check(table.rank() == 2, "embedding: a table is [rows, width], not {}", table.shape());
  check(ids.dtype() == i32, "embedding: ids are i32, not {}", ids.dtype());
  check(ids.rank() < kMaxRank, "embedding: a row for each of {} makes rank {}, above the limit of {}", ids.shape(),
        ids.rank() + 1, kMaxRank);
  Shape shape = ids.shape();
  shape.append(table.size(1));
  Var y = output(shape, {table}, {ids});
  kernels::embedding(into(y), table.value(), ids.value());
  return record("embedding", y, [=] {
    if (Out d = add_to(table)) kernels::embedding_backward(d, y.grad(), ids.value());  // dtable[id] += dy, in order
  });
}

}  // namespace attune
