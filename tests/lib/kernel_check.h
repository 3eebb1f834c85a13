// What the tests of kernels share: numbers to feed them, the same numbers in other layouts, and the claim
// that every instruction set and every number of threads gives the same bits.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../support/sanitized.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/tensor.h"
#include "attune/lib/threads.h"

namespace attune::check_kernels {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// Numbers in [low, high) that depend on the seed alone (SplitMix64: Steele, Lea & Flood 2014).
inline double next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}
inline Tensor random(const Shape& shape, DType dtype, std::uint64_t seed, double low = -1, double high = 1) {
  Tensor result(shape, dtype);
  std::uint64_t state = seed;
  visit(dtype, [&]<class T>() {
    for (T& element : result.data<T>()) {
      const double number = low + (high - low) * next_random(state);
      if constexpr (std::is_same_v<T, dual>)
        element = {number, 2 * next_random(state) - 1};
      else if constexpr (std::is_same_v<T, std::int32_t>)
        element = static_cast<T>(std::floor(number));
      else
        element = static_cast<T>(number);
    }
  });
  return result;
}

// All elements as doubles, row-major; of duals the values, or the tangents.
inline std::vector<double> values(const ConstView& view) {
  const Tensor dense = Tensor::copy_of(view);
  std::vector<double> result;
  visit(dense.dtype(), [&]<class T>() {
    for (const T& element : dense.data<T>()) {
      if constexpr (std::is_same_v<T, dual>)
        result.push_back(element.value);
      else
        result.push_back(static_cast<double>(element));
    }
  });
  return result;
}
inline std::vector<double> tangents(const ConstView& view) {
  const Tensor dense = Tensor::copy_of(view);
  std::vector<double> result;
  for (const dual& element : dense.data<dual>()) result.push_back(element.tangent);
  return result;
}

// Two parts of a dual tensor, as f64: the values, and the direction.
inline Tensor values_of(const Tensor& duals) { return duals.to(f64); }
inline Tensor tangents_of(const Tensor& duals) {
  Tensor result(duals.shape(), f64);
  const std::vector<double> numbers = tangents(duals);
  std::copy(numbers.begin(), numbers.end(), result.data<double>().begin());
  return result;
}
// A dual tensor from the two.
inline Tensor dual_of(const Tensor& value, const Tensor& tangent) {
  Tensor result(value.shape(), DType::dual);
  auto to = result.data<dual>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = {value.data<double>()[i], tangent.data<double>()[i]};
  return result;
}
inline double dot(const Tensor& a, const Tensor& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.data<double>().size(); ++i)
    total += a.data<double>()[i] * b.data<double>()[i];
  return total;
}

// The same elements at other places in memory.
struct Arranged {
  std::string name;
  Tensor memory;
  View view;
};
inline Arranged arrange(const ConstView& x, int layout) {
  const int rank = x.rank();
  Arranged result;
  if (layout == 0 || rank == 0) {
    result.name = "contiguous";
    result.memory = Tensor(x.shape(), x.dtype());
    result.view = result.memory.view();
  } else if (layout == 1) {
    result.name = "a window";
    Shape larger = x.shape();
    for (int axis = 0; axis < rank; ++axis) larger[axis] += 3;
    result.memory = Tensor(larger, x.dtype());
    result.view = result.memory.view();
    for (int axis = 0; axis < rank; ++axis) result.view = result.view.slice(axis, 1, 1 + x.shape()[axis]);
  } else if (layout == 2) {
    result.name = "every other element";
    Shape larger = x.shape();
    larger[rank - 1] *= 2;
    result.memory = Tensor(larger, x.dtype());
    result.view = result.memory.view().slice(-1, 0, larger[rank - 1], 2);
  } else {
    result.name = "axes reversed";
    Shape reversed = x.shape();
    std::vector<int> order;
    for (int axis = 0; axis < rank; ++axis) {
      reversed[axis] = x.shape()[rank - 1 - axis];
      order.push_back(rank - 1 - axis);
    }
    result.memory = Tensor(reversed, x.dtype());
    result.view = result.memory.view().permute(order);
  }
  kernels::copy(result.view, x);
  return result;
}
inline constexpr int kLayouts = 4;

// NaNs equal each other, whatever their bits: those are outside the contract. Zeros differ by sign.
inline bool same_bits(const ConstView& a, const ConstView& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto same = [](const std::vector<double>& p, const std::vector<double>& q) {
    for (std::size_t i = 0; i < p.size(); ++i)
      if (!(std::isnan(p[i]) && std::isnan(q[i])) && std::memcmp(&p[i], &q[i], sizeof p[i]) != 0)
        return false;
    return true;
  };
  return same(values(a), values(b)) && (a.dtype() != DType::dual || same(tangents(a), tangents(b)));
}

// Runs `compute` on every row of the kernel table and on 1, 2 and 3 threads (under sanitizers on 1 and 2): all must return the same bits.
// Leaves the row and the threads as they were.
inline Tensor on_every_row(const std::function<Tensor()>& compute) {
  const std::string before(row());
  const int threads_before = threads();
  Tensor expected;
  for (const std::string& name : supported_rows())
    for (int count = 1; count <= kMostThreads; ++count) {
      set_row(name);
      set_threads(count);
      Tensor result = compute();
      if (expected.count() == 0)
        expected = std::move(result);
      else if (!same_bits(expected, result))
        FAIL_CHECK("other bits on ", name, " with ", count, " threads");
    }
  set_row(before);
  set_threads(threads_before);
  return expected;
}

// Several results as one, to be compared together.
inline Tensor joined(std::initializer_list<const Tensor*> tensors) {
  Shape shape{0};
  for (const Tensor* tensor : tensors) shape[0] += tensor->count();
  Tensor result(shape, (*tensors.begin())->dtype());
  Index from = 0;
  for (const Tensor* tensor : tensors) {
    const Index count = tensor->count();
    kernels::copy(result.view().slice(0, from, from + count), tensor->view().reshape({count}));
    from += count;
  }
  return result;
}

// Whether each element of `actual` is within `relative` of the expected, or of `absolute` around it.
inline void check_close(const ConstView& actual, const std::vector<double>& expected, double relative,
                        double absolute = 0) {
  const std::vector<double> numbers = values(actual);
  REQUIRE(numbers.size() == expected.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double allowed = relative * std::abs(expected[i]) + absolute;
    const bool close = std::isnan(expected[i])
                           ? std::isnan(numbers[i])
                           : numbers[i] == expected[i] || std::abs(numbers[i] - expected[i]) <= allowed;
    if (!close) FAIL_CHECK("element ", i, " is ", numbers[i], ", not ", expected[i]);
  }
}

// How far an f32 or an f64 may be off in kernels that add up a few hundred terms.
inline double tolerance(DType dtype) { return dtype == f32 ? 2e-5 : 1e-12; }

}  // namespace attune::check_kernels
