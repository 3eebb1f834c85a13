// One row's numbers: known answers, plain formulas in long double, and digits that must survive saturation.
#include "attune/layers/saturation/row_statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "attune/autograd/ops.h"
#include "attune/lib/random.h"

using namespace attune;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> random_scores(double sigma, std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> scores(n);
  for (double& s : scores) s = sigma * rng.normal();
  return scores;
}

std::vector<long double> plain_softmax(const std::vector<double>& scores) {
  long double top = -kInf, sum = 0;
  for (const double s : scores) top = std::max(top, static_cast<long double>(s));
  std::vector<long double> p;
  for (const double s : scores) p.push_back(std::exp(s - top)), sum += p.back();
  for (long double& x : p) x /= sum;
  return p;
}

// The largest eigenvalue of diag(p) - p pᵀ, by many steps of power iteration.
double plain_spectral_norm(const std::vector<long double>& p) {
  std::vector<long double> x(p.size());
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = std::sin(1.0L + static_cast<long double>(j));
  long double norm = 0;
  for (int step = 0; step < 20000; ++step) {
    long double mean = 0, squares = 0;
    for (std::size_t j = 0; j < x.size(); ++j) mean += p[j] * x[j];
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = p[j] * (x[j] - mean), squares += x[j] * x[j];
    norm = std::sqrt(squares);
    for (long double& e : x) e /= norm;
  }
  return static_cast<double>(norm);
}

}  // namespace

