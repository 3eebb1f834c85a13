// What the tests of ops over axes share: their definition, and NaN.
#pragma once

#include <cmath>

#include "../../support/op_check.h"
#include "attune/autograd/reduction.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"

namespace attune::check_ops {

using Numbers = std::vector<double>;

// f of the elements that the axes (all, where none is named) bring together, in row-major order.
inline Plain over_axes(const Plain& x, const std::vector<int>& axes, Axes kind,
                       const std::function<double(const Numbers&)>& f) {
  const int rank = x.shape.rank();
  std::vector<bool> goes(static_cast<std::size_t>(rank), axes.empty());
  for (int axis : axes) goes[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    const bool is_reduced = goes[static_cast<std::size_t>(axis)];
    if (!is_reduced || kind == Axes::stay) shape.append(is_reduced ? 1 : x.shape[axis]);
  }
  Plain y(shape);
  std::vector<Numbers> groups(y.numbers.size());
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
    groups[static_cast<std::size_t>(place)].push_back(x.numbers[i]);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) y.numbers[i] = f(groups[i]);
  return y;
}

// f of each line of elements along an axis, which it replaces.
inline Plain along_axis(const Plain& x, int axis, const std::function<Numbers(const Numbers&)>& f) {
  Index inner = 1, size = x.shape[axis < 0 ? axis + x.shape.rank() : axis];
  for (int next = (axis < 0 ? axis + x.shape.rank() : axis) + 1; next < x.shape.rank(); ++next)
    inner *= x.shape[next];
  Plain y(x.shape);
  for (Index line = 0; size > 0 && line < x.shape.count() / size; ++line) {
    const Index start = line / inner * inner * size + line % inner;
    const auto at = [&](Index i) { return static_cast<std::size_t>(start + i * inner); };
    Numbers numbers;
    for (Index i = 0; i < size; ++i) numbers.push_back(x.numbers[at(i)]);
    const Numbers results = f(numbers);
    for (Index i = 0; i < size; ++i) y.numbers[at(i)] = results[static_cast<std::size_t>(i)];
  }
  return y;
}

inline double sum_of(const Numbers& numbers) {
  double total = 0;
  for (double number : numbers) total += number;
  return total;
}

// The sum, or the mean, of x over axes, one element after the other.
inline Plain reduced(const Plain& x, const std::vector<int>& axes, Axes kind, bool is_mean) {
  return over_axes(x, axes, kind, [=](const Numbers& group) {
    return sum_of(group) / (is_mean ? static_cast<double>(group.size()) : 1);
  });
}

// The shapes that ops over axes are checked on.
inline std::vector<Inputs> shapes_of_three_axes() {
  return {{real({2, 3, 4})}, {real({1, 17, 33})}, {real({5, 1, 1})}, {real({9, 40, 70})}};
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
