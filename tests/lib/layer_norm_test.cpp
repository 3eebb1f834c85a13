// Layer normalisation against its definition in double, over layouts, instruction sets and threads.
#include "attune/lib/kernels/layer_norm.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

constexpr double kEpsilon = 1e-5;

struct Normed {
  Tensor y, statistics;
};

Shape with_last(const Shape& shape, Index last) {
  Shape result = shape;
  result[result.rank() - 1] = last;
  return result;
}

Normed norm_of(const ConstView& x, const ConstView& weight, const ConstView& bias,
               double epsilon = kEpsilon) {
  Normed result{Tensor(x.shape(), x.dtype()), Tensor(with_last(x.shape(), 3), x.dtype())};
  kernels::layer_norm(result.y, result.statistics, x, weight, bias, epsilon);
  return result;
}

struct Gradients {
  Tensor dx, dweight, dbias;
};

Gradients gradients_of(const ConstView& dy, const ConstView& x, const ConstView& weight,
                       const ConstView& statistics) {
  Gradients result{Tensor(x.shape(), x.dtype()), Tensor(weight.shape(), x.dtype()),
                   Tensor(weight.shape(), x.dtype())};
  kernels::layer_norm_backward(result.dx, result.dweight, result.dbias, dy, x, weight, statistics);
  return result;
}

// The definition, two passes in double.
struct Reference {
  std::vector<double> y, dx, dweight, dbias;

  Reference(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
            const std::vector<double>& dy, double epsilon = kEpsilon)
      : y(x.size()), dx(x.size()), dweight(w.size()), dbias(w.size()) {
    const std::size_t width = w.size();
    const auto n = static_cast<double>(width);
    for (std::size_t row = 0; row < x.size(); row += width) {
      double mean = 0, variance = 0, mean_g = 0, mean_gn = 0;
      for (std::size_t j = 0; j < width; ++j) mean += x[row + j] / n;
      for (std::size_t j = 0; j < width; ++j) variance += (x[row + j] - mean) * (x[row + j] - mean) / n;
      const double deviation = std::sqrt(variance + epsilon);
      const auto normal = [&](std::size_t j) { return (x[row + j] - mean) / deviation; };
      for (std::size_t j = 0; j < width; ++j) {
        y[row + j] = normal(j) * w[j] + b[j];
        mean_g += dy[row + j] * w[j] / n;
        mean_gn += dy[row + j] * w[j] * normal(j) / n;
        dweight[j] += dy[row + j] * normal(j);
        dbias[j] += dy[row + j];
      }
      for (std::size_t j = 0; j < width; ++j)
        dx[row + j] = (dy[row + j] * w[j] - mean_g - normal(j) * mean_gn) / deviation;
    }
  }
};

}  // namespace

TEST_CASE("layer_norm: the definition, for every width") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width = 1; width <= 70; ++width) {
      const Tensor x = random({7, width}, dtype, 1, -2, 5), dy = random({7, width}, dtype, 2);
      const Tensor weight = random({width}, dtype, 3), bias = random({width}, dtype, 4);
      const Normed normed = norm_of(x, weight, bias);
      const Gradients gradients = gradients_of(dy, x, weight, normed.statistics);
      const Reference expected(values(x), values(weight), values(bias), values(dy));
      // With two elements a row is +1 and -1 whatever it was, and dx almost cancels: the error is that of its
      // terms.
      const double near = tolerance(dtype);
      check_close(normed.y, expected.y, near, near);
      check_close(gradients.dx, expected.dx, near, (width == 2 ? 100 : 1) * near);
      check_close(gradients.dweight, expected.dweight, near, near);
      check_close(gradients.dbias, expected.dbias, near, near);
    }
}

TEST_CASE("layer_norm: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 17, 64, 130, 1025, 2100}) {
      const Shape shape{3, 47, width};
      const Tensor x = random(shape, dtype, 5), dy = random(shape, dtype, 6);
      const Tensor weight = random({width}, dtype, 7), bias = random({width}, dtype, 8);
      const Tensor expected = on_every_row([&] {
        const Normed normed = norm_of(x, weight, bias);
        const Gradients g = gradients_of(dy, x, weight, normed.statistics);
        return joined({&normed.y, &normed.statistics, &g.dx, &g.dweight, &g.dbias});
      });
      const Normed normed = norm_of(x, weight, bias);
      for (int layout = 0; layout < kLayouts; ++layout) {
        const auto like = [&](const Shape& of) { return arrange(Tensor(of, dtype), layout); };
        const int other = (layout + 1) % kLayouts;
        const Arranged y = like(shape), statistics = like(with_last(shape, 3)), dx = like(shape);
        const Arranged dweight = like({width}), dbias = like({width});
        const Arranged w = arrange(weight, other), b = arrange(bias, other);
        kernels::layer_norm(y.view, statistics.view, arrange(x, other).view, w.view, b.view, kEpsilon);
        kernels::layer_norm_backward(dx.view, dweight.view, dbias.view, arrange(dy, layout).view,
                                     arrange(x, other).view, w.view, arrange(normed.statistics, other).view);
        const Tensor results[] = {Tensor::copy_of(y.view), Tensor::copy_of(statistics.view),
                                  Tensor::copy_of(dx.view), Tensor::copy_of(dweight.view),
                                  Tensor::copy_of(dbias.view)};
        INFO(y.name);
        CHECK(same_bits(joined({&results[0], &results[1], &results[2], &results[3], &results[4]}), expected));
      }
    }
}

