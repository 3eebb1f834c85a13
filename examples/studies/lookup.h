// The task "lookup": one head of attention that has to find a key among n, and say the value that stands with
// it.
//
//   keys    7  52  19   3        values  11  40   2  63        query  19   →   answer  2
//
// Each of V symbols has an embedding as a query, one as a key and one as a value, all of them trained, as are
// W_Q, W_K, W_V and U:
//
//   S = c (E_q W_Q)(E_k W_K)ᵀ  [V, V]         the score of any query with any key
//   p = softmax(S[query, keys])               over the n keys of an example
//   logits = sum over j of p_j (E_v W_V U)[value_j]
//
// Small enough for thousands of steps a second, and all that it learns goes through one softmax. What stands
// between the product and the softmax, and the softmax itself, are what a study compares.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attune/attune.h"

namespace attune::studies {

// What is done to q·k before the softmax. d is the width of queries and keys, n the number of keys.
enum class Rule {
  raw,             // nothing
  inverse_sqrt,    // q·k / sqrt(d)                  (Vaswani et al. 2017)
  inverse,         // q·k / d                        (Yang et al. 2022)
  eight_over,      // 8 q·k / d: as 1/sqrt(d) at d = 64
  learned,         // exp(t) q·k / sqrt(d), where t is trained from 0
  learned_raw,     // the same, from ln sqrt(d): it starts unscaled
  qk_norm,         // g q·k / (|q| |k|), where g is trained from sqrt(d), which makes sigma 1
  qk_norm_log,     // the same, from log2(n² - n)    (Henry et al. 2020)
  softcap_50,      // 50 tanh(s / 50) of s = q·k / sqrt(d)   (Gemma 2)
  softcap_15,      // 15 tanh(s / 15) of it
  softcap_50_raw,  // 50 tanh(q·k / 50)
  softcap_10_raw,  // 10 tanh(q·k / 10)
  ssmax,           // s ln(n) q·k / sqrt(d), where s is trained from 0.43    (Nakanishi 2025)
};

// What makes weights of scores.
// softmax1: softmax with one more score of 0, whose weight is lost (Miller 2023); sigmoid(s - ln n), each key
// for itself (Ramapuram et al. 2024); sparsemax (Martins & Astudillo 2016); entmax15 (Peters et al. 2019).
enum class Normaliser { softmax, softmax1, sigmoid, sparsemax, entmax15 };

// Their names on a command line and in a table: "1", "1/sqrt", "qknorm" ...; and what a reader knows them by:
// "1/√d".
const std::vector<std::string>& rule_names();
const std::vector<std::string>& normaliser_names();
Rule rule_of(const std::string& name);  // std::invalid_argument lists those that there are
Normaliser normaliser_of(const std::string& name);
std::string title_of(Rule rule);

struct LookupOptions {
  Index width = 128;  // d
  Rule rule = Rule::inverse_sqrt;
  double gain = 1;  // of W_Q and W_K: it multiplies the scores by its square
  Normaliser normaliser = Normaliser::softmax;
  Index keys = 32;   // n
  bool adam = true;  // else plain gradient descent
  double lr = 1e-3;
  Index steps = 600;
  std::uint64_t seed = 1;
  Index batch = 128;
  Index logged =
      30;  // how often it is measured at most, in equal proportions: steps 0, 1, 2, 3, 4, 6, 8, 10 ...
  bool keep_maps =
      false;  // of some examples: at first, after a twentieth and a sixth of the steps, and at the end

  Index symbols() const { return std::max<Index>(64, 2 * keys); }  // V
  // The deviation of the scores before the first step, where the normaliser sees them.
  double sigma() const;
};

// Quantiles over rows.
struct Spread {
  double p10 = 0, median = 0, p90 = 0, mean = 0;
};

// What is seen at one step, on 256 examples that are the same at every step and no part of training. In f64:
// the parameters are as they are in training, and everything that follows from them is computed with all
// digits.
struct LookupMeasurement {
  Index step = 0;
  double loss = 0;
  double accuracy = 0;          // on these examples
  double running_accuracy = 0;  // of training, see run_lookup
  double right_weight = 0;      // mean attention to the key that is asked for
  Spread entropy;               // normalised by ln n
  Spread jacobian;              // ‖J‖_F of the normaliser, J = dp/ds
  Spread max_weight;
  Spread query_gradient;  // ‖dL/dq‖ of each row, L being the sum of the rows' losses
  double dead = 0;        // the share of rows with ‖J‖_F < 1e-3
  double stuck = 0;  // the share of rows that are dead, and look at the wrong key: what training cannot mend
  double max_logit = 0;                   // the largest |score|
  double logit_deviation = 0;             // mean over rows
  double scale = 0;                       // what q·k is multiplied by
  double gradient_q = 0, gradient_k = 0;  // ‖dL/dW_Q‖, ‖dL/dW_K‖ of the mean loss
  double update_q = 0;  // ‖change of W_Q‖ / ‖W_Q‖ of the step that follows; 0 at the last
};

// Attention of 16 examples; the key that is asked for stands in column n / 16 * example.
struct LookupMap {
  Index step = 0;
  std::vector<double> weights;  // [16, n]
};

struct LookupRun {
  std::vector<LookupMeasurement> measurements;
  std::vector<LookupMap> maps;
  // The first step whose running accuracy is at least 0.9; -1: none. That is the exponential average of the
  // accuracy on the batches it trains on, a = 0.9 a + 0.1 new. (With 0.8 the fastest run, SGD at d = 128,
  // takes 27 steps instead of 38; the figures that it is compared with have 37.)
  Index reached = -1;
  double last_accuracy = 0;  // the running one
};

inline constexpr double kAverage = 0.9;
inline constexpr Index kMapRows = 16;

// Trains. It ends early where the running accuracy is 0.999 twenty steps after it was 0.9, for nothing
// happens any more, unless maps are kept. `progress` is told the share that is done; it may be empty.
LookupRun run_lookup(const LookupOptions& options, const std::function<void(double)>& progress = {});

// ‖J‖_F of one row, J = dp/ds, from its scores, or where they say it better from its weights.
double jacobian_norm(Normaliser normaliser, std::span<const double> scores, std::span<const double> weights);

}  // namespace attune::studies
