// Softmax against its definition in double, over layouts, instruction sets and threads.
#include "attune/lib/kernels/softmax.h"

#include "kernel_check.h"
#include "../support/sanitized.h"

using namespace attune;
using namespace attune::check_kernels;
using kernels::Visible;

namespace {

Index columns_seen(const Visible& visible, Index i, Index columns) {
  return visible.all ? columns : std::max<Index>(0, std::min(columns, i + 1 + visible.shift));
}

// x [rows, columns], row by row.
std::vector<double> reference(const std::vector<double>& x, Index rows, Index columns,
                              const Visible& visible) {
  std::vector<double> y(x.size(), 0.0);
  for (Index i = 0; i < rows; ++i) {
    const Index seen = columns_seen(visible, i, columns);
    const double* row = x.data() + i * columns;
    double most = -kInf, total = 0;
    for (Index j = 0; j < seen; ++j) most = std::max(most, row[j]);
    for (Index j = 0; j < seen; ++j) total += std::exp(row[j] - most);
    for (Index j = 0; j < seen; ++j)
      y[static_cast<std::size_t>(i * columns + j)] = std::exp(row[j] - most) / total;
  }
  return y;
}

std::vector<double> reference_backward(const std::vector<double>& dy, const std::vector<double>& y,
                                       Index rows, Index columns, const Visible& visible) {
  std::vector<double> dx(y.size(), 0.0);
  for (Index i = 0; i < rows; ++i) {
    const Index seen = columns_seen(visible, i, columns), row = i * columns;
    const auto at = [&](Index j) { return static_cast<std::size_t>(row + j); };
    double total = 0;
    for (Index j = 0; j < seen; ++j) total += dy[at(j)] * y[at(j)];
    for (Index j = 0; j < seen; ++j) dx[at(j)] = y[at(j)] * (dy[at(j)] - total);
  }
  return dx;
}

Tensor softmax_of(const ConstView& x, const Visible& visible = {}) {
  Tensor y(x.shape(), x.dtype());
  kernels::softmax(y, x, visible);
  return y;
}

std::vector<double> softmax_of(const Nested& numbers) { return values(softmax_of(tensor(numbers))); }

}  // namespace

TEST_CASE("softmax: the definition, for every width, whole and causal") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index columns = 1; columns <= 70; ++columns)
      for (const Visible& visible :
           {Visible{}, Visible::causal(5, columns), Visible{false, 0}, Visible{false, -2}}) {
        const Tensor x = random({5, columns}, dtype, 1, -4, 4), dy = random({5, columns}, dtype, 2);
        Tensor dx({5, columns}, dtype);
        const Tensor y = softmax_of(x, visible);
        kernels::softmax_backward(dx, dy, y, visible);
        check_close(y, reference(values(x), 5, columns, visible), tolerance(dtype));
        check_close(dx, reference_backward(values(dy), values(y), 5, columns, visible), tolerance(dtype),
                    0.1 * tolerance(dtype));
      }
}

TEST_CASE("softmax: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index columns : {1, 15, 16, 17, 33, 64, 1023, 1025, 2100})
      for (bool all : {true, false}) {
        const Visible visible = all ? Visible{} : Visible{false, columns / 2};
        const Tensor x = random({2, 3, 9, columns}, dtype, 3, -5, 5),
                     dy = random({2, 3, 9, columns}, dtype, 4);
        const Tensor expected = on_every_row([&] {
          const Tensor y = softmax_of(x, visible);
          Tensor dx(x.shape(), dtype);
          kernels::softmax_backward(dx, dy, y, visible);
          return joined({&y, &dx});
        });
        for (int layout = kSanitized ? kLayouts - 1 : 0; layout < kLayouts; ++layout) {
          const Arranged to = arrange(Tensor(x.shape(), dtype), layout);
          kernels::softmax(to.view, arrange(x, (layout + 1) % kLayouts).view, visible);
          const Tensor y = Tensor::copy_of(to.view);
          kernels::softmax_backward(to.view, arrange(dy, (layout + 2) % kLayouts).view,
                                    arrange(y, layout).view, visible);
          const Tensor dx = Tensor::copy_of(to.view);
          INFO(to.name);
          CHECK(same_bits(joined({&y, &dx}), expected));
        }
      }
}

