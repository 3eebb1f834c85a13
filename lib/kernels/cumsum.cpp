#include "attune/lib/kernels/cumsum.h"

#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {

void cumsum(const Out& y, const ConstView& x, Direction direction) {
  if (!y) return;
  RowArguments arguments = row_arguments("cumsum", x);
  check_same("cumsum", y.view, x);
  if (x.count() == 0) return;
  const DenseOut out(y, true, 0);
  arguments.y = out.operand(arguments.rows.rank);
  arguments.accumulate = out.accumulate();
  arguments.x = row_operand(dense_rows(x, 1), arguments.rows.rank);
  arguments.backwards = direction == Direction::backwards;
  run(body_of(table().cumsum, x.dtype()), x.dtype(), &arguments, x.count() / arguments.width,
      32 + 4 * arguments.width);
  out.finish();
}

}  // namespace attune::kernels
