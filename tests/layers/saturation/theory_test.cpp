// The theory against published and independently computed tables, against its own limits and identities, and
// against rows drawn at random.
#include "attune/layers/saturation/theory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "attune/layers/saturation/monte_carlo.h"
#include "attune/lib/random.h"
#include "../../support/sanitized.h"

using namespace attune;

namespace {

// Half a unit of the last of `digits` decimals.
bool rounds_to(double exact, double printed, int digits) {
  return std::abs(exact - printed) <= 0.5000001 * std::pow(10.0, -digits);
}

constexpr Index kKeys[] = {2, 8, 32, 128, 1024};

struct LineOfTable {
  double sigma;
  double values[10];  // H / ln n and sum p² for each n
};

}  // namespace

TEST_CASE("theory: entropy and sum p² of random rows, to every digit of an independent quadrature") {
  const double root2 = std::sqrt(2.0);
  const LineOfTable table[] = {
      {0.5, {.92325, .55075, .94992, .15285, .96552, .03959, .97452, .01000, .98199, .00125}},
      {1, {.77833, .63684, .82801, .23231, .86948, .07281, .89976, .02019, .92812, .00264}},
      {root2, {.66654, .69715, .71392, .31666, .76294, .12663, .80726, .04343, .85724, .00677}},
      {2, {.54151, .75999, .57320, .42965, .61321, .22837, .65827, .10986, .72518, .02854}},
      {2 * root2, {.41961, .81763, .43098, .55242, .45052, .37003, .47769, .23978, .52990, .11206}},
      {4, {.31357, .86553, .30958, .66453, .31152, .51829, .31884, .40443, .33884, .27253}},
      {4 * root2, {.22873, .90270, .21719, .75555, .21030, .64614, .20709, .55837, .20753, .45113}},
      {8, {.16446, .93036, .15114, .82455, .14188, .74530, .13552, .68115, .12967, .60166}},
      {16, {.08331, .96485, .07331, .91133, .06624, .87111, .06109, .83844, .05561, .79777}},
      {32, {.04179, .98238, .03596, .95555, .03190, .93538, .02897, .91899, .02583, .89858}}};
  double worst = 0;
  for (const LineOfTable& line : table)
    for (int k = 0; k < 5; ++k) {
      const theory::ExpectedRow row = theory::expected_row(line.sigma, kKeys[k]);
      CAPTURE(line.sigma);
      CAPTURE(kKeys[k]);
      CHECK(rounds_to(row.normalized_entropy, line.values[2 * k], 5));
      CHECK(rounds_to(row.sum_squares, line.values[2 * k + 1], 5));
      worst = std::max({worst, std::abs(row.normalized_entropy - line.values[2 * k]),
                        std::abs(row.sum_squares - line.values[2 * k + 1])});
    }
  MESSAGE(fmt::format("worst distance from the 100 numbers of the table: {:.2g}", worst));
}

TEST_CASE("theory: the mean of the largest of n normal numbers") {
  const double known[] = {.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8269, 3.0439, 3.2482};
  Index n = 1;
  for (const double m : known) CHECK(rounds_to(theory::expected_maximum(n *= 2), m, 4));
  CHECK(std::abs(theory::expected_maximum(1)) < 1e-15);
  CHECK(std::abs(theory::expected_maximum(2) - 1 / std::sqrt(3.14159265358979324)) < 1e-14);
  CHECK(std::abs(theory::expected_maximum(3) - 1.5 / std::sqrt(3.14159265358979324)) < 1e-14);
}

TEST_CASE("theory: identities of the means, at every sigma") {
  for (const Index n : {2, 3, 8, 128, 5000})
    for (const double sigma : {1e-3, 0.03, 0.3, 0.9, 1.1, 4.0, 16.0, 300.0}) {
      const theory::ExpectedRow row = theory::expected_row(sigma, n);
      CAPTURE(n);
      CAPTURE(sigma);
      CHECK(std::abs(row.trace + row.sum_squares - 1) < 1e-11);
      CHECK(std::abs(row.mean_score - sigma * sigma * row.trace) < 1e-11 * (1 + row.mean_score));  // Stein
      CHECK(row.trace <= theory::expected_maximum(n) / sigma * (1 + 1e-9));
      CHECK(row.frobenius_squared < row.trace * row.trace + 1);
      CHECK(row.entropy >= 0);
      CHECK(row.entropy <= std::log(static_cast<double>(n)) + 1e-11);
      // F' = sigma tr J, by differences
      const double h = (sigma < 0.1 ? 0.1 : 1e-3) * sigma;
      const double slope =
          (theory::expected_row(sigma + h, n).log_sum_exp - theory::expected_row(sigma - h, n).log_sum_exp) /
          (2 * h);
      CHECK(std::abs(slope - sigma * row.trace) < 1e-5 * sigma);
    }
}