TEST_CASE("layer_norm: gradients accumulate, and may be unwanted") {
  const Tensor x = random({100, 35}, f32, 9), dy = random({100, 35}, f32, 10), weight = random({35}, f32, 11);
  const Normed normed = norm_of(x, weight, weight);
  const Gradients fresh = gradients_of(dy, x, weight, normed.statistics);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged dx = arrange(x, layout), dweight = arrange(weight, layout),
                   dbias = arrange(weight, layout);
    kernels::layer_norm_backward(Out(dx.view, true), Out(), Out(), dy, x, weight, normed.statistics);
    kernels::layer_norm_backward(Out(), Out(dweight.view, true), Out(), dy, x, weight, normed.statistics);
    kernels::layer_norm_backward(Out(), Out(), Out(dbias.view, true), dy, x, weight, normed.statistics);
    const auto sum = [](const Tensor& a, const Tensor& b) {
      Tensor result(a.shape());
      kernels::add(result, a, b);
      return result;
    };
    CHECK(same_bits(dx.view, sum(x, fresh.dx)));
    CHECK(same_bits(dweight.view, sum(weight, fresh.dweight)));
    CHECK(same_bits(dbias.view, sum(weight, fresh.dbias)));
  }
  Tensor in_place = x.clone(), gradient = dy.clone(), added = x.clone();
  kernels::layer_norm(in_place, Out(), in_place, weight, weight, kEpsilon);
  CHECK(same_bits(in_place, normed.y));
  kernels::layer_norm_backward(gradient, Out(), Out(), gradient, x, weight, normed.statistics);
  CHECK(same_bits(gradient, fresh.dx));
  kernels::layer_norm(Out(added.view(), true), Out(), x, weight, weight, kEpsilon);
  Tensor expected(x.shape());
  kernels::add(expected, x, normed.y);
  CHECK(same_bits(added, expected));
}

TEST_CASE("layer_norm: a large mean does not eat the variance") {
  const Tensor one = ones({4}), none = zeros({4});
  check_close(norm_of(tensor({40000, 40001, 40002, 40003}), one, none).y,
              {-1.341635420, -0.447211807, 0.447211807, 1.341635420}, 1e-5);
  Tensor ramp({8});
  for (Index i = 0; i < 8; ++i) ramp.set({i}, 10000 + 0.25 * static_cast<double>(i));
  check_close(norm_of(ramp, ones({8}), zeros({8})).y,
              {-1.527501956, -1.091072825, -0.654643695, -0.218214565, 0.218214565, 0.654643695, 1.091072825,
               1.527501956},
              1e-5);
  for (double constant : {1234.0, 0.1, 1e-20, -3e30})
    check_close(norm_of(full({256}, constant), ones({256}), zeros({256})).y, std::vector<double>(256, 0.0),
                0);

  // Mean 1e4, deviation 1e-2: ten units in the last place of an f32.
  Tensor narrow({3, 700});
  std::uint64_t state = 12;
  for (float& x : narrow.data<float>())
    x = static_cast<float>(1e4 + 1e-2 * std::sqrt(3.0) * (2 * next_random(state) - 1));
  const Tensor dy = random({3, 700}, f32, 13), weight = random({700}, f32, 14, 0.5, 1.5), bias = zeros({700});
  const Normed normed = norm_of(narrow, weight, bias);
  const Gradients gradients = gradients_of(dy, narrow, weight, normed.statistics);
  const Reference expected(values(narrow), values(weight), values(bias), values(dy));
  check_close(normed.y, expected.y, 1e-5, 1e-6);
  check_close(gradients.dx, expected.dx, 1e-3, 1e-3);
  check_close(gradients.dweight, expected.dweight, 1e-3, 1e-5);
  check_close(gradients.dbias, expected.dbias, 1e-3, 1e-5);
}

TEST_CASE("layer_norm: NaN and infinity stay in their row") {
  for (double bad : {kNan, kInf})
    for (Index position : {0, 16, 18}) {
      Tensor x = random({3, 19}, f32, 15);
      x.set({1, position}, bad);
      const Tensor y = norm_of(x, ones({19}), zeros({19})).y;
      for (Index j = 0; j < 19; ++j) {
        CHECK(std::isnan(y.at({1, j})));
        CHECK(std::isfinite(y.at({0, j})));
        CHECK(std::isfinite(y.at({2, j})));
      }
    }
}