TEST_CASE("B26: row statistics: known rows, one with nothing but zeros, one with a hidden key") {
  const RowStatistics one_hot = row_statistics(std::vector{0.0, -kInf});
  CHECK(one_hot.keys == 1);
  CHECK(one_hot.entropy == 0);
  CHECK(one_hot.max_weight == 1);
  CHECK(one_hot.frobenius == 0);
  CHECK(one_hot.normalized_entropy() == 0);

  const RowStatistics uniform = row_statistics(std::vector{0.0, 0.0, 0.0, 0.0});
  CHECK(uniform.entropy == doctest::Approx(1.386294361).epsilon(1e-9));
  CHECK(uniform.max_weight == 0.25);
  CHECK(uniform.frobenius == doctest::Approx(0.433012702).epsilon(1e-9));
  CHECK(uniform.spectral == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(uniform.effective_keys() == doctest::Approx(4));
  CHECK(uniform.participation() == doctest::Approx(4));
  CHECK(uniform.normalized_entropy() == doctest::Approx(1));
  CHECK(uniform.logit_gap == 0);

  const RowStatistics peaked = row_statistics(std::vector{50.0, 0.0, 0.0});
  CHECK(peaked.entropy == doctest::Approx(1.967e-20).epsilon(1e-3));
  CHECK(peaked.max_weight == 1);
  CHECK(peaked.rest == doctest::Approx(2 * std::exp(-50.0)).epsilon(1e-14));
  CHECK(peaked.logit_gap == 50);
  CHECK(peaked.logit_max == 50);
  CHECK(peaked.is_dead());

  const RowStatistics plain = row_statistics(std::vector{2.0, 1.0, 0.0});
  CHECK(plain.entropy == doctest::Approx(0.832395582).epsilon(1e-9));
  CHECK(plain.max_weight == doctest::Approx(0.665240956).epsilon(1e-9));
  CHECK(plain.frobenius == doctest::Approx(0.389389775).epsilon(1e-9));
  CHECK(plain.logit_deviation == doctest::Approx(std::sqrt(2.0 / 3)));
  CHECK_FALSE(plain.is_dead());

  const RowStatistics nothing = row_statistics(std::vector{-kInf, -kInf});
  CHECK(nothing.keys == 0);
  CHECK(nothing.entropy == 0);
  CHECK(nothing.effective_keys() == 0);
  CHECK(nothing.participation() == 0);
  CHECK_FALSE(nothing.is_dead());
}

TEST_CASE("B26: row statistics: the entropy's gradient by the scores is J (-ln p), and 0 at a hidden key") {
  const std::vector<double> scores = {2, 1, 0}, expected = {-0.282587451, 0.140770357, 0.141817094};
  std::vector<double> weights(3), surprise(3), slopes(3);
  row_statistics(scores, weights);
  for (std::size_t j = 0; j < 3; ++j) surprise[j] = -std::log(weights[j]);
  apply_jacobian(slopes, scores, surprise);
  Tape tape;  // and through ops
  const Var x = variable(tensor({2.0, 1.0, 0.0}, f64)), log_p = log_softmax(x);
  tape.backward(-sum(exp(log_p) * log_p));
  for (std::size_t j = 0; j < 3; ++j) {
    CHECK(slopes[j] == doctest::Approx(expected[j]).epsilon(1e-8));
    CHECK(x.grad().at({static_cast<Index>(j)}) == doctest::Approx(expected[j]).epsilon(1e-8));
  }
  std::vector<double> hidden(2);
  apply_jacobian(hidden, std::vector{0.0, -kInf}, std::vector{0.0, kInf});  // -ln 0 is infinite
  CHECK(hidden == std::vector<double>{0, 0});
}

TEST_CASE("row statistics: the plain formulas, where these have digits") {
  for (const std::size_t n : {2U, 3U, 7U, 40U})
    for (const double sigma : {0.01, 0.3, 1.0, 4.0}) {
      const std::vector<double> scores = random_scores(sigma, n, n);
      const auto p = plain_softmax(scores);
      long double p2 = 0, p3 = 0, entropy = 0;
      for (const long double x : p) p2 += x * x, p3 += x * x * x, entropy -= x * std::log(x);
      const RowStatistics row = row_statistics(scores);
      CHECK(row.entropy == doctest::Approx(static_cast<double>(entropy)).epsilon(1e-13));
      CHECK(row.sum_squares == doctest::Approx(static_cast<double>(p2)).epsilon(1e-14));
      CHECK(row.trace == doctest::Approx(static_cast<double>(1 - p2)).epsilon(1e-13));
      CHECK(row.frobenius ==
            doctest::Approx(static_cast<double>(std::sqrt(p2 - 2 * p3 + p2 * p2))).epsilon(1e-13));
      CHECK(row.max_weight + row.rest == doctest::Approx(1).epsilon(1e-15));
      if (n <= 7) CHECK(row.spectral == doctest::Approx(plain_spectral_norm(p)).epsilon(1e-12));
      const std::vector<double> weights(p.begin(), p.end());
      const RowStatistics again = row_statistics_of_weights(weights);
      CHECK(again.entropy == doctest::Approx(row.entropy).epsilon(1e-12));
      CHECK(again.frobenius == doctest::Approx(row.frobenius).epsilon(1e-12));
      CHECK(again.logit_gap == doctest::Approx(row.logit_gap).epsilon(1e-9));
    }
}

TEST_CASE(
    "row statistics: the largest eigenvalue solves its equation, lies between p2 and p1 and below one half") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> scores =
        random_scores(seed % 5 == 0 ? 1e-9 : 0.1 * static_cast<double>(seed), 2 + seed % 30, seed);
    const RowStatistics row = row_statistics(scores);
    const double p2 = row.max_weight * std::exp(-row.logit_gap);
    CHECK(row.spectral <= 0.5 + 1e-15);
    CHECK(row.spectral <= row.max_weight * (1 + 1e-15));
    CHECK(row.spectral >= p2 * (1 - 1e-13));
    CHECK(row.spectral <= row.frobenius * (1 + 1e-14));
    CHECK(row.frobenius <= row.trace * (1 + 1e-14));
    if (p2 > 1e-6 && row.logit_gap > 1e-6) {
      long double sum = 0;
      for (const long double p : plain_softmax(scores))
        sum += p * p / (p - static_cast<long double>(row.spectral));
      CHECK(static_cast<double>(sum) == doctest::Approx(1).epsilon(1e-7));
    }
  }
  CHECK(row_statistics(std::vector{3.0, 3.0}).spectral == doctest::Approx(0.5).epsilon(1e-15));
  CHECK(row_statistics(std::vector{3.0, 3.0, 1.0}).spectral >
        row_statistics(std::vector{3.0, 3.0, 1.0}).max_weight - 1e-12);
}

TEST_CASE("row statistics: a row that is one-hot but for 1e-300 has all its digits") {
  // Two other keys: p = e, e/2 with e = exp(-690): everything is a multiple of e.
  const double e = std::exp(-690.0);
  const RowStatistics row = row_statistics(std::vector{-690.0 - std::log(2.0), 0.0, -690.0});
  CHECK(row.max_weight == 1);
  CHECK(row.rest == doctest::Approx(1.5 * e).epsilon(1e-12));
  CHECK(row.trace == doctest::Approx(3 * e).epsilon(1e-12));
  CHECK(row.frobenius == doctest::Approx(e * std::sqrt(2.25 + 1 + .25 + 1 + .25 + .75)).epsilon(0.2));
  CHECK(row.entropy > 690 * 1.5 * e);
  // J = e (1.5 -1 -.5; -1 1 0; -.5 0 .5) in the order first, second, third
  CHECK(row.frobenius == doctest::Approx(e * std::sqrt(2.25 + 1 + .25 + 2 * (1 + .25))).epsilon(1e-12));
  CHECK(row.spectral == doctest::Approx(e * (1.5 + std::sqrt(0.75))).epsilon(1e-12));
  const RowStatistics least = row_statistics(std::vector{0.0, -744.0});  // below the smallest normal number
  CHECK(least.rest > 0);
  CHECK(least.frobenius == doctest::Approx(2 * least.rest));
  const RowStatistics gone = row_statistics(std::vector{0.0, -800.0});
  CHECK(gone.rest == 0);
  CHECK(gone.frobenius == 0);
  CHECK(gone.spectral == 0);
  CHECK(gone.entropy == 0);
}

