// Initialisers: their spread, by name.
#include "attune/layers/initialize.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Sampled {
  double mean, deviation, largest;
};
Sampled spread(const Init& init) {
  Rng rng(3);
  const std::vector<double> all = values(init(300, 500, rng).value());
  Sampled result{};
  const auto count = static_cast<double>(all.size());
  for (const double x : all) {
    result.mean += x / count;
    result.largest = std::max(result.largest, std::abs(x));
  }
  for (const double x : all) result.deviation += (x - result.mean) * (x - result.mean) / count;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

}  // namespace

TEST_CASE("init: each rule has the deviation that its paper gives it, around 0") {
  const std::vector<std::pair<Init, double>> rules = {{Init::normal(0.02), 0.02},
                                                      {Init::uniform(0.3), 0.3 / std::sqrt(3.0)},
                                                      {Init::lecun_normal(), 1 / std::sqrt(300.0)},
                                                      {Init::xavier_normal(), std::sqrt(2.0 / 800)},
                                                      {Init::xavier_uniform(), std::sqrt(2.0 / 800)},
                                                      {Init::he_normal(), std::sqrt(2.0 / 300)},
                                                      {Init::he_uniform(), std::sqrt(2.0 / 300)},
                                                      {Init::residual(0.02, 8), 0.005}};
  for (const auto& [init, expected] : rules) {
    const Sampled found = spread(init);
    CHECK(found.deviation == doctest::Approx(expected).epsilon(0.01));
    CHECK(std::abs(found.mean) < 0.01 * expected);
    CHECK(init.deviation(300, 500) == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("init: uniform rules stay within their limit, and normal ones go beyond") {
  CHECK(spread(Init::uniform(0.3)).largest <= 0.3f);
  CHECK(spread(Init::xavier_uniform()).largest <= std::sqrt(6.0 / 800) * (1 + 1e-6));
  CHECK(spread(Init::he_uniform()).largest <= std::sqrt(6.0 / 300) * (1 + 1e-6));
  CHECK(spread(Init::normal(0.1)).largest > 0.3);
  CHECK(spread(Init::zeros()).largest == 0);
}

TEST_CASE("init: a seed gives the same bits, and a spread that is none is refused") {
  Rng first(1), second(1), third(2);
  const Init init = Init::xavier_uniform();
  const Parameter a = init(4, 5, first), b = init(4, 5, second), c = init(4, 5, third);
  CHECK(same_bits(a.value(), b.value()));
  CHECK_FALSE(same_bits(a.value(), c.value()));
  CHECK_THROWS_WITH_AS(Init::normal(-1), "init: a spread of -1 is none", std::invalid_argument);
  CHECK_THROWS_WITH_AS(Init::uniform(kInf), "init: a spread of inf is none", std::invalid_argument);
}
