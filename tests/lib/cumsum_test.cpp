// Running sums, over layouts, instruction sets and threads.
#include "attune/lib/kernels/cumsum.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;
using kernels::Direction;

TEST_CASE("cumsum: the definition, in both directions, the same bits on every row and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 2, 17, 1030}) {
      const Tensor x = random({3, 40, width}, dtype, 1);
      const Tensor result = on_every_row([&] {
        Tensor forwards(x.shape(), dtype), backwards(x.shape(), dtype);
        kernels::cumsum(forwards, x);
        kernels::cumsum(backwards, x, Direction::backwards);
        return joined({&forwards, &backwards});
      });
      double forwards = 0, backwards = 0;
      for (Index i = 0; i < width; ++i) {
        forwards += x.at({0, 0, i});
        backwards += x.at({0, 0, width - 1 - i});
        CHECK(result.at({i}) == doctest::Approx(forwards).epsilon(tolerance(dtype)));
        CHECK(result.at({x.count() + width - 1 - i}) == doctest::Approx(backwards).epsilon(tolerance(dtype)));
      }
      for (int layout = 0; layout < kLayouts; ++layout) {
        const Arranged from = arrange(x, layout),
                       to = arrange(Tensor(x.shape(), dtype), (layout + 1) % kLayouts);
        kernels::cumsum(to.view, from.view);
        CHECK(same_bits(to.view, result.view().slice(0, 0, x.count()).reshape(x.shape())));
        kernels::cumsum(from.view, from.view);  // in place
        CHECK(same_bits(from.view, to.view));
      }
    }
}

TEST_CASE("cumsum: an output can accumulate") {
  const Tensor x = random({4, 37}, f32, 2), start = random({4, 37}, f32, 3);
  Tensor y(x.shape()), expected(x.shape());
  kernels::cumsum(y, x);
  kernels::add(expected, start, y);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged sum = arrange(start, layout);
    kernels::cumsum(Out(sum.view, true), x);
    CHECK(same_bits(sum.view, expected));
  }
}

TEST_CASE("cumsum: nothing to do, and what is refused") {
  Tensor nothing({2, 0}), y({2, 3});
  kernels::cumsum(nothing, nothing);
  kernels::cumsum(Out(), y);
  CHECK_THROWS_WITH_AS(kernels::cumsum(y, Tensor({3, 2})), "cumsum: shapes [2, 3] and [3, 2] differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::cumsum(y, tensor(1)), "cumsum: [] has no row", std::invalid_argument);
}
