// The largest and smallest of rows, and where they stand, over layouts, instruction sets and threads.
#include "attune/lib/kernels/extremes.h"

#include <algorithm>

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Results {
  Tensor max, min, argmax, argmin, gradient;
};

Results results_of(const ConstView& x, const ConstView& dy) {
  const Shape rows(std::span(x.shape().begin(), x.shape().end() - 1));
  Results r{Tensor(rows, x.dtype()), Tensor(rows, x.dtype()), Tensor(rows, i32), Tensor(rows, i32),
            Tensor(x.shape(), x.dtype())};
  kernels::max(r.max, x);
  kernels::min(r.min, x);
  kernels::argmax(r.argmax, x);
  kernels::argmin(r.argmin, x);
  kernels::extreme_backward(r.gradient, dy, x, r.max);
  return r;
}

// Few different numbers, so that the largest comes up several times.
Tensor with_ties(const Shape& shape, DType dtype) {
  Tensor whole = random(shape, i32, 1, -4, 5);
  return whole.to(dtype);
}

}  // namespace

TEST_CASE("extremes: the definition, for every width") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width = 1; width <= 70; ++width) {
      const Tensor x = with_ties({5, width}, dtype), dy = random({5}, dtype, 2);
      const Results found = results_of(x, dy);
      for (Index i = 0; i < 5; ++i) {
        const std::vector<double> row = values(x.view().select(0, i)),
                                  share = values(found.gradient.view().select(0, i));
        const auto largest = std::max_element(row.begin(), row.end()),
                   smallest = std::min_element(row.begin(), row.end());
        CHECK(found.max.at({i}) == *largest);
        CHECK(found.min.at({i}) == *smallest);
        CHECK(found.argmax.at({i}) == static_cast<double>(largest - row.begin()));
        CHECK(found.argmin.at({i}) == static_cast<double>(smallest - row.begin()));
        const auto equal = static_cast<double>(std::count(row.begin(), row.end(), *largest));
        for (std::size_t j = 0; j < row.size(); ++j)
          CHECK(share[j] == doctest::Approx(row[j] == *largest ? dy.at({i}) / equal : 0).epsilon(1e-6));
      }
    }
}

TEST_CASE("extremes: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 15, 16, 17, 1025, 2100}) {
      const Tensor x = with_ties({2, 60, width}, dtype), dy = random({2, 60}, dtype, 3);
      const auto all = [&](const ConstView& from, const ConstView& above) {
        const Results r = results_of(from, above);
        const Tensor first = r.argmax.to(f64), last = r.argmin.to(f64);
        const Tensor places[] = {first.to(dtype), last.to(dtype)};
        return joined({&r.max, &r.min, &places[0], &places[1], &r.gradient});
      };
      const Tensor expected = on_every_row([&] { return all(x, dy); });
      for (int layout = 0; layout < kLayouts; ++layout)
        CHECK(same_bits(all(arrange(x, layout).view, arrange(dy, layout).view), expected));
    }
}

TEST_CASE("extremes: a gradient can accumulate") {
  const Tensor x = with_ties({4, 37}, f32), dy = random({4}, f32, 4), start = random({4, 37}, f32, 5);
  const Results found = results_of(x, dy);
  Tensor expected(x.shape());
  kernels::add(expected, start, found.gradient);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged sum = arrange(start, layout);
    kernels::extreme_backward(Out(sum.view, true), dy, x, found.max);
    CHECK(same_bits(sum.view, expected));
  }
}

TEST_CASE("extremes: what is refused") {
  Tensor y({2}), matrix({2, 3}), places({2}, i32);
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  refused("max: i32 has no arithmetic", [&] { kernels::max(places, Tensor({2, 3}, i32)); });
  refused("max: [] has no row", [&] { kernels::max(y, tensor(1)); });
  refused("max: [2] are not the rows of [3, 3]", [&] { kernels::max(y, Tensor({3, 3})); });
  refused("max: element types f32 and i32 differ", [&] { kernels::max(places, matrix); });
  refused("argmin: element types i32 and f32 differ", [&] { kernels::argmin(y, matrix); });
  refused("min: the result cannot accumulate", [&] { kernels::min(Out(y.view(), true), matrix); });
  refused("min: [2, 0] has rows without an element", [&] { kernels::min(y, Tensor({2, 0})); });
  refused("extreme_backward: shapes [2] and [2, 3] differ",
          [&] { kernels::extreme_backward(y, y, matrix, y); });
}
