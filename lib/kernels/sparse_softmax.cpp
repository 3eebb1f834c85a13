#include "attune/lib/kernels/sparse_softmax.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "attune/lib/kernels/lines.h"
#include "attune/lib/math.h"

namespace attune::kernels {
namespace {

double value_of(double x) { return x; }
double value_of(dual x) { return x.value; }

// What a row is computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, dual>, dual, double>;

// The largest first: how many of the sorted z lie above the threshold of sparsemax, 1 + k z_k > z_1 + ... +
// z_k.
std::size_t sparsemax_support(std::span<const double> z) {
  double sum = 0;
  std::size_t k = 0;
  for (; k < z.size(); ++k) {
    sum += z[k];
    if (!(1 + static_cast<double>(k + 1) * z[k] > sum)) break;
  }
  return k;
}

// Of entmax15: tau_k = mean - sqrt((1 - squares) / k), mean and squared distances from it of the first k; z_k
// > tau_k.
std::size_t entmax15_support(std::span<const double> z) {
  double mean = 0, squares = 0;
  std::size_t k = 0;
  for (; k < z.size(); ++k) {
    const double count = static_cast<double>(k + 1), distance = z[k] - mean;
    mean += distance / count;
    squares += distance * (z[k] - mean);
    const double left = (1 - squares) / count;
    if (left < 0 || !(z[k] > mean - std::sqrt(left))) break;
  }
  return k;
}

// x less the largest, times `factor`; -inf stays. Whether every number is finite, or -inf: else nothing is
// done.
template <class W>
bool shift(std::vector<W>& row, double factor) {
  const double hidden = -std::numeric_limits<double>::infinity();
  W top{};
  double most = hidden;
  for (const W& x : row) {
    if (std::isnan(value_of(x)) || value_of(x) == -hidden) return false;
    if (value_of(x) > most) most = value_of(x), top = x;
  }
  if (most == hidden) return true;
  for (W& x : row)
    if (value_of(x) != hidden) x = (x - top) * factor;
  return true;
}

template <class W>
W mean_of(std::span<const W> row, double threshold) {
  W sum{};
  double count = 0;
  for (const W& x : row)
    if (value_of(x) >= threshold) sum += x, count += 1;
  return sum / count;
}

// Each takes a shifted row and the least of its support, and leaves y there.
struct Sparsemax {
  static constexpr double kFactor = 1;
  static std::size_t support(std::span<const double> z) { return sparsemax_support(z); }
  template <class W>
  static void finish(std::span<W> row, double least, double count) {
    const W mean = mean_of<W>(row, least);
    for (W& x : row) x = value_of(x) >= least ? x - mean + 1 / count : W{};  // tau = mean - 1 / k
  }
};

struct Entmax15 {
  static constexpr double kFactor = 0.5;
  static std::size_t support(std::span<const double> z) { return entmax15_support(z); }
  template <class W>
  static void finish(std::span<W> row, double least, double count) {
    const W mean = mean_of<W>(row, least);
    W squares{};
    for (const W& x : row)
      if (value_of(x) >= least) squares += (x - mean) * (x - mean);
    const W root = math::sqrt((1.0 - squares) / count);
    for (W& x : row) {
      const W above = x - mean + root;
      x = value_of(x) >= least ? above * above : W{};
    }
  }
};

template <class Rule, class W>
void normalise(std::vector<W>& row) {
  if (!shift(row, Rule::kFactor)) {
    std::fill(row.begin(), row.end(), W{} + std::numeric_limits<double>::quiet_NaN());
    return;
  }
  thread_local std::vector<double> sorted;
  sorted.clear();
  for (const W& x : row)
    if (value_of(x) > -1) sorted.push_back(value_of(x));  // what lies 1 below the largest has no weight
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const std::size_t support = Rule::support(sorted);
  if (support == 0) return std::fill(row.begin(), row.end(), W{});  // nothing but -inf
  const double least = sorted[support - 1];
  const auto count = std::count_if(row.begin(), row.end(), [=](const W& x) { return value_of(x) >= least; });
  Rule::finish(std::span<W>(row), least, static_cast<double>(count));
}

struct SparsemaxBackward {
  template <class W>
  static W root(W) {
    return W{} + 1.0;
  }
};
struct Entmax15Backward {
  template <class W>
  static W root(W y) {
    return math::sqrt(y);
  }
};

// dx = r (dy - sum(r dy) / sum(r)) where y > 0, r = root(y). `row` is y, and becomes dx.
template <class Rule, class W>
void differentiate(std::vector<W>& row, const std::vector<W>& dy) {
  W weighted{}, total{};
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(value_of(row[i]))) {
      std::fill(row.begin(), row.end(), row[i]);
      return;
    }
    if (!(value_of(row[i]) > 0)) continue;
    row[i] = Rule::root(row[i]);
    weighted += row[i] * dy[i];
    total += row[i];
  }
  if (!(value_of(total) > 0)) return std::fill(row.begin(), row.end(), W{});
  const W mean = weighted / total;
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = value_of(row[i]) > 0 ? row[i] * (dy[i] - mean) : W{};
}

