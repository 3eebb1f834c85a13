// Root-mean-square normalisation over layouts, instruction sets and threads.
#include "attune/lib/kernels/rms_norm.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Results {
  Tensor y, statistics, dx, dweight;
};

Results results_of(const ConstView& x, const ConstView& weight, const ConstView& dy) {
  Shape one_each = x.shape();
  one_each[one_each.rank() - 1] = 1;
  Results r{Tensor(x.shape(), x.dtype()), Tensor(one_each, x.dtype()), Tensor(x.shape(), x.dtype()),
            Tensor(weight.shape(), x.dtype())};
  kernels::rms_norm(r.y, r.statistics, x, weight, 1e-3);
  kernels::rms_norm_backward(r.dx, r.dweight, dy, x, weight, r.statistics);
  return r;
}

}  // namespace

TEST_CASE("rms_norm: the definition, for every width") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width = 1; width <= 70; ++width) {
      const Tensor x = random({3, width}, dtype, 1), weight = random({width}, dtype, 2),
                   dy = random({3, width}, dtype, 3);
      const Results found = results_of(x, weight, dy);
      const auto close = [&](double a, double b) {
        CHECK(std::abs(a - b) <= tolerance(dtype) * (1 + std::abs(b)));
      };
      std::vector<double> dweight(static_cast<std::size_t>(width), 0.0);
      for (Index i = 0; i < 3; ++i) {
        double square = 0, along = 0;
        for (Index j = 0; j < width; ++j) square += x.at({i, j}) * x.at({i, j}) / static_cast<double>(width);
        const double factor = 1 / std::sqrt(square + 1e-3);
        for (Index j = 0; j < width; ++j)
          along += dy.at({i, j}) * weight.at({j}) * x.at({i, j}) * factor / static_cast<double>(width);
        for (Index j = 0; j < width; ++j) {
          const double n = x.at({i, j}) * factor;
          close(found.y.at({i, j}), n * weight.at({j}));
          close(found.dx.at({i, j}), (dy.at({i, j}) * weight.at({j}) - n * along) * factor);
          dweight[static_cast<std::size_t>(j)] += dy.at({i, j}) * n;
        }
      }
      for (Index j = 0; j < width; ++j) close(found.dweight.at({j}), dweight[static_cast<std::size_t>(j)]);
    }
}

TEST_CASE("rms_norm: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 17, 1030}) {
      const Tensor x = random({3, 50, width}, dtype, 4), weight = random({width}, dtype, 5),
                   dy = random({3, 50, width}, dtype, 6);
      const auto all = [&](const ConstView& from, const ConstView& by, const ConstView& above) {
        const Results r = results_of(from, by, above);
        return joined({&r.y, &r.statistics, &r.dx, &r.dweight});
      };
      const Tensor expected = on_every_row([&] { return all(x, weight, dy); });
      for (int layout = 0; layout < kLayouts; ++layout)
        CHECK(same_bits(all(arrange(x, layout).view, arrange(weight, layout).view, arrange(dy, layout).view),
                        expected));
    }
}

TEST_CASE("rms_norm: gradients can accumulate, and each may be unwanted") {
  const Tensor x = random({70, 37}, f32, 7), weight = random({37}, f32, 8), dy = random({70, 37}, f32, 9),
               start = random({70, 37}, f32, 10);
  const Results found = results_of(x, weight, dy);
  Tensor expected(x.shape()), alone({37});
  kernels::add(expected, start, found.dx);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged sum = arrange(start, layout);
    kernels::rms_norm_backward(Out(sum.view, true), Out(), dy, x, weight, found.statistics);
    CHECK(same_bits(sum.view, expected));
  }
  kernels::rms_norm_backward(Out(), alone, dy, x, weight, found.statistics);
  CHECK(same_bits(alone, found.dweight));
  Tensor y(x.shape());
  kernels::rms_norm(y, Out(), x, weight, 1e-3);
  CHECK(same_bits(y, found.y));
}

TEST_CASE("rms_norm: what is refused") {
  Tensor y({2, 3}), weight({3}), one({2, 1});
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  refused("rms_norm: a weight of [2] does not fit rows of [2, 3]",
          [&] { kernels::rms_norm(y, one, y, Tensor({2}), 1e-6); });
  refused("rms_norm: [] has no elements along a last axis",
          [&] { kernels::rms_norm(y, Out(), tensor(1), weight, 1e-6); });
  refused("rms_norm: statistics of [2, 3] do not fit [2, 3]: [2, 1] would",
          [&] { kernels::rms_norm(y, y, y, weight, 1e-6); });
  refused("rms_norm: statistics cannot accumulate", [&] {
    kernels::rms_norm(y, Out(one.view(), true), Tensor({2, 3}), weight, 1e-6);
  });
  refused("rms_norm: an epsilon of -1 is negative", [&] {
    kernels::rms_norm(y, one, Tensor({2, 3}), weight, -1);
  });
  refused("rms_norm_backward: shapes [2] and [3] differ", [&] {
    Tensor wrong({2});
    kernels::rms_norm_backward(y, wrong, Tensor({2, 3}), Tensor({2, 3}), weight, one);
  });
}
