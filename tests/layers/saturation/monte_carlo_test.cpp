// Rows drawn at random against the exact means, and against quantiles that another program measured.
#include "attune/layers/saturation/monte_carlo.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/layers/saturation/theory.h"
#include "../../support/sanitized.h"

using namespace attune;

TEST_CASE("monte carlo: rows drawn at random have the means that the theory says, within 4 standard errors") {
  double worst = 0;
  const auto compare = [&](const Sample& sample, double exact) {
    CHECK(std::abs(sample.z_score(exact)) < 4);
    worst = std::max(worst, std::abs(sample.z_score(exact)));
  };
  for (const Index n : {2, 8, 32, 128})
    for (const double sigma : {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      CAPTURE(n);
      CAPTURE(sigma);
      const auto rows = draw_rows({.sigma = sigma, .keys = n, .rows = 10000});
      const theory::ExpectedRow exact = theory::expected_row(sigma, n);
      compare(Sample(rows, &RowStatistics::normalized_entropy), exact.normalized_entropy);
      compare(Sample(rows, &RowStatistics::sum_squares), exact.sum_squares);
      compare(Sample(rows, &RowStatistics::trace), exact.trace);
      compare(Sample(rows, [](const RowStatistics& row) { return row.frobenius * row.frobenius; }),
              exact.frobenius_squared);
    }
  MESSAGE(fmt::format("worst of 112 z-scores at 10,000 rows: {:.2f}", worst));
}

TEST_CASE("monte carlo: quantiles of saturation" * doctest::skip(kSanitized)) {
  // E max p, E / median / p10 of ‖J‖_F, E lambda_max, share of rows with ‖J‖_F < 1e-3
  const struct {
    Index keys;
    double sigma, max_weight, mean, median, p10, spectral, dead;
  } table[] = {{32, 1, .164, .241, .238, .216, .145, 0},       {32, 2, .377, .313, .316, .268, .247, 0},
               {32, 4, .644, .288, .338, .065, .258, .003},    {32, 8, .819, .194, .154, .0013, .184, .091},
               {32, 16, .909, .113, .0137, 6e-7, .110, .338},  {32, 32, .955, .061, 8.0e-5, 0, .060, .598},
               {128, 1, .069, .136, .133, .122, .065, 0},      {128, 2, .240, .246, .245, .197, .180, 0},
               {128, 4, .548, .297, .325, .124, .256, .001},   {128, 8, .770, .223, .229, .0048, .207, .051},
               {128, 16, .886, .135, .0356, 7e-6, .130, .261}, {128, 32, .944, .073, 5.5e-4, 0, .072, .527}};
  double worst = 0;
  for (const auto& line : table) {
    CAPTURE(line.keys);
    CAPTURE(line.sigma);
    const auto rows = draw_rows({.sigma = line.sigma, .keys = line.keys, .rows = 20000, .seed = 2});
    const Sample frobenius(rows, &RowStatistics::frobenius);
    // Means: both have an error of their own, and the table is rounded to three digits.
    const auto compare = [&](const Sample& sample, double printed) {
      const double z = std::max(0.0, std::abs(sample.mean() - printed) - 5e-4) / sample.standard_error();
      CHECK(z < 4);
      worst = std::max(worst, z);
    };
    compare(Sample(rows, &RowStatistics::max_weight), line.max_weight);
    compare(frobenius, line.mean);
    compare(Sample(rows, &RowStatistics::spectral), line.spectral);
    CHECK(std::abs(frobenius.below(1e-3) - line.dead) < 4 * std::sqrt(line.dead / 20000) + 2e-3);
    // Quantiles: far down they are spread over decades, so their logarithms are compared.
    CHECK(std::abs(std::log(frobenius.median() / line.median)) < 0.12);
    if (line.p10 > 0)
      CHECK(std::abs(std::log(frobenius.quantile(0.1) / line.p10)) < 0.5);
    else
      CHECK(frobenius.quantile(0.1) < 5e-7);
  }
  MESSAGE(fmt::format("worst of 36 means from the printed ones, in standard errors: {:.2f}", worst));
}

TEST_CASE("monte carlo: the gradient that reaches a query at initialisation" * doctest::skip(kSanitized)) {
  // mean, RMS, median and 10th percentile of ‖dL/dq‖ at n = 32, for the scales 1, 1/sqrt(d) and 1/d
  const struct {
    Index width;
    double power, mean, root_mean_square, median, p10;
  } table[] = {{16, 0, 3.76, 4.89, 3.05, .49},      {16, -.5, .889, .966, .813, .488},
               {16, -1, .171, .178, .167, .113},    {64, 0, 10.4, 16.8, 5.11, .043},
               {64, -.5, 1.83, 1.94, 1.71, 1.16},   {64, -1, .172, .175, .170, .133},
               {256, 0, 23.2, 50.3, 1.79, 7.6e-5},  {256, -.5, 3.65, 3.85, 3.44, 2.38},
               {256, -1, .173, .174, .172, .142},   {1024, 0, 49.7, 144, .048, 1.9e-10},
               {1024, -.5, 7.37, 7.75, 6.96, 4.81}, {1024, -1, .172, .174, .171, .143}};
  double worst = 0;
  for (const auto& line : table) {
    CAPTURE(line.width);
    CAPTURE(line.power);
    const double scale = std::pow(static_cast<double>(line.width), line.power);
    const Sample norms =
        draw_query_gradients({.width = line.width, .scale = scale, .keys = 32, .rows = 20000});
    // The exact second moment.
    std::vector<double> squares(norms.sorted().begin(), norms.sorted().end());
    for (double& x : squares) x *= x;
    const double exact = theory::expected_query_gradient_squared(line.width, line.width, scale, 32);
    const double z = Sample(squares).z_score(exact);
    CHECK(std::abs(z) < 4);
    worst = std::max(worst, std::abs(z));
    // What another program measured, with every element drawn: its own error is not known; 5 % of what is not
    // spread over decades.
    CHECK(norms.mean() == doctest::Approx(line.mean).epsilon(0.05));
    CHECK(std::sqrt(exact) == doctest::Approx(line.root_mean_square).epsilon(0.05));
    CHECK(std::abs(std::log(norms.median() / line.median)) < (line.power == 0 ? 0.25 : 0.02));
    CHECK(std::abs(std::log(norms.quantile(0.1) / line.p10)) < (line.power == 0 ? 1.0 : 0.03));
  }
  MESSAGE(fmt::format("worst of 12 z-scores of ‖dL/dq‖² against its exact mean: {:.2f}", worst));
}

TEST_CASE("monte carlo: a sample's mean, error, quantiles and shares") {
  const Sample sample({4, 1, 3, 2});
  CHECK(sample.mean() == 2.5);
  CHECK(sample.root_mean_square() == doctest::Approx(std::sqrt(7.5)));
  CHECK(sample.standard_error() == doctest::Approx(std::sqrt(5.0 / 3 / 4)));
  CHECK(sample.z_score(2.5) == 0);
  CHECK(sample.z_score(0) == doctest::Approx(2.5 / std::sqrt(5.0 / 12)));
  CHECK(sample.median() == 2.5);
  CHECK(sample.quantile(0) == 1);
  CHECK(sample.quantile(0.1) == doctest::Approx(1.3));
  CHECK(sample.quantile(1) == 4);
  CHECK(sample.below(3) == 0.5);
  CHECK(Sample({7}).standard_error() == 0);
}

TEST_CASE("monte carlo: what has no meaning is refused") {
  CHECK_THROWS_WITH_AS(Sample(std::vector<double>{}), "Sample: no numbers", std::invalid_argument);
  CHECK_THROWS_WITH_AS(Sample({1}).quantile(2), "Sample: a quantile of 2 is not between 0 and 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(draw_rows({.keys = 0, .rows = 3}),
                       "draw: 3 rows of 0 keys; at least 1 of each is needed", std::invalid_argument);
  CHECK_THROWS_WITH_AS(draw_query_gradients({.width = 0}), "draw: widths of 0 and 0", std::invalid_argument);
}
