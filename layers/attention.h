// Attention (Vaswani et al. 2017, section 3.2): weights = softmax(scale q kᵀ), y = weights v.
//
// Letters in shapes: B batch, Hq and Hkv heads of queries and of keys, L queries, S keys, d width of a query and a key,
// dv width of a value.
#pragma once

#include <cmath>
#include <functional>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/layers/mask.h"
#include "attune/layers/tap.h"

namespace attune {

// The factor on q·k. 1/sqrt(d) keeps the scores' deviation at 1 whatever d is.
class Scale {
 public:
  Scale() = default;                                               // 1/sqrt(d)
  Scale(double factor) : kind_(Kind::number), factor_(factor) {}   // NOLINT: a number is a scale
  Scale(Var learned) : kind_(Kind::learned), learned_(learned) {}  // NOLINT: so is a scalar, or what stretches to q
  static Scale none() { return 1.0; }
  static Scale inverse() {  // 1/d
    Scale scale;
    scale.kind_ = Kind::inverse;
    return scale;
  }

  // The factor as a number; 1 where it is a Var, which multiplies q.
  double operator()(Index d) const {
    const auto width = static_cast<double>(d);
    return kind_ == Kind::inverse_root ? 1 / std::sqrt(width) : kind_ == Kind::inverse ? 1 / width : factor_;
  }
  std::optional<Var> learned() const { return learned_; }

 private:
  enum class Kind { inverse_root, inverse, number, learned };
  Kind kind_ = Kind::inverse_root;
  double factor_ = 1;
  std::optional<Var> learned_;
};

// How the scores of a row become weights; s are those of the keys that the query sees.
enum class Normalizer {
  softmax,   // exp(s) / sum exp(s)
  softmax1,  // exp(s) / (1 + sum exp(s)) (Miller 2023, "Attention is off by one"): a sink whose score is 0
  sigmoid,   // sigmoid(s - ln n), n the number of those keys (Ramapuram et al. 2024): no key knows of another
  sparsemax,  // the nearest point of the simplex (Martins & Astudillo 2016): see ops/sparsemax.h
  entmax15    // between softmax and sparsemax (Peters, Niculae & Martins 2019): see ops/entmax15.h
};
const char* name_of(Normalizer normalizer);

// What happens to a score, in this order: scale, softcap, bias, mask, normalizer.
struct AttentionOptions {
  Mask mask = {};
  Scale scale = {};
  double softcap = 0;             // c > 0 makes c tanh(s / c) of a score (Bello et al. 2016)
  std::optional<Var> bias = {};   // is added to the scores, stretched to [..., Hq, L, S]; -inf hides that pair
  std::optional<Var> sinks = {};  // [Hq]: a score without a value that takes its part of each row (Xiao et al. 2023)
  double dropout = 0;             // the share of weights that training drops; the others grow by 1 / (1 - dropout)
  Normalizer normalizer = Normalizer::softmax;  // all but softmax and softmax1 take memory for L times S numbers
  bool ssmax = false;  // scores times ln n, n the keys that the mask lets a query see (SSMax: Nakanishi 2025)
};

// q [..., Hq, L, d], k [..., Hkv, S, d], v [..., Hkv, S, dv] -> [..., Hq, L, dv], with equal leading axes and any
// strides; without a heads' axis, [L, d] and so on. The result lies in memory as [..., L, Hq, dv], so that merging
// heads is a view. Query head h reads key head h / (Hq / Hkv).
//
// What is hidden has no influence, be it infinite or NaN. A query that sees no key gets zeros, and passes back zeros,
// even where it is NaN itself. A row that sees a NaN is NaN, and no other is.
//
// It takes memory that grows with L + S, forward and backward (kernels/attention.h; Rabe & Staats 2021, Dao et al.
// 2022). In training and under NoGrad the same computation runs: the result of a query does not depend on L, S or the
// batch, to the bit. That is for softmax and softmax1; other normalizers go step by step.
//
// Shapes, masks, a bias or sinks that do not fit, Hq that is no multiple of Hkv, and numbers out of range are a
// std::invalid_argument. Dropout draws from the tape's random numbers: Tape tape({.random = &rng}).
// Taps: "scores" (scaled, before the softcap), "weights" (before dropout). Where an observer replaces one of them, the
// rest is computed from that, step by step.
Var attention(Var q, Var k, Var v, const AttentionOptions& options = {});

// The same result and the same gradients, to the bit, and beside it what attention does not keep: constants.
struct AttentionResult {
  Var y;
  Var weights;      // [..., Hq, L, S], before dropout
  Var log_sum_exp;  // [..., Hq, L]: log of the sum of exp(score), the sink's among them; -inf where a query sees
                    // nothing
};
AttentionResult attention_with_weights(Var q, Var k, Var v, const AttentionOptions& options = {});

namespace detail {
// [..., L, H, width] as [..., H, L, width], and back.
View swap_heads(const View& x);

// A call after its checks: q is scaled where the scale is learned, and random numbers are drawn.
struct AttentionCall {
  Var q, k, v;
  double scale, softcap;
  std::optional<Var> bias, sinks;
  kernels::AttentionMask mask;
  std::optional<kernels::DropoutMask> dropout;
  Normalizer normalizer = Normalizer::softmax;
  std::optional<Var> less_log_keys = {};  // sigmoid: -ln n [..., Hq, L, 1]
  std::optional<Var> given_q = {};        // the caller's, where a learned scale or ssmax made another of it

  bool is_softmax() const { return normalizer == Normalizer::softmax || normalizer == Normalizer::softmax1; }
  kernels::Attention values() const;
  Var heard(Var y) const;  // tells the listeners; returns y
  std::array<Var, 5> inputs() const;
};
// Throws where one of them is out of range: for layers, which refuse it when they are made.
void check_numbers(double softcap, double dropout);
// What must outlive the options is in the scope's memory afterwards.
AttentionCall prepare_attention(Var q, Var k, Var v, const AttentionOptions& options,
                                std::source_location where = std::source_location::current());
}  // namespace detail

// While it lives, hears of every call of attention on this thread, once the result is there, with all that it takes to
// compute scores, weights and their gradients again, row by row: what a meter needs, where an Observer of "scores" would
// have attention make all of them. It changes nothing, and costs nothing where there is none. current_path() says
// whose call it is.
class AttentionListener {
 public:
  using Hear = std::function<void(const detail::AttentionCall& call, Var y)>;
  explicit AttentionListener(Hear hear);
  ~AttentionListener();
  AttentionListener(const AttentionListener&) = delete;
  AttentionListener& operator=(const AttentionListener&) = delete;

 private:
  friend struct detail::AttentionCall;
  Hear hear_;
  AttentionListener* outer_;
};

}  // namespace attune