TEST_CASE("softmax: an output can accumulate, and can be its own input") {
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Tensor x = random({4, 37}, f32, 5), start = random({4, 37}, f32, 6);
    const Tensor y = softmax_of(x, Visible{false, 9});
    Tensor expected(x.shape()), dx(x.shape());
    kernels::add(expected, start, y);
    const Arranged sum = arrange(start, layout);
    kernels::softmax(Out(sum.view, true), x, Visible{false, 9});
    CHECK(same_bits(sum.view, expected));

    kernels::softmax_backward(dx, x, y, Visible{false, 9});
    kernels::add(expected, start, dx);
    const Arranged gradient = arrange(start, layout);
    kernels::softmax_backward(Out(gradient.view, true), x, y, Visible{false, 9});
    CHECK(same_bits(gradient.view, expected));

    const Arranged in_place = arrange(x, layout);
    kernels::softmax(in_place.view, in_place.view, Visible{false, 9});
    CHECK(same_bits(in_place.view, y));
  }
}

TEST_CASE("softmax: huge logits") {
  CHECK(softmax_of({10000, 9999})[0] == doctest::Approx(0.731058579));
  CHECK(softmax_of({10000, 9999})[1] == doctest::Approx(0.268941421));
  CHECK(softmax_of({3e38, -3e38}) == std::vector<double>{1, 0});
  for (double p : softmax_of({-3e38, -3e38, -3e38})) CHECK(p == doctest::Approx(1.0 / 3));
  CHECK(softmax_of({0}) == std::vector<double>{1});
  for (double p : softmax_of({kInf, 0})) CHECK(std::isnan(p));
}

TEST_CASE("softmax: -inf masks") {
  CHECK(softmax_of({-kInf, 0}) == std::vector<double>{0, 1});
  CHECK(softmax_of({-kInf, -kInf, -kInf}) == std::vector<double>{0, 0, 0});
  const Tensor y = tensor({0, 0}), dy = tensor({5, 7});
  Tensor dx = ones({2});
  kernels::softmax_backward(dx, dy, y);
  CHECK(values(dx) == std::vector<double>{0, 0});
}

TEST_CASE("softmax: NaN anywhere makes its row NaN, and no other") {
  for (const std::string& name : supported_rows()) {
    set_row(name);
    for (Index n : {1, 7, 8, 9, 15, 16, 17, 33, 64, 1030})
      for (Index position = 0; position<n; position += n> 64 ? 103 : 1) {
        Tensor x({3, n});
        for (Index j = 0; j < n; ++j) x.set({1, j}, j == position ? kNan : static_cast<double>(j));
        const Tensor y = softmax_of(x);
        for (Index j = 0; j < n; ++j) {
          CHECK(std::isnan(y.at({1, j})));
          CHECK_FALSE(std::isnan(y.at({0, j})));
          CHECK_FALSE(std::isnan(y.at({2, j})));
        }
      }
  }
  set_row(supported_rows().front());
  for (double p : softmax_of({kNan, -kInf})) CHECK(std::isnan(p));
}

TEST_CASE("softmax: what a row does not see is never read") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index n : {3, 16, 40}) {
      const Visible causal = Visible::causal(n, n);
      const Tensor clean = random({2, n, n}, dtype, 7), clean_dy = random({2, n, n}, dtype, 8);
      Tensor x = clean.clone(), dy = clean_dy.clone(), dirty_y = softmax_of(clean, causal),
             dx({2, n, n}, dtype);
      const Tensor y = softmax_of(clean, causal);
      kernels::softmax_backward(dx, clean_dy, y, causal);
      for (Index b = 0; b < 2; ++b)
        for (Index i = 0; i < n; ++i)
          for (Index j = i + 1; j < n; ++j) {
            x.set({b, i, j}, j % 2 ? kNan : kInf);
            dy.set({b, i, j}, kNan);
            dirty_y.set({b, i, j}, kNan);
            CHECK(y.at({b, i, j}) == 0);
            CHECK(dx.at({b, i, j}) == 0);
          }
      CHECK(same_bits(softmax_of(x, causal), y));
      Tensor dirty_dx = full({2, n, n}, 3, dtype);
      kernels::softmax_backward(dirty_dx, dy, dirty_y, causal);
      CHECK(same_bits(dirty_dx, dx));
      kernels::softmax_backward(Out(dirty_dx.view(), true), dy, dirty_y, causal);
      CHECK(dirty_dx.at({0, 0, n - 1}) == 0);
    }
}