template <class T>
Wide<T> widen(T x) {
  return x;
}

template <class T>
void read_row(std::vector<Wide<T>>& row, const ConstView& x, Index offset) {
  const T* numbers = static_cast<const T*>(x.data()) + offset;
  row.resize(static_cast<std::size_t>(x.shape().last()));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = widen(numbers[static_cast<Index>(i) * x.stride(-1)]);
}

template <class T>
void write_row(const Out& y, Index offset, const std::vector<Wide<T>>& row) {
  T* numbers = static_cast<T*>(y.view.data()) + offset;
  for (std::size_t i = 0; i < row.size(); ++i)
    put(numbers[static_cast<Index>(i) * y.view.stride(-1)], static_cast<T>(row[i]), y.accumulate);
}

template <class F>
void visit_float(const char* name, DType type, F&& f) {
  check(is_float(type), "{}: it computes with f32, f64 or dual, and got {}", name, type);
  visit(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>) f.template operator()<T>();
  });
}

void check_row(const char* name, const ConstView& y, const ConstView& x) {
  check(x.rank() >= 1, "{}: {} has no row to normalise", name, x.shape());
  check(y.shape() == x.shape() && y.dtype() == x.dtype(), "{}: {} {} and {} {} differ", name, y.dtype(),
        y.shape(), x.dtype(), x.shape());
}

template <class Rule>
void forward(const char* name, const Out& y, const ConstView& x) {
  if (!y) return;
  check_row(name, y.view, x);
  if (x.count() == 0) return;
  visit_float(name, x.dtype(), [&]<class T>() {
    const ConstView place = y.view;
    const std::array<const ConstView*, 2> views{&place, &x};
    each_line<2>(around_axis(x.shape(), x.rank() - 1), views, 32 * x.shape().last(),
                 [&](Index, const auto& offsets) {
                   thread_local std::vector<Wide<T>> row;
                   read_row<T>(row, x, offsets[1]);
                   normalise<Rule>(row);
                   write_row<T>(y, offsets[0], row);
                 });
  });
}

template <class Rule>
void backward(const char* name, const Out& dx, const ConstView& dy, const ConstView& y) {
  if (!dx) return;
  check_row(name, dx.view, y);
  check_row(name, dy, y);
  if (y.count() == 0) return;
  visit_float(name, y.dtype(), [&]<class T>() {
    const ConstView place = dx.view;
    const std::array<const ConstView*, 3> views{&place, &dy, &y};
    each_line<3>(around_axis(y.shape(), y.rank() - 1), views, 16 * y.shape().last(),
                 [&](Index, const auto& offsets) {
                   thread_local std::vector<Wide<T>> row, slopes;
                   read_row<T>(slopes, dy, offsets[1]);
                   read_row<T>(row, y, offsets[2]);
                   differentiate<Rule>(row, slopes);
                   write_row<T>(dx, offsets[0], row);
                 });
  });
}

}  // namespace

void sparsemax(const Out& y, const ConstView& x) { forward<Sparsemax>("sparsemax", y, x); }
void sparsemax_backward(const Out& dx, const ConstView& dy, const ConstView& y) {
  backward<SparsemaxBackward>("sparsemax_backward", dx, dy, y);
}
void entmax15(const Out& y, const ConstView& x) { forward<Entmax15>("entmax15", y, x); }
void entmax15_backward(const Out& dx, const ConstView& dy, const ConstView& y) {
  backward<Entmax15Backward>("entmax15_backward", dx, dy, y);
}

}  // namespace attune::kernels