TEST_CASE("row statistics: a score that is NaN or infinite makes the row NaN") {
  for (const double bad : {kInf, std::nan("")}) {
    const RowStatistics row = row_statistics(std::vector{1.0, bad, 2.0});
    CHECK(row.keys == 3);
    CHECK(std::isnan(row.entropy));
    CHECK(std::isnan(row.spectral));
    CHECK_FALSE(row.is_dead());
  }
}

TEST_CASE("row statistics: weights of 0 are keys, and take no part") {
  const RowStatistics row = row_statistics_of_weights(std::vector{0.5, 0.0, 0.5});
  CHECK(row.keys == 3);
  CHECK(row.entropy == doctest::Approx(std::log(2.0)));
  CHECK(row.spectral == doctest::Approx(0.5));
}

TEST_CASE("row statistics: the softmax itself, where it is wanted") {
  std::vector<double> weights(4, 7);
  row_statistics(std::vector{1.0, -kInf, 3.0, 3.0}, weights);
  const auto p = plain_softmax({1.0, -kInf, 3.0, 3.0});
  for (std::size_t j = 0; j < 4; ++j)
    CHECK(weights[j] == doctest::Approx(static_cast<double>(p[j])).epsilon(1e-15));
  row_statistics(std::vector{-kInf, -kInf, 2.0, -kInf}, weights);
  CHECK(weights == std::vector<double>{0, 0, 1, 0});
  row_statistics(std::vector(4, -kInf), weights);
  CHECK(weights == std::vector<double>(4, 0));
  row_statistics(std::vector{1.0, kInf, 2.0, 0.0}, weights);
  CHECK(std::isnan(weights[3]));
  CHECK_THROWS_WITH_AS(row_statistics(std::vector{1.0}, weights), "row_statistics: 4 weights for 1 scores",
                       std::invalid_argument);
}

TEST_CASE("apply_jacobian: J x, J 1 = 0, sums of 0, and one-hot rows keep their digits") {
  for (const double sigma : {0.1, 1.0, 8.0, 40.0}) {
    const std::vector<double> scores = random_scores(sigma, 9, 4), x = random_scores(1, 9, 5);
    const auto p = plain_softmax(scores);
    long double mean = 0;
    for (std::size_t j = 0; j < 9; ++j) mean += p[j] * x[j];
    std::vector<double> y(9), ones(9, 3.0);
    apply_jacobian(y, scores, x);
    double sum = 0, largest = 0;
    for (std::size_t j = 0; j < 9; ++j) {
      const double expected = static_cast<double>(p[j] * (x[j] - mean));
      CHECK(std::abs(y[j] - expected) <= 1e-13 * std::abs(expected) + 1e-17 * static_cast<double>(p[j]));
      sum += y[j];
      largest = std::max(largest, std::abs(y[j]));
    }
    CHECK(std::abs(sum) <= 1e-15 * largest * 9);
    apply_jacobian(y, scores, ones);
    for (const double e : y) CHECK(e == 0);
  }
  std::vector<double> y(3);
  apply_jacobian(y, std::vector{0.0, -600.0, -kInf}, std::vector{1.0, 2.0, std::nan("")});
  CHECK(y[0] == doctest::Approx(-std::exp(-600.0)));
  CHECK(y[1] == doctest::Approx(std::exp(-600.0)));
  CHECK(y[2] == 0);
  CHECK_THROWS_WITH_AS(apply_jacobian(y, std::vector{1.0}, std::vector{1.0, 2.0}),
                       "apply_jacobian: 3 results for 1 scores and 2 numbers", std::invalid_argument);
  CHECK_THROWS_WITH_AS(apply_jacobian_of_weights(y, std::vector{1.0}, std::vector{1.0, 2.0}),
                       "apply_jacobian: 3 results for 1 weights and 2 numbers", std::invalid_argument);
}
