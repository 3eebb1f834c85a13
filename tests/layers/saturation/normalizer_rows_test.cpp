// Rows of other normalizers: their Jacobians against unit vectors pushed through, and how often they are
// one-hot.
#include "attune/layers/saturation/normalizer_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attune/lib/random.h"

using namespace attune;

namespace {

constexpr Normalizer kOthers[] = {Normalizer::softmax, Normalizer::sigmoid, Normalizer::sparsemax,
                                  Normalizer::entmax15};

std::vector<double> random_scores(double sigma, std::size_t n, Rng& rng) {
  std::vector<double> scores(n);
  for (double& s : scores) s = sigma * rng.normal();
  return scores;
}

}  // namespace

TEST_CASE(
    "normalizer rows: norms of the Jacobian are those of its columns, which are differences of weights") {
  Rng rng(1);
  for (const Normalizer normalizer : kOthers)
    for (const double sigma : {0.3, 1.0, 3.0}) {
      CAPTURE(name_of(normalizer));
      CAPTURE(sigma);
      std::vector<double> scores = random_scores(sigma, 6, rng), weights(6), other(6), unit(6), column(6);
      const RowStatistics row = row_statistics(scores, normalizer, weights);
      double trace = 0, squares = 0, sum = 0, largest = 0;
      std::vector<double> x(6, 1), next(6);
      for (std::size_t i = 0; i < 6; ++i) {
        unit.assign(6, 0);
        unit[i] = 1;
        apply_jacobian(column, weights, unit, normalizer);
        trace += column[i];
        for (const double e : column) squares += e * e;
        for (const double side : {1.0, -1.0}) {
          std::vector<double> moved = scores;
          moved[i] += side * 1e-6;
          row_statistics(moved, normalizer, other);
          for (std::size_t j = 0; j < 6; ++j) column[j] -= side * other[j] / 2e-6;
        }
        for (const double e : column) CHECK(std::abs(e) < 1e-8);
        x[i] = 1 + rng.normal();
        sum += weights[i];
      }
      for (int step = 0; step < 3000; ++step) {
        apply_jacobian(next, weights, x, normalizer);
        largest = 0;
        for (const double e : next) largest += e * e;
        largest = std::sqrt(largest);
        if (largest == 0) break;
        for (std::size_t i = 0; i < 6; ++i) x[i] = next[i] / largest;
      }
      CHECK(row.trace == doctest::Approx(trace).epsilon(1e-12));
      CHECK(row.frobenius == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
      CHECK(row.spectral == doctest::Approx(largest).epsilon(1e-9));
      CHECK(row.max_weight + row.rest == doctest::Approx(sum).epsilon(1e-13));
      CHECK(row.keys == 6);
    }
}

TEST_CASE("normalizer rows: sparse rows are one-hot, and dead, as often as was measured elsewhere") {
  const struct {
    double sigma, sparsemax, entmax15;
  } table[] = {{1, .085, .002}, {2, .324, .086}, {4, .586, .319}, {8, .767, .575}};
  for (const auto& line : table) {
    CAPTURE(line.sigma);
    Rng rng(5);
    int dead_sparsemax = 0, dead_entmax15 = 0;
    double support_sparsemax = 0, support_entmax15 = 0;
    const int rows = 8000;
    std::vector<double> weights(32);
    for (int row = 0; row < rows; ++row) {
      const std::vector<double> scores = random_scores(line.sigma, 32, rng);
      const RowStatistics a = row_statistics(scores, Normalizer::sparsemax, weights);
      double support = 0;
      for (const double p : weights) support += p > 0;
      CHECK(a.frobenius == doctest::Approx(std::sqrt(support - 1)).epsilon(1e-12));
      CHECK(a.is_dead() == (support == 1));
      dead_sparsemax += a.is_dead();
      support_sparsemax += support / rows;
      const RowStatistics b = row_statistics(scores, Normalizer::entmax15, weights);
      for (const double p : weights) support_entmax15 += (p > 0) / static_cast<double>(rows);
      dead_entmax15 += b.max_weight == 1;
    }
    const auto near = [&](int dead, double expected) {
      CHECK(std::abs(dead / static_cast<double>(rows) - expected) < 4 * std::sqrt(expected / rows) + 2e-3);
    };
    near(dead_sparsemax, line.sparsemax);
    near(dead_entmax15, line.entmax15);
    if (line.sigma == 1) {
      CHECK(support_sparsemax == doctest::Approx(2.97).epsilon(0.02));
      CHECK(support_entmax15 == doctest::Approx(8.10).epsilon(0.02));
    }
  }
}

TEST_CASE("normalizer rows: hidden keys, nothing to see, and broken scores") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const Normalizer normalizer : kOthers) {
    std::vector<double> weights(3, 7);
    CHECK(row_statistics(std::vector{-inf, -inf, -inf}, normalizer, weights).keys == 0);
    CHECK(weights == std::vector<double>{0, 0, 0});
    CHECK(row_statistics(std::vector{1.0, -inf, 1.0}, normalizer, weights).participation() ==
          doctest::Approx(2));
    CHECK(weights[1] == 0);
    CHECK(std::isnan(row_statistics(std::vector{1.0, std::nan(""), 0.0}, normalizer).frobenius));
  }
  std::vector<double> y(3);
  CHECK_THROWS_WITH_AS(apply_jacobian(y, std::vector{1.0}, std::vector{1.0, 2.0}, Normalizer::sparsemax),
                       "apply_jacobian: 3 results for 1 weights and 2 numbers", std::invalid_argument);
}