TEST_CASE("layer_norm: forward and reverse derivatives agree") {
  const Index width = 37;
  const Tensor x = random({70, width}, DType::dual, 16), weight = random({width}, DType::dual, 17);
  const Tensor bias = random({width}, DType::dual, 18), dy = random({70, width}, DType::dual, 19);
  const Normed normed = norm_of(x, weight, bias);
  const Tensor x64 = values_of(x), weight64 = values_of(weight), bias64 = values_of(bias),
               dy64 = values_of(dy);
  const Normed normed64 = norm_of(x64, weight64, bias64);
  const Gradients g = gradients_of(dy64, x64, weight64, normed64.statistics);
  const double reverse =
      dot(g.dx, tangents_of(x)) + dot(g.dweight, tangents_of(weight)) + dot(g.dbias, tangents_of(bias));
  CHECK(dot(tangents_of(normed.y), dy64) == doctest::Approx(reverse).epsilon(1e-12));

  const Gradients duals = gradients_of(dy, x, weight, normed.statistics);
  const auto moved = [](const Tensor& a, double step) {
    Tensor result = values_of(a);
    const std::vector<double> direction = tangents(a);
    for (std::size_t i = 0; i < direction.size(); ++i) result.data<double>()[i] += step * direction[i];
    return result;
  };
  const double h = 1e-6;
  Tensor sides[2];
  for (int side = 0; side < 2; ++side) {
    const double step = side == 0 ? h : -h;
    const Tensor to_x = moved(x, step), to_weight = moved(weight, step);
    const Gradients at =
        gradients_of(moved(dy, step), to_x, to_weight, norm_of(to_x, to_weight, bias64).statistics);
    sides[side] = joined({&at.dx, &at.dweight, &at.dbias});
  }
  std::vector<double> difference;
  for (std::size_t i = 0; i < values(sides[0]).size(); ++i)
    difference.push_back((sides[0].data<double>()[i] - sides[1].data<double>()[i]) / (2 * h));
  check_close(tangents_of(joined({&duals.dx, &duals.dweight, &duals.dbias})), difference, 1e-6, 1e-7);
}

TEST_CASE("layer_norm: no rows, and what is refused") {
  Tensor dweight = ones({4}), dbias = ones({4});
  const Tensor empty({0, 4}), statistics({0, 3});
  kernels::layer_norm_backward(Out(), dweight, dbias, empty, empty, ones({4}), statistics);
  CHECK(values(dweight) == std::vector<double>(4, 0.0));
  CHECK(values(dbias) == std::vector<double>(4, 0.0));
  kernels::layer_norm(Out(), Out(), empty, ones({4}), ones({4}), 0);

  Tensor y({2, 3}), saved({2, 3}), wrong({3, 2}), x64({2, 3}, f64), ids({2, 3}, i32);
  const Tensor x({2, 3}), w({3}), w4({4}), w64({3}, f64);
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  refused("layer_norm: i32 has no arithmetic", [&] { kernels::layer_norm(ids, Out(), ids, w, w, 0); });
  refused("layer_norm: [2, 0] has no elements along a last axis", [&] {
    Tensor none({2, 0});
    kernels::layer_norm(none, Out(), none, Tensor(), Tensor(), 0);
  });
  refused("layer_norm: shapes [3, 2] and [2, 3] differ",
          [&] { kernels::layer_norm(wrong, saved, x, w, w, 0); });
  refused("layer_norm: a weight of [4] does not fit rows of [2, 3]",
          [&] { kernels::layer_norm(y, saved, x, w4, w4, 0); });
  refused("layer_norm: a weight of [3] and a bias of [4] differ",
          [&] { kernels::layer_norm(y, saved, x, w, w4, 0); });
  refused("layer_norm: an epsilon of -1 is negative", [&] { kernels::layer_norm(y, saved, x, w, w, -1); });
  refused("layer_norm: element types f32 and f64 differ",
          [&] { kernels::layer_norm(y, saved, x, w64, w, 0); });
  refused("layer_norm: statistics of [3, 2] do not fit [2, 3]: [2, 3] would",
          [&] { kernels::layer_norm(y, wrong, x, w, w, 0); });
  refused("layer_norm: statistics cannot accumulate",
          [&] { kernels::layer_norm(y, Out(saved.view(), true), x, w, w, 0); });
  refused("layer_norm_backward: shapes [3, 2] and [2, 3] differ",
          [&] { kernels::layer_norm_backward(y, Out(), Out(), wrong, x, w, saved); });
  refused("layer_norm_backward: shapes [3, 2] and [2, 3] differ",
          [&] { kernels::layer_norm_backward(wrong, Out(), Out(), x, x, w, saved); });
  refused("layer_norm_backward: element types f32 and f64 differ",
          [&] { kernels::layer_norm_backward(y, Out(), Out(), x64, x, w, saved); });
  refused("layer_norm_backward: a dweight of [4] for parameters of [3]",
          [&] { kernels::layer_norm_backward(Out(), dweight, Out(), x, x, w, saved); });
  refused("layer_norm_backward: a dbias of [4] for parameters of [3]",
          [&] { kernels::layer_norm_backward(Out(), Out(), dbias, x, x, w, saved); });
}