TEST_CASE("softmax: causal is the same, bit for bit, as -inf above the diagonal") {
  const Tensor x = random({40, 40}, f32, 9, -9, 9);
  Tensor masked = x.clone();
  for (Index i = 0; i < 40; ++i)
    for (Index j = i + 1; j < 40; ++j) masked.set({i, j}, -kInf);
  CHECK(same_bits(softmax_of(x, Visible::causal(40, 40)), softmax_of(masked)));
}

TEST_CASE("softmax: forward and reverse derivatives agree") {
  for (bool all : {true, false}) {
    const Visible visible = all ? Visible{} : Visible{false, 3};
    const Tensor x = random({6, 21}, DType::dual, 10, -3, 3), seed = random({6, 21}, DType::dual, 11);
    const Tensor y = softmax_of(x, visible), y64 = softmax_of(values_of(x), visible),
                 seed64 = values_of(seed);
    Tensor dx({6, 21}, DType::dual), dx64({6, 21}, f64);
    kernels::softmax_backward(dx64, seed64, y64, visible);
    CHECK(same_bits(values_of(y), y64));
    CHECK(dot(tangents_of(y), seed64) == doctest::Approx(dot(dx64, tangents_of(x))).epsilon(1e-12));

    // The derivative of the backward kernel itself, against central differences.
    kernels::softmax_backward(dx, seed, y, visible);
    const double h = 1e-6;
    std::vector<double> difference;
    Tensor results[2] = {Tensor({6, 21}, f64), Tensor({6, 21}, f64)};
    for (int side = 0; side < 2; ++side) {
      Tensor moved_x = values_of(x), moved_seed = values_of(seed);
      const double step = side == 0 ? h : -h;
      for (std::size_t i = 0; i < 6 * 21; ++i) {
        moved_x.data<double>()[i] += step * tangents(x)[i];
        moved_seed.data<double>()[i] += step * tangents(seed)[i];
      }
      kernels::softmax_backward(results[side], moved_seed, softmax_of(moved_x, visible), visible);
    }
    for (std::size_t i = 0; i < 6 * 21; ++i)
      difference.push_back((values(results[0])[i] - values(results[1])[i]) / (2 * h));
    check_close(tangents_of(dx), difference, 1e-6, 1e-8);
  }
}

TEST_CASE("softmax: nothing to do, and what is refused") {
  softmax_of(Tensor({0, 4}));
  softmax_of(Tensor({4, 0}));
  kernels::softmax(Out(), Tensor({3}));
  Tensor y({2, 3}), f64_y({2, 3}, f64), wrong({3, 2}), scalar((Shape()));
  const Tensor x({2, 3});
  CHECK_THROWS_WITH_AS(kernels::softmax(wrong, x), "softmax: shapes [3, 2] and [2, 3] differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::softmax(f64_y, x), "softmax: element types f64 and f32 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::softmax(scalar, scalar), "softmax: [] has no row", std::invalid_argument);
  Tensor line({3}), ids({2, 3}, i32);
  CHECK_THROWS_WITH_AS(kernels::softmax(line, line, Visible{false, 0}),
                       "softmax: [3] has no rows and columns to be causal over", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::softmax(ids, ids), "softmax: i32 has no arithmetic", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::softmax_backward(y, x, wrong),
                       "softmax_backward: shapes [2, 3] and [3, 2] differ", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::softmax_backward(y, f64_y, x),
                       "softmax_backward: element types f32 and f64 differ", std::invalid_argument);
}
