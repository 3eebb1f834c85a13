// What the tests of attention share: a call as a plain struct, the formula in double and plain loops, and both forms of
// attention() run forward and backward.
#pragma once

#include <optional>

#include "../lib/kernel_check.h"
#include "attune/autograd/ops.h"
#include "attune/layers/composed_attention.h"
#include "attune/lib/random.h"

namespace attune::check_attention {

using namespace attune::check_kernels;

// Sizes and settings; a tensor without elements is not given.
struct Setting {
  Index batch = 2, heads = 2, key_heads = 2, queries = 5, keys = 7, width = 4, value_width = 3;
  Mask mask = {};
  double scale = 0.5, softcap = 0, dropout = 0;
  Shape bias = {0};         // random, of this shape
  bool bias_hides = false;  // with -inf here and there
  bool sinks = false;
  double spread = 2;  // numbers of q and k are in -spread ... spread
};

struct Inputs {
  Tensor q, k, v, bias, sinks, up;
};

inline Inputs inputs_of(const Setting& s, DType dtype, std::uint64_t seed = 1) {
  Inputs in;
  in.q = random({s.batch, s.heads, s.queries, s.width}, dtype, 10 * seed + 1, -s.spread, s.spread);
  in.k = random({s.batch, s.key_heads, s.keys, s.width}, dtype, 10 * seed + 2, -s.spread, s.spread);
  in.v = random({s.batch, s.key_heads, s.keys, s.value_width}, dtype, 10 * seed + 3);
  in.up = random({s.batch, s.heads, s.queries, s.value_width}, dtype, 10 * seed + 4);
  if (s.bias.count() > 0) in.bias = random(s.bias, dtype, 10 * seed + 5, -2, 2);
  if (s.bias_hides)
    visit(dtype, [&]<class T>() {
      std::uint64_t state = seed;
      for (T& number : in.bias.data<T>())
        if (next_random(state) < 0.3) {
          if constexpr (std::is_same_v<T, dual>)
            number = {-kInf, 0};
          else if constexpr (!std::is_same_v<T, std::int32_t>)
            number = static_cast<T>(-kInf);
        }
    });
  if (s.sinks) in.sinks = random({s.heads}, dtype, 10 * seed + 6, -1, 2);
  return in;
}

enum class Form { fused, composed };

struct Results {
  Tensor y, weights, log_sum_exp, dq, dk, dv, dbias, dsinks;

  std::vector<std::pair<const char*, const Tensor*>> gradients() const {
    std::vector<std::pair<const char*, const Tensor*>> list{{"dq", &dq}, {"dk", &dk}, {"dv", &dv}};
    if (dbias.count() > 0) list.emplace_back("dbias", &dbias);
    if (dsinks.count() > 0) list.emplace_back("dsinks", &dsinks);
    return list;
  }
  Tensor all() const { return joined({&y, &weights, &log_sum_exp, &dq, &dk, &dv, &dbias, &dsinks}); }
};

inline AttentionOptions options_of(const Setting& s) {
  return {.mask = s.mask, .scale = s.scale, .softcap = s.softcap, .dropout = s.dropout};
}

inline Results run(Form form, const Setting& s, const Inputs& in) {
  Rng random(7);
  Tape tape({.random = &random});
  AttentionOptions options = options_of(s);
  const Var q = variable(in.q);
  const Var k = variable(in.k);
  const Var v = variable(in.v);
  if (in.bias.count() > 0) options.bias = variable(in.bias);
  if (in.sinks.count() > 0) options.sinks = variable(in.sinks);
  const AttentionResult result = form == Form::fused
                                     ? attention_with_weights(q, k, v, options)
                                     : detail::composed_attention(detail::prepare_attention(q, k, v, options));
  tape.backward(result.y, in.up);
  Results r;
  r.y = Tensor::copy_of(result.y.value());
  r.weights = Tensor::copy_of(result.weights.value());
  r.log_sum_exp = Tensor::copy_of(result.log_sum_exp.value());
  r.dq = Tensor::copy_of(q.grad());
  r.dk = Tensor::copy_of(k.grad());
  r.dv = Tensor::copy_of(v.grad());
  if (options.bias) r.dbias = Tensor::copy_of(options.bias->grad());
  if (options.sinks) r.dsinks = Tensor::copy_of(options.sinks->grad());
  for (Tensor* empty : {&r.dbias, &r.dsinks})
    if (empty->count() == 0) *empty = Tensor({0}, in.q.dtype());
  return r;
}

// Whether the mask alone lets a query see a key.
inline bool sees(const kernels::AttentionMask& mask, const Shape& scores, std::initializer_list<Index> at) {
  const Index* index = at.begin();  // b, h, i, j
  if (index[3] < index[2] + mask.first || index[3] > index[2] + mask.last) return false;
  if (!mask.lengths.empty() && index[3] >= mask.lengths[static_cast<std::size_t>(index[0])]) return false;
  return !mask.allow || mask.allow->expand(scores).at(at) != 0;
}

struct Reference {
  std::vector<double> y, weights, log_sum_exp;
  double largest_score = 0;
};

// The formula, without dropout: every sum in double, one after the other.
inline Reference reference(const Setting& s, const Inputs& in) {
  Reference r;
  const Shape scores{s.batch, s.heads, s.queries, s.keys};
  const kernels::AttentionMask mask = s.mask.visible(s.queries, s.keys);
  for (Index b = 0; b < s.batch; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index i = 0; i < s.queries; ++i) {
        const Index key_head = h / (s.heads / s.key_heads);
        std::vector<double> row;
        double total = 0, most = -kInf;
        for (Index j = 0; j < s.keys; ++j) {
          double score = 0;
          for (Index c = 0; c < s.width; ++c) score += in.q.at({b, h, i, c}) * in.k.at({b, key_head, j, c});
          score *= s.scale;
          if (s.softcap > 0) score = s.softcap * std::tanh(score / s.softcap);
          const double bias = in.bias.count() > 0 ? ConstView(in.bias).expand(scores).at({b, h, i, j}) : 0;
          score = sees(mask, scores, {b, h, i, j}) && bias != -kInf ? score + bias : -kInf;
          if (score != -kInf) r.largest_score = std::max(r.largest_score, std::abs(score));
          row.push_back(score);
          most = std::max(most, score);
        }
        const bool dead = most == -kInf;
        if (!dead && s.sinks) most = std::max(most, in.sinks.at({h}));
        for (double& score : row) total += score = dead ? 0 : std::exp(score - most);
        if (!dead && s.sinks) total += std::exp(in.sinks.at({h}) - most);
        for (double& weight : row) r.weights.push_back(dead ? 0 : weight / total);
        r.log_sum_exp.push_back(dead ? -kInf : most + std::log(total));
        for (Index c = 0; c < s.value_width; ++c) {
          double sum = 0;
          for (Index j = 0; j < s.keys && !dead; ++j)
            sum += row[static_cast<std::size_t>(j)] / total * in.v.at({b, key_head, j, c});
          r.y.push_back(sum);
        }
      }
  return r;
}

}  // namespace attune::check_attention
