// Dropout's factors: which elements are dropped, how many, and on every row and thread alike.
#include "attune/lib/kernels/dropout.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Tensor factors_of(const Shape& shape, DType dtype, double p, const Rng& stream) {
  Tensor y(shape, dtype);
  kernels::dropout_factors(y.view(), kernels::dropout_mask(stream, p));
  return y;
}

}  // namespace

TEST_CASE("dropout: element e is the e % 4-th word at position e / 4 of its stream") {
  const Rng stream(7, 8, 9);
  const Tensor factors = factors_of({3, 7}, f64, 0.25, stream);
  for (Index e = 0; e < 21; ++e) {
    const std::uint32_t word = philox_at(7, 8, 9 + static_cast<std::uint64_t>(e) / 4).word[e % 4];
    CHECK(factors.at({e / 7, e % 7}) == (word < 0x40000000u ? 0 : 1 / 0.75));
  }
}

TEST_CASE("dropout: an element's factor depends neither on how many there are nor on the element type") {
  const Rng stream(1);
  const std::vector<double> all = values(factors_of({5000}, f64, 0.5, stream));
  for (DType dtype : {f32, f64, DType::dual})
    for (Index n : {0, 1, 15, 16, 17, 4095, 4096, 4097}) {
      const std::vector<double> few = values(factors_of({n}, dtype, 0.5, stream));
      CHECK(std::equal(few.begin(), few.end(), all.begin()));
    }
}

TEST_CASE("dropout: the share that is dropped, and the mean that stays") {
  for (double p : {0.1, 0.5, 0.9}) {
    const std::vector<double> factors = values(factors_of({100000}, f64, p, Rng(3)));
    double dropped = 0, sum = 0;
    for (double factor : factors) {
      dropped += factor == 0;
      sum += factor;
    }
    CHECK(dropped / 1e5 == doctest::Approx(p).epsilon(0.02));
    CHECK(sum / 1e5 == doctest::Approx(1).epsilon(0.02));
  }
  CHECK(values(factors_of({100}, f32, 0, Rng(3))) == std::vector<double>(100, 1));
  CHECK(values(factors_of({100}, f32, 1, Rng(3))) == std::vector<double>(100, 0));
}

TEST_CASE("dropout: the same bits on every row, for any number of threads") {
  for (DType dtype : {f32, f64, DType::dual})
    on_every_row([&] { return factors_of({7, 30011}, dtype, 0.3, Rng(5, 6)); });
}

TEST_CASE("dropout: errors") {
  CHECK_THROWS_WITH_AS(kernels::dropout_mask(Rng(1), 1.5), "dropout: a share of 1.5 is not between 0 and 1",
                       std::invalid_argument);
  Tensor ids({2, 3}, i32), square({2, 2});
  const kernels::DropoutMask mask = kernels::dropout_mask(Rng(1), 0.5);
  CHECK_THROWS_WITH_AS(kernels::dropout_factors(ids.view(), mask),
                       "dropout: factors of i32 [2, 3] need contiguous floating-point memory", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::dropout_factors(square.view().t(), mask),
                       "dropout: factors of f32 [2, 2] need contiguous floating-point memory", std::invalid_argument);
}
