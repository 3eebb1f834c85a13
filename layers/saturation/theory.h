// What softmax does to random scores, exactly: the theory of saturation that a measurement can be held
// against.
//
// Given a query q, the scores of independent normal keys are independent normal numbers of deviation
// sigma = scale |q|. A row of attention at initialisation is then the random energy model (Derrida 1981;
// Giorlandino & Goldt 2025), and its means over all rows of n keys are integrals over one line. They come
// from
//
//   E[p₁^a p₂^b ...] = 1/Γ(a + b + ...) ∫ A_a(u) A_b(u) ... G(u)^(n - m) du,     A_a(u) = E exp(a y - e^y), y
//   = u + sigma z,
//
// for m different keys, with G = A_0: every power of 1/sum e^s is an integral over t = e^u. The sums are
// written without differences, so that saturated rows keep their digits; ten of them are right (entropy: to
// 1e-11 absolutely).
#pragma once

#include <vector>

#include "attune/lib/shape.h"

namespace attune::theory {

// Means over rows of n scores sigma z, z ~ N(0, 1).
struct ExpectedRow {
  double log_sum_exp = 0;         // F = E ln sum exp(s); F(0) = ln n
  double entropy = 0;             // E H = F - sigma F'
  double normalized_entropy = 0;  // E H / ln n
  double sum_squares = 0;         // E sum p²
  double trace = 0;               // E tr J = 1 - E sum p² = F' / sigma
  double mean_score = 0;          // E sum p s = sigma² E tr J (Stein's identity); computed without it
  double frobenius_squared = 0;   // E ‖J‖_F²
  double along_query = 0;         // E ‖J z‖², for the part of the gradient that lies along q
};

// sigma >= 0, keys >= 2.
ExpectedRow expected_row(double sigma, Index keys);

// The same where sigma = scale |q| and q ~ N(0, I_d), as queries of finite width have: averaged over |q|.
ExpectedRow expected_row(Index width, double scale, Index keys);

// M_n, the mean of the largest of n normal numbers. n >= 1.
double expected_maximum(Index n);

// sigma_c = sqrt(2 ln n): above it a few keys take all, however many there are (the frozen phase).
double freezing_point(Index keys);
// Unscaled scores have sigma = sqrt(d): the width at which they freeze, 2 ln n.
double freezing_width(Index keys);

// What is left at n -> infinity in the frozen phase: sum p² -> 1 - sigma_c / sigma; 0 below it.
double frozen_sum_squares(double sigma, Index keys);

// Where sigma is far below sigma_c: H ~ ln n - sigma²/2 and sum p² ~ exp(sigma²) / n.
struct HotLimit {
  double entropy, sum_squares;
};
HotLimit hot_limit(double sigma, Index keys);

// Where sigma is far above, at n keys; `trace` is also an upper bound for every sigma.
struct ColdLimit {
  double trace;              // M_n / sigma, which E ‖J‖_F and E lambda_max approach as well
  double frobenius_squared;  // M_n / (3 sigma)
  double entropy;            // (π²/6) M_n / sigma
  double rest;               // E[1 - max p] -> ln 2 M_n / sigma
  double median_frobenius;   // 2 exp(-ln 2 sigma / M_n): half of the rows lie below
};
ColdLimit cold_limit(double sigma, Index keys);
// P(‖J‖_F < threshold) ~ exp(-M_n ln(2 / threshold) / sigma): the rows that are dead.
double cold_dead_share(double sigma, Index keys, double threshold = 1e-3);

// E ‖dL/dq‖² where q, k, v and the gradient dL/dy of the output are N(0, I): exactly,
// scale² dv ((d - 1) E‖J‖_F² + E‖J z‖²), averaged over |q|.
double expected_query_gradient_squared(Index width, Index value_width, double scale, Index keys);

// The least entropy of a row of `keys` scores whose distance from their mean, ‖s - mean‖₂, is at most `norm`
// (Zhai et al. 2023, theorem 3.1); and the scores that have it.
double least_entropy(double norm, Index keys);
std::vector<double> scores_of_least_entropy(double norm, Index keys);

// Where QK-norm's factor starts in Henry et al. 2020: log2(n² - n) for sequences of length n. The scores'
// deviation is g / sqrt(d).
double henry_scale(Index length);

// One key's largest possible weight where all scores lie within ±bound (a softcap, or unit vectors times g):
// 1 / (1 + (n - 1) exp(-2 bound)).
double largest_weight(double bound, Index keys);

}  // namespace attune::theory
