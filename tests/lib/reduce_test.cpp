// Sums, means and norms against plain loops in long double, over axes, layouts, instruction sets and threads.
#include "attune/lib/kernels/reduce.h"

#include "kernel_check.h"
#include "../support/sanitized.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Tensor sum_to(const Shape& shape, const ConstView& x) {
  Tensor y = full(shape, 3, x.dtype());  // to be overwritten
  kernels::sum(y, x);
  return y;
}

Tensor mean_to(const Shape& shape, const ConstView& x) {
  Tensor y(shape, x.dtype());
  kernels::mean(y, x);
  return y;
}

// Each element of x goes to where its index, with the summed axes at 0, stands in y.
std::vector<double> reference(const Shape& shape, const Tensor& x) {
  std::vector<long double> sums(static_cast<std::size_t>(shape.count()), 0.0L);
  const std::vector<double> numbers = values(x);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Index rest = static_cast<Index>(i), place = 0, step = 1;
    for (int back = 0; back < x.rank(); ++back) {
      const Index size = x.shape().last(back), index = rest % size;
      rest /= size;
      if (back >= shape.rank()) continue;
      if (shape.last(back) != 1) place += index * step;
      step *= shape.last(back);
    }
    sums[static_cast<std::size_t>(place)] += numbers[i];
  }
  return {sums.begin(), sums.end()};
}

// Every shape that stretches to `shape`: each axis whole or 1.
std::vector<Shape> reductions_of(const Shape& shape) {
  std::vector<Shape> result;
  for (int kept = 0; kept < 1 << shape.rank(); ++kept) {
    Shape to = shape;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!(kept >> axis & 1)) to[axis] = 1;
    result.push_back(to);
    if (kept % 2 == 0)
      result.push_back(Shape(std::span(to.begin() + 1, to.end())));  // a missing leading axis
  }
  return result;
}

}  // namespace

TEST_CASE("sum and mean: every choice of axes") {
  for (DType dtype : {f32, f64, DType::dual})
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{3, 1, 17, 2}, Shape{70, 2, 66}, Shape{1, 1},
                               Shape{5, 1, 1}, Shape{2, 130, 3, 33}}) {
      const Tensor x = random(shape, dtype, 1);
      for (const Shape& to : reductions_of(shape)) {
        std::vector<double> expected = reference(to, x);
        check_close(sum_to(to, x), expected, tolerance(dtype), 5 * tolerance(dtype));
        for (double& number : expected)
          number *= static_cast<double>(to.count()) / static_cast<double>(shape.count());
        check_close(mean_to(to, x), expected, tolerance(dtype), tolerance(dtype));
      }
    }
}

TEST_CASE("sum: every length, along the last axis and along the first") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index n = 1; n <= 70; ++n) {
      const Tensor x = random({n, n + 1}, dtype, 2);
      for (const Shape& to : {Shape{n, 1}, Shape{n + 1}, Shape{}})
        check_close(sum_to(to, x), reference(to, x), tolerance(dtype), 20 * tolerance(dtype));
    }
}

TEST_CASE("sum and mean: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (const Shape& shape : {Shape{3, 5, 70}, Shape{2200, 3}, Shape{3, 2200}, Shape{40, 3, 1100},
                               Shape{4, 1, 33}, Shape{9000, 2, 5}, Shape{70000}}) {
      const Tensor x = random(shape, dtype, 3);
      for (const Shape& to : reductions_of(shape)) {
        const Tensor expected = on_every_row([&] {
          const Tensor total = sum_to(to, x), average = mean_to(to, x);
          return joined({&total, &average});
        });
        for (int layout = kSanitized ? kLayouts - 1 : 0; layout < kLayouts; ++layout) {
          const Arranged total = arrange(Tensor(to, dtype), (layout + 1) % kLayouts);
          const Arranged average = arrange(Tensor(to, dtype), layout), from = arrange(x, layout);
          kernels::sum(total.view, from.view);
          kernels::mean(average.view, from.view);
          const Tensor dense_total = Tensor::copy_of(total.view),
                       dense_average = Tensor::copy_of(average.view);
          INFO(from.name);
          CHECK(same_bits(joined({&dense_total, &dense_average}), expected));
        }
      }
    }
}

TEST_CASE("sum: repeated elements count as often as they show") {
  const Tensor column = random({40, 1}, f32, 4);
  const ConstView repeated = column.view().expand({40, 50});
  CHECK(same_bits(sum_to({}, repeated), sum_to({}, Tensor::copy_of(repeated))));
  CHECK(same_bits(sum_to({50}, repeated), sum_to({50}, Tensor::copy_of(repeated))));
  CHECK(same_bits(sum_to({40, 1}, repeated), sum_to({40, 1}, Tensor::copy_of(repeated))));
}