TEST_CASE("theory: two keys, where the means are integrals over one normal number") {
  // p = 1 / (1 + exp(-d)), d = sigma sqrt(2) z: plain sums over z
  for (const double sigma : {0.2, 1.0, 5.0, 40.0}) {
    double trace = 0, frobenius = 0, entropy = 0, along = 0;
    const double step = 1e-3 / (1 + sigma / 4);
    for (double z = -9; z <= 9; z += step) {
      const double d = sigma * std::sqrt(2.0) * z, p = 1 / (1 + std::exp(-d)), q = 1 / (1 + std::exp(d));
      const double weight = step * std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979324);
      trace += weight * 2 * p * q;
      frobenius += weight * 4 * p * p * q * q;
      along += weight * 2 * p * p * q * q * 2 * z * z;  // J z = ±p q (z₁ - z₂)
      entropy -= weight * ((p > 0 ? p * std::log(p) : 0) + (q > 0 ? q * std::log(q) : 0));
    }
    const theory::ExpectedRow row = theory::expected_row(sigma, 2);
    CHECK(row.trace == doctest::Approx(trace).epsilon(1e-9));
    CHECK(row.frobenius_squared == doctest::Approx(frobenius).epsilon(1e-9));
    CHECK(row.along_query == doctest::Approx(along).epsilon(1e-9));
    CHECK(row.entropy == doctest::Approx(entropy).epsilon(1e-9));
  }
}

TEST_CASE("theory: limits far below and far above the freezing point") {
  const theory::ExpectedRow still = theory::expected_row(0.0, 32), nearly = theory::expected_row(1e-6, 32);
  CHECK(still.entropy == doctest::Approx(std::log(32.0)).epsilon(1e-15));
  CHECK(std::abs(nearly.entropy - still.entropy) < 1e-11);
  CHECK(std::abs(nearly.frobenius_squared - still.frobenius_squared) < 1e-11);
  CHECK(std::abs(nearly.along_query - still.along_query) < 1e-11);

  const theory::HotLimit hot = theory::hot_limit(0.2, 100000);
  CHECK(theory::expected_row(0.2, 100000).entropy == doctest::Approx(hot.entropy).epsilon(1e-6));
  CHECK(theory::expected_row(0.2, 100000).sum_squares == doctest::Approx(hot.sum_squares).epsilon(1e-4));

  const theory::ColdLimit cold = theory::cold_limit(2000, 32);
  const theory::ExpectedRow frozen = theory::expected_row(2000.0, 32);
  CHECK(frozen.trace == doctest::Approx(cold.trace).epsilon(1e-5));
  CHECK(frozen.frobenius_squared == doctest::Approx(cold.frobenius_squared).epsilon(1e-5));
  CHECK(frozen.entropy == doctest::Approx(cold.entropy).epsilon(1e-5));

  CHECK(theory::freezing_width(128) == doctest::Approx(9.704).epsilon(1e-4));
  CHECK(theory::freezing_point(128) * theory::freezing_point(128) ==
        doctest::Approx(theory::freezing_width(128)));
  CHECK(theory::frozen_sum_squares(1, 128) == 0);
  CHECK(theory::frozen_sum_squares(2 * theory::freezing_point(128), 128) == doctest::Approx(0.5));
}

TEST_CASE("theory: the share of dead rows far above the freezing point, against drawn rows") {
  constexpr double sigma = 300;
  constexpr int rows = 20000;
  Rng rng(3);
  std::vector<double> scores(32);
  int dead = 0;
  for (int row = 0; row < rows; ++row) {
    for (double& s : scores) s = sigma * rng.normal();
    dead += row_statistics(scores).is_dead();
  }
  const double share = theory::cold_dead_share(sigma, 32), measured = static_cast<double>(dead) / rows;
  CHECK(share == doctest::Approx(0.949).epsilon(1e-3));
  CHECK(std::abs(measured - share) < 4 * std::sqrt(share * (1 - share) / rows));
}

