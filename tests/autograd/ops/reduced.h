// What the tests of sum and mean share: the definition, and NaN.
#pragma once

#include <cmath>

#include "../../support/op_check.h"
#include "attune/autograd/ops/sum.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"

namespace attune::check_ops {

// The sum, or the mean, of x over axes (all, where none is named), one element after the other.
inline Plain reduced(const Plain& x, const std::vector<int>& axes, Axes kind, bool is_mean) {
  const int rank = x.shape.rank();
  std::vector<bool> goes(static_cast<std::size_t>(rank), axes.empty());
  for (int axis : axes) goes[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    const bool is_reduced = goes[static_cast<std::size_t>(axis)];
    if (!is_reduced || kind == Axes::stay) shape.append(is_reduced ? 1 : x.shape[axis]);
  }
  Plain y(shape);
  for (std::size_t i = 0; i < x.numbers.size(); ++i) {
    auto rest = static_cast<Index>(i);
    Index place = 0, step = 1;
    for (int axis = rank; axis-- > 0;) {
      const Index at = rest % x.shape[axis];
      rest /= x.shape[axis];
      if (goes[static_cast<std::size_t>(axis)]) continue;
      place += at * step;
      step *= x.shape[axis];
    }
    y.numbers[static_cast<std::size_t>(place)] += x.numbers[i];
  }
  const double share =
      is_mean ? static_cast<double>(y.numbers.size()) / static_cast<double>(x.numbers.size()) : 1;
  for (double& number : y.numbers) number *= share;
  return y;
}

// f maps [3, n] to a result for each row. Rows of 0 ... n - 1, one of them with a NaN, for widths around the
// registers'.
inline void check_nan_spreads(const std::function<Var(Var)>& f) {
  const std::string row_before(row());
  const int threads_before = threads();
  for (const std::string& name : supported_rows())
    for (int count : {1, 2})
      for (DType dtype : {f32, f64})
        for (Index n : {1, 7, 8, 9, 15, 16, 17, 33, 64})
          for (Index position = 0; position < n; ++position) {
            set_row(name);
            set_threads(count);
            Tensor x({3, n}, dtype);
            for (Index j = 0; j < 3 * n; ++j) x.set({j / n, j % n}, static_cast<double>(j % n));
            x.set({1, position}, std::nan(""));
            const NoGrad scope;
            const Var y = f(x);
            const std::vector<double> results = Plain(y.value()).numbers;
            bool right = true;
            for (std::size_t i = 0; i < results.size(); ++i)
              right &= std::isnan(results[i]) == (i / (results.size() / 3) == 1);
            CHECK_MESSAGE(right, "number ", position, " of ", n, " is NaN, on ", name, " with ", count,
                          " threads");
          }
  set_row(row_before);
  set_threads(threads_before);
}

}  // namespace attune::check_ops