TEST_CASE("sum: an output can accumulate") {
  for (const Shape& to : {Shape{}, Shape{60, 1}, Shape{70}, Shape{60, 70}}) {
    const Tensor x = random({60, 70}, f32, 5), start = random(to, f32, 6);
    Tensor y = start.clone(), expected(to);
    kernels::sum(Out(y.view(), true), x);
    kernels::add(expected, start, sum_to(to, x));
    CHECK(same_bits(y, expected));
  }
  const Tensor tall = random({9000, 3}, f32, 7), start = random({3}, f32, 8);
  Tensor y = start.clone(), expected({3});
  kernels::mean(Out(y.view(), true), tall);
  kernels::add(expected, start, mean_to({3}, tall));
  CHECK(same_bits(y, expected));
}

TEST_CASE("sum: derivatives are sums of derivatives") {
  const Tensor x = random({300, 17}, DType::dual, 9);
  for (const Shape& to : {Shape{}, Shape{17}, Shape{300, 1}}) {
    const Tensor y = sum_to(to, x);
    CHECK(same_bits(values_of(y), sum_to(to, values_of(x))));
    CHECK(same_bits(tangents_of(y), sum_to(to, tangents_of(x))));
  }
}

TEST_CASE("sum and mean: ten million numbers lose nothing") {
  CHECK(mean_to({}, ones({20'000'000})).item() == 1);
  const Tensor tenths = full({10'000'000}, 0.1);
  CHECK(sum_to({}, tenths).item() == doctest::Approx(1000000.0149).epsilon(1e-5));
  const Tensor columns = sum_to({2}, full({10'000'000, 2}, 0.1));
  CHECK(columns.at({0}) == doctest::Approx(1000000.0149).epsilon(1e-5));
  CHECK(columns.at({0}) == columns.at({1}));
  CHECK(std::sqrt(kernels::squared_norm(full({20'000'000}, 1e-3))) ==
        doctest::Approx(4.472135955).epsilon(1e-6));
}

TEST_CASE("sum and mean: NaN anywhere is NaN") {
  for (Index n : {1, 7, 8, 9, 15, 16, 17, 33, 64})
    for (Index position = 0; position < n; ++position) {
      Tensor x({2, n});
      x.set({1, position}, kNan);
      const Tensor y = sum_to({2, 1}, x);
      CHECK(y.at({0, 0}) == 0);
      CHECK(std::isnan(y.at({1, 0})));
      CHECK(std::isnan(mean_to({}, x).item()));
      CHECK(std::isnan(sum_to({n}, x).at({position})));
      CHECK(std::isnan(kernels::squared_norm(x)));
    }
}

TEST_CASE("sum: nothing is 0, and means nothing") {
  CHECK(sum_to({}, Tensor({0})).item() == 0);
  CHECK(values(sum_to({3}, Tensor({0, 3}))) == std::vector<double>{0, 0, 0});
  CHECK(values(sum_to({3, 1}, Tensor({3, 0}))) == std::vector<double>{0, 0, 0});
  Tensor y = ones({3});
  kernels::sum(Out(y.view(), true), Tensor({0, 3}));
  CHECK(values(y) == std::vector<double>{1, 1, 1});
  CHECK(sum_to({3, 0}, Tensor({5, 3, 0})).count() == 0);
  CHECK(kernels::squared_norm(Tensor({0, 4})) == 0);
  kernels::sum(Out(), Tensor({3}));
  CHECK_THROWS_WITH_AS(mean_to({3}, Tensor({0, 3})), "mean: [0, 3] to [3] is a mean of no elements",
                       std::invalid_argument);
}

TEST_CASE("squared_norm: in double, in every layout") {
  CHECK(kernels::squared_norm(full({100}, 1e20)) == doctest::Approx(1e42).epsilon(1e-6));
  CHECK(kernels::squared_norm(tensor({3, 4})) == 25);
  for (DType dtype : {f32, f64, DType::dual})
    for (const Shape& shape : {Shape{}, Shape{69}, Shape{130, 71}, Shape{3, 50, 333}}) {
      const Tensor x = random(shape, dtype, 10);
      double expected = 0;
      for (double number : values(x)) expected += number * number;
      const Tensor norm = on_every_row([&] { return full({}, kernels::squared_norm(x), f64); });
      CHECK(norm.item() == doctest::Approx(expected).epsilon(1e-12));
      for (int layout = 0; layout < kLayouts; ++layout)
        CHECK(kernels::squared_norm(arrange(x, layout).view) == norm.item());
    }
}

TEST_CASE("sum, mean and squared_norm: what is refused") {
  Tensor y({3}), y64({4}, f64), ids({4}, i32);
  const Tensor x({3, 4});
  CHECK_THROWS_WITH_AS(kernels::sum(y, x), "sum: [3] does not stretch to [3, 4]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::mean(y, x), "mean: [3] does not stretch to [3, 4]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::sum(y64, x), "sum: element types f64 and f32 differ", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::sum(ids, ids), "sum: i32 has no arithmetic", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::squared_norm(ids), "squared_norm: i32 has no arithmetic",
                       std::invalid_argument);
}