TEST_CASE("theory: queries of finite width" * doctest::skip(kSanitized)) {
  // Against rows with every element drawn.
  for (const auto& [width, scale, rows] : {std::tuple{4, 1.0, 3000}, {4, 0.5, 3000}, {32, 1.0, 500}}) {
    Rng rng(7);
    std::vector<double> q(static_cast<std::size_t>(width)), scores(128), entropies;
    for (int row = 0; row < rows; ++row) {
      for (double& x : q) x = rng.normal();
      for (double& s : scores) {
        s = 0;
        for (const double x : q) s += scale * x * rng.normal();
      }
      entropies.push_back(row_statistics(scores).normalized_entropy());
    }
    CHECK(std::abs(Sample(entropies).z_score(theory::expected_row(width, scale, 128).normalized_entropy)) <
          4);
  }
  // Another program measured .901 at d = 4 and at d = 64, scaled.
  CHECK(std::abs(theory::expected_row(4, 0.5, 128).normalized_entropy - .901) < 1.5e-3);
  CHECK(std::abs(theory::expected_row(64, 0.125, 128).normalized_entropy - .901) < 1.5e-3);
  CHECK(theory::expected_row(1 << 20, 1.0 / 1024, 32).trace ==
        doctest::Approx(theory::expected_row(1.0, 32).trace).epsilon(1e-5));
  // d = 1: |q| is half of a normal number, by plain sums
  double trace = 0;
  for (double q = 0.01; q < 8; q += 0.02)
    trace +=
        0.02 * 2 * std::exp(-q * q / 2) / std::sqrt(2 * 3.14159265358979) * theory::expected_row(q, 8).trace;
  CHECK(theory::expected_row(1, 1.0, 8).trace == doctest::Approx(trace).epsilon(1e-4));
}

TEST_CASE("theory: the least entropy of bounded scores, and that nothing lies below it") {
  const struct {
    double norm;
    Index keys;
    double entropy;
  } known[] = {{1, 8, 1.979691},  {4, 8, .471895},   {8, 8, .012895},
               {1, 32, 3.436219}, {4, 32, 1.839223}, {8, 32, .082804}};
  for (const auto& line : known) {
    CHECK(rounds_to(theory::least_entropy(line.norm, line.keys), line.entropy, 6));
    const std::vector<double> scores = theory::scores_of_least_entropy(line.norm, line.keys);
    CHECK(row_statistics(scores).entropy ==
          doctest::Approx(theory::least_entropy(line.norm, line.keys)).epsilon(1e-13));
    double norm = 0, sum = 0;
    for (const double s : scores) norm += s * s, sum += s;
    CHECK(std::sqrt(norm) == doctest::Approx(line.norm).epsilon(1e-14));
    CHECK(std::abs(sum) < 1e-13);
  }
  int violations = 0;
  for (const double sigma : {0.1, 0.5, 1.0, 3.0, 10.0, 100.0})
    for (const RowStatistics& row : draw_rows({.sigma = sigma, .keys = 12, .rows = 2000, .seed = 3})) {
      const double norm = row.logit_deviation * std::sqrt(12.0);
      violations += row.entropy < theory::least_entropy(norm, 12) * (1 - 1e-12);
    }
  CHECK(violations == 0);
}

TEST_CASE("theory: known starting values and bounds") {
  CHECK(theory::henry_scale(32) == doctest::Approx(std::log2(32.0 * 31)));
  CHECK(theory::henry_scale(2) == doctest::Approx(1));
  CHECK(theory::largest_weight(0, 5) == doctest::Approx(0.2));
  CHECK(theory::largest_weight(3, 2) == doctest::Approx(1 / (1 + std::exp(-6.0))));
}

TEST_CASE("theory: what has no meaning is refused") {
  CHECK_THROWS_WITH_AS(theory::expected_row(-1.0, 8), "theory: a deviation of -1 is not a number >= 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::expected_row(1.0, 1), "theory: 1 keys; at least 2 are needed",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::expected_row(0, 1.0, 8), "theory: a width of 0 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::expected_row(4, std::nan(""), 8), "theory: a scale of nan is not a number",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::expected_maximum(0), "theory: the largest of 0 numbers",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::freezing_point(0), "theory: 0 keys; at least 1 is needed",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::least_entropy(-1, 8), "theory: scores of norm -1 over 8 keys",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(theory::henry_scale(1), "theory: a length of 1; at least 2 is needed",
                       std::invalid_argument);
}
