#include "attune/lib/kernels/embedding.h"

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

EmbeddingArguments arguments_of(const char* op, const ConstView& vectors, const ConstView& table,
                                const ConstView& ids) {
  check(is_float(table.dtype()), "{}: a table of {} has no arithmetic", op, table.dtype());
  check(table.dtype() == vectors.dtype(), "{}: element types {} and {} differ", op, vectors.dtype(),
        table.dtype());
  check(ids.dtype() == i32, "{}: ids are of {}, not i32", op, ids.dtype());
  check(table.rank() == 2, "{}: a table of {} has no rows and columns", op, table.shape());
  Shape expected = ids.shape();
  expected.append(table.shape().last());
  check(vectors.shape() == expected, "{}: ids of {} and a table of {} make {}, not {}", op, ids.shape(),
        table.shape(), expected, vectors.shape());
  const Index rows = table.shape()[0];
  check_ids(ids, rows, kNothingIgnored, [&](Index id, const Shape& position) {
    check(false, "{}: id {} at {} is outside of a table of {} rows", op, id, position, rows);
  });

  EmbeddingArguments arguments{};
  arguments.rows = row_space(vectors.shape());
  arguments.count = ids.count();
  arguments.width = table.shape().last();
  arguments.ids = row_operand(ids, arguments.rows.rank);
  arguments.vectors = row_operand(vectors, arguments.rows.rank);
  arguments.vector_stride = vectors.stride(-1);
  arguments.table = const_cast<void*>(table.data());
  arguments.table_row_stride = table.stride(0);
  arguments.table_stride = table.stride(1);
  return arguments;
}

}  // namespace

void embedding(const Out& y, const ConstView& table, const ConstView& ids) {
  if (!y) return;
  EmbeddingArguments arguments = arguments_of("embedding", y.view, table, ids);
  arguments.accumulate = y.accumulate;
  const DType type = table.dtype();
  run(body_of(kernels::table().embedding, type), type, &arguments, arguments.count, 16 + arguments.width);
}

void embedding_backward(const Out& dtable, const ConstView& dy, const ConstView& ids) {
  if (!dtable) return;
  const EmbeddingArguments arguments = arguments_of("embedding_backward", dy, dtable.view, ids);
  if (!dtable.accumulate) fill(dtable, 0);
  if (arguments.count == 0) return;
  const DType type = dtable.view.dtype();
  const Index blocks = (arguments.width + kEmbeddingBlock - 1) / kEmbeddingBlock;
  run(body_of(table().embedding_backward, type), type, &arguments, blocks, arguments.count * kEmbeddingBlock);
}

}  // namespace attune::kernels
