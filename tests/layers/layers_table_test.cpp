// Every layer through the uniform check (support/layer_check.h), against its formula in plain double, written
// here once more from the papers: nothing of it is shared with the layers, but for their weights.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "../support/layer_check.h"
#include "attention_reference.h"
#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"

using namespace attune;
using namespace attune::check_layers;
using check_ops::ids;
using check_ops::real;

namespace {

using Numbers = std::vector<double>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }
Plain plain(const Parameter& p) { return Plain(p.value()); }

// -- Plain formulas. Of all axes but the last they make one.

Index rows(const Plain& x) { return x.shape.last() == 0 ? 0 : x.shape.count() / x.shape.last(); }

Plain of_width(const Plain& x, Index width) {
  Shape shape = x.shape;
  shape[shape.rank() - 1] = width;
  return Plain(shape);
}

Plain mapped(Plain x, const std::function<double(double)>& f) {
  for (double& number : x.numbers) number = f(number);
  return x;
}

Plain sum_of(Plain a, const Plain& b) {
  for (std::size_t i = 0; i < a.numbers.size(); ++i) a.numbers[i] += b.numbers[i];
  return a;
}
Plain product_of(Plain a, const Plain& b) {
  for (std::size_t i = 0; i < a.numbers.size(); ++i) a.numbers[i] *= b.numbers[i];
  return a;
}

// y = x W + b
Plain affine(const Plain& x, const Linear& map) {
  const Plain w = plain(map.weight);
  const Index in = w.shape[0], out = w.shape[1];
  Plain y = of_width(x, out);
  for (Index row = 0; row < rows(x); ++row)
    for (Index j = 0; j < out; ++j) {
      double total = map.bias.exists() ? plain(map.bias)(j) : 0;
      for (Index i = 0; i < in; ++i) total += x.numbers[at(row * in + i)] * w(i, j);
      y.numbers[at(row * out + j)] = total;
    }
  return y;
}

Plain looked_up(const Plain& tokens, const Plain& table) {
  Shape shape = tokens.shape;
  shape.append(table.shape[1]);
  Plain y(shape);
  std::size_t to = 0;
  for (const double token : tokens.numbers)
    for (Index j = 0; j < table.shape[1]; ++j) y.numbers[to++] = table(static_cast<Index>(token), j);
  return y;
}

// (x - mean) / sqrt(variance + epsilon) * gain + shift
Plain normal(const Plain& x, const LayerNorm& norm) {
  Plain y = x;
  const Index width = x.shape.last();
  for (Index row = 0; row < rows(x); ++row) {
    double* line = &y.numbers[at(row * width)];
    double mean = 0, variance = 0;
    for (Index i = 0; i < width; ++i) mean += line[i] / static_cast<double>(width);
    for (Index i = 0; i < width; ++i)
      variance += (line[i] - mean) * (line[i] - mean) / static_cast<double>(width);
    for (Index i = 0; i < width; ++i)
      line[i] =
          (line[i] - mean) / std::sqrt(variance + norm.epsilon) * plain(norm.weight)(i) + plain(norm.bias)(i);
  }
  return y;
}

// x / sqrt(mean square + epsilon) * gain
Plain normal(const Plain& x, const RmsNorm& norm) {
  Plain y = x;
  const Index width = x.shape.last();
  for (Index row = 0; row < rows(x); ++row) {
    double* line = &y.numbers[at(row * width)];
    double square = 0;
    for (Index i = 0; i < width; ++i) square += line[i] * line[i] / static_cast<double>(width);
    for (Index i = 0; i < width; ++i)
      line[i] = line[i] / std::sqrt(square + norm.epsilon) * plain(norm.weight)(i);
  }
  return y;
}

Plain normal(const Plain& x, const Norm& norm) {
  return std::visit([&](const auto& kind) { return normal(x, kind); }, norm.kind);
}

double gelu_of(double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_tanh_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double silu_of(double x) { return x / (1 + std::exp(-x)); }
double relu_of(double x) { return x > 0 ? x : 0; }

Plain thought(const Plain& x, const Mlp& mlp) {
  const Plain above = affine(x, mlp.up);
  switch (mlp.activation) {
    case Activation::gelu:
      return affine(mapped(above, gelu_of), mlp.down);
    case Activation::gelu_tanh:
      return affine(mapped(above, gelu_tanh_of), mlp.down);
    case Activation::relu:
      return affine(mapped(above, relu_of), mlp.down);
    case Activation::silu:
      return affine(mapped(above, silu_of), mlp.down);
    case Activation::swiglu:
      break;
  }
  return affine(product_of(mapped(affine(x, mlp.gate), silu_of), above), mlp.down);
}

// sin(p / 10000^(2i/width)) and cos beside it, for positions from `first` on.
Plain with_sinusoids(Plain x, Index first) {
  const Index width = x.shape.last(), time = x.shape.last(1);
  for (Index row = 0; row < rows(x); ++row)
    for (Index c = 0; c < width; ++c) {
      const double angle = static_cast<double>(first + row % time) /
                           std::pow(10000, static_cast<double>(c / 2 * 2) / static_cast<double>(width));
      x.numbers[at(row * width + c)] += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return x;
}

// Pairs (i, i + d/2), or (2i, 2i + 1), turned by p * 10000^(-2i/d).
Plain turned(Plain x, Index first, RotaryPairs pairs) {
  const Index width = x.shape.last(), time = x.shape.last(1);
  for (Index row = 0; row < rows(x); ++row)
    for (Index i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(first + row % time) *
                           std::pow(10000, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const bool half = pairs == RotaryPairs::half_split;
      double& a = x.numbers[at(row * width + (half ? i : 2 * i))];
      double& b = x.numbers[at(row * width + (half ? i + width / 2 : 2 * i + 1))];
      const double before = a;
      a = before * std::cos(angle) - b * std::sin(angle);
      b = before * std::sin(angle) + b * std::cos(angle);
    }
  return x;
}

// Columns begin ... of x [B, L, C] as [B, heads, L, width].
Plain heads_of(const Plain& x, Index begin, Index heads, Index width) {
  Plain y({x.shape[0], heads, x.shape[1], width});
  for (Index b = 0; b < x.shape[0]; ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index i = 0; i < x.shape[1]; ++i)
        for (Index c = 0; c < width; ++c) y(b, h, i, c) = x(b, i, begin + h * width + c);
  return y;
}

Tensor tensor_of(const Plain& x) {
  Tensor result(x.shape, f64);
  std::copy(x.numbers.begin(), x.numbers.end(), result.data<double>().begin());
  return result;
}

// -slope |i + S - L - j|, with a slope of 2^(-8 (h + 1) / H): for H a power of two.
Tensor plain_alibi(Index heads, Index queries, Index keys) {
  Plain bias({heads, queries, keys});
  for (Index h = 0; h < heads; ++h)
    for (Index i = 0; i < queries; ++i)
      for (Index j = 0; j < keys; ++j)
        bias(h, i, j) = -std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads)) *
                        std::abs(static_cast<double>(i + keys - queries - j));
  return tensor_of(bias);
}

// x [B, L, C] asks itself (no memory), or a memory [B, S, C'].
Plain attended(const Plain& x, const Plain* memory, const MultiHeadAttention& layer, const Mask& mask) {
  const MultiHeadAttentionOptions& o = layer.options;
  const Plain asked = affine(x, memory ? layer.query : layer.qkv);
  const Plain known = memory ? affine(*memory, layer.key_value) : asked;
  const Index keys_begin = memory ? 0 : o.heads * o.key_width,
              values_begin = keys_begin + o.kv_heads * o.key_width;
  Plain q = heads_of(asked, 0, o.heads, o.key_width),
        k = heads_of(known, keys_begin, o.kv_heads, o.key_width);
  if (o.rope) q = turned(q, 0, RotaryPairs::half_split), k = turned(k, 0, RotaryPairs::half_split);

  const Index queries = q.shape[2], keys = k.shape[2];
  check_attention::Setting s{.batch = x.shape[0], .heads = o.heads, .key_heads = o.kv_heads};
  s.queries = queries, s.keys = keys, s.width = o.key_width, s.value_width = o.value_width;
  s.mask = o.mask & mask, s.scale = o.scale(o.key_width), s.softcap = o.softcap, s.sinks = o.sinks;
  check_attention::Inputs in;
  in.q = tensor_of(q), in.k = tensor_of(k),
  in.v = tensor_of(heads_of(known, values_begin, o.kv_heads, o.value_width));
  in.bias = o.alibi ? plain_alibi(o.heads, queries, keys) : Tensor({0}, f64);
  if (o.sinks) in.sinks = Tensor::copy_of(layer.sinks.value());
  const Numbers y = check_attention::reference(s, in).y;

  Plain merged({x.shape[0], queries, o.heads * o.value_width});
  std::size_t from = 0;
  for (Index b = 0; b < x.shape[0]; ++b)
    for (Index h = 0; h < o.heads; ++h)
      for (Index i = 0; i < queries; ++i)
        for (Index c = 0; c < o.value_width; ++c) merged(b, i, h * o.value_width + c) = y[from++];
  return affine(merged, layer.out);
}

// x + f(norm(x)), or norm(x + f(x)).
template <class F>
Plain added(const Plain& x, const Norm& norm, NormPlace place, F&& f) {
  return place == NormPlace::pre ? sum_of(x, f(normal(x, norm))) : normal(sum_of(x, f(x)), norm);
}

Plain through(const Plain& x, const TransformerBlock& block, const Mask& mask = {}) {
  const Plain between = added(x, block.norm1, block.place,
                              [&](const Plain& y) { return attended(y, nullptr, block.attention, mask); });
  return added(between, block.norm2, block.place, [&](const Plain& y) { return thought(y, block.mlp); });
}

Plain through(const Plain& x, const Plain& memory, const DecoderLayer& layer, const Mask& mask) {
  const Plain self = added(x, layer.norm1, layer.place,
                           [&](const Plain& y) { return attended(y, nullptr, layer.attention, {}); });
  const Plain informed = added(self, layer.norm2, layer.place,
                               [&](const Plain& y) { return attended(y, &memory, layer.cross, mask); });
  return added(informed, layer.norm3, layer.place, [&](const Plain& y) { return thought(y, layer.mlp); });
}

Plain logits_of(const Plain& tokens, const Gpt& model) {
  Plain x = looked_up(tokens, plain(model.token.weight));
  if (model.position.weight.exists())
    for (Index row = 0; row < rows(x); ++row)
      for (Index c = 0; c < x.shape.last(); ++c)
        x.numbers[at(row * x.shape.last() + c)] += plain(model.position.weight)(row % tokens.shape[1], c);
  for (const TransformerBlock& block : model.blocks) x = through(x, block);
  x = normal(x, model.norm);
  if (model.head.exists()) return affine(x, model.head);
  const Plain words = plain(model.token.weight);
  Plain y = of_width(x, words.shape[0]);
  for (Index row = 0; row < rows(x); ++row)
    for (Index v = 0; v < words.shape[0]; ++v)
      for (Index c = 0; c < words.shape[1]; ++c)
        y.numbers[at(row * words.shape[0] + v)] += x.numbers[at(row * words.shape[1] + c)] * words(v, c);
  return y;
}

// -- How layers are made and called.

template <class Layer, class Options>
auto make(const Options& options) {
  return [=] {
    Rng rng(3);
    return Layer(options, rng);
  };
}

constexpr auto call = [](const auto& layer, Vars x) { return layer(x[0]); };

// Rope has no parameters, and need not say so.
struct TurnedByRope {
  Rope rope;
  void each(auto&&) const {}
};

void check_attention_layer(const std::string& what, const MultiHeadAttentionOptions& options,
                           std::vector<check_ops::Refusal> errors = {}) {
  const auto made = make<MultiHeadAttention>(options);
  errors.push_back(
      {[=] {
         made()(zeros({2, 5, 7}));
       },
       fmt::format("linear: [2, 5, 7] x {}: inner sizes 7 and 8 differ", made().qkv.weight.shape())});
  check_layer(
      {.name = "MultiHeadAttention " + what, .inputs = {real({2, 5, 8})}, .errors = std::move(errors)}, made,
      call, [](const MultiHeadAttention& layer, Plains x) { return attended(x[0], nullptr, layer, {}); });
}

// Weights large enough that every part has something to say.
GptOptions small_gpt() {
  return {.vocab = 11, .context = 6, .layers = 2, .heads = 2, .width = 8, .hidden = 12, .deviation = 0.3};
}

void check_gpt(const std::string& what, const GptOptions& options,
               std::vector<check_ops::Refusal> errors = {}) {
  check_layer(
      {.name = "Gpt " + what, .inputs = {ids({2, 6}, 11)}, .errors = std::move(errors)},
      [=] { return Gpt(options, Rng(3)); }, call,
      [](const Gpt& model, Plains x) { return logits_of(x[0], model); });
}

}  // namespace

TEST_CASE("layers, uniformly: Linear") {
  const auto narrow = make<Linear>(LinearOptions{.in = 4, .out = 3});
  check_layer(
      {.name = "Linear",
       .inputs = {real({2, 5, 4})},
       .errors = {{[] { make<Linear>(LinearOptions{.in = 3, .out = 0})(); }, "linear: no map from 3 to 0"},
                  {[=] {
                     narrow()(Tensor({2, 5}));
                   },
                   "linear: [2, 5] x [4, 3]: inner sizes 5 and 4 differ"}}},
      narrow, call, [](const Linear& layer, Plains x) { return affine(x[0], layer); });
}

TEST_CASE("layers, uniformly: Embedding") {
  const auto table = make<Embedding>(EmbeddingOptions{.tokens = 7, .width = 5});
  check_layer({.name = "Embedding",
               .inputs = {ids({2, 6}, 7)},
               .errors = {{[=] {
                             table()(tensor({0, 1}));
                           },
                           "embedding: ids are i32, not f32"},
                          {[=] {
                             table()(tensor({0, 7}, i32));
                           },
                           "embedding: id 7 at [1] is outside of a table of 7 rows"}}},
              table, call,
              [](const Embedding& layer, Plains x) { return looked_up(x[0], plain(layer.weight)); });
}

TEST_CASE("layers, uniformly: LayerNorm and RmsNorm") {
  check_layer(
      {.name = "LayerNorm",
       .inputs = {real({2, 5, 7})},
       .errors = {{[] {
                     LayerNorm(4)(Tensor({2, 5}));
                   },
                   "layer_norm: weight [4] and bias [4] do not fit rows of [2, 5]"}}},
      [] { return LayerNorm(7); }, call,
      [](const LayerNorm& layer, Plains x) { return normal(x[0], layer); });
  check_layer(
      {.name = "RmsNorm",
       .inputs = {real({2, 5, 7})},
       .errors = {{[] {
                     RmsNorm(4)(Tensor({2, 5}));
                   },
                   "rms_norm: weight [4] does not fit rows of [2, 5]"}}},
      [] { return RmsNorm(7); }, call, [](const RmsNorm& layer, Plains x) { return normal(x[0], layer); });
}

TEST_CASE("layers, uniformly: Dropout") {
  check_layer(
      {.name = "Dropout",
       .inputs = {real({2, 5, 7})},
       .errors = {{[] { Dropout(1.5); }, "dropout: a share of 1.5 is not between 0 and 1"}},
       .draws = true},
      [] { return Dropout(0.4); }, call,
      [](const Dropout& layer, Plains x) {
        Rng random(7);  // the first to draw from what the tape has
        const Tape tape({.random = &random});
        Tensor factors(x[0].shape, f64);
        kernels::dropout_factors(factors, kernels::dropout_mask(draw_stream(), layer.share));
        return product_of(x[0], Plain(factors));
      });
}

TEST_CASE("layers, uniformly: Mlp, with every activation") {
  for (const auto& [name, activation] : {std::pair("gelu", Activation::gelu),
                                         {"gelu_tanh", Activation::gelu_tanh},
                                         {"relu", Activation::relu},
                                         {"silu", Activation::silu},
                                         {"swiglu", Activation::swiglu}})
    check_layer({.name = std::string("Mlp ") + name,
                 .inputs = {real({2, 5, 6}, -2, 1.5)},  // from which nothing comes close to the kink of relu
                 .errors = {{[=] {
                               make<Mlp>(MlpOptions{.width = 6, .activation = activation})()(Tensor({2, 5}));
                             },
                             activation == Activation::swiglu
                                 ? "linear: [2, 5] x [6, 16]: inner sizes 5 and 6 differ"
                                 : "linear: [2, 5] x [6, 24]: inner sizes 5 and 6 differ"}}},
                make<Mlp>(MlpOptions{.width = 6, .activation = activation}), call,
                [](const Mlp& layer, Plains x) { return thought(x[0], layer); });
}

TEST_CASE("layers, uniformly: SinusoidalPositions and Rope") {
  check_layer(
      {.name = "SinusoidalPositions",
       .inputs = {real({2, 5, 7})},
       .errors = {{[] {
                     SinusoidalPositions(4, 5)(zeros({2, 2, 5}), 3);
                   },
                   "sinusoidal: positions 3 to 4 are not below 4"}}},
      [] { return SinusoidalPositions(8, 7); },
      [](const SinusoidalPositions& layer, Vars x) { return layer(x[0], 2); },
      [](const SinusoidalPositions&, Plains x) { return with_sinusoids(x[0], 2); });
  for (const auto& [name, pairs] :
       {std::pair("half_split", RotaryPairs::half_split), {"interleaved", RotaryPairs::interleaved}})
    check_layer(
        {.name = std::string("Rope ") + name,
         .inputs = {real({2, 3, 5, 6})},
         .errors = {{[] { Rope({.width = 5, .context = 8}); },
                     "rope: a width of 5 does not consist of pairs"},
                    {[] {
                       Rope({.width = 4, .context = 8})(zeros({3, 4}), 6);
                     },
                     "rope: positions 6 to 8 are not below 8"}}},
        [pairs = pairs] { return TurnedByRope{Rope({.width = 6, .context = 8, .pairs = pairs})}; },
        [](const TurnedByRope& layer, Vars x) { return layer.rope(x[0], 2); },
        [pairs = pairs](const TurnedByRope&, Plains x) { return turned(x[0], 2, pairs); });
}

TEST_CASE("layers, uniformly: MultiHeadAttention of a sequence to itself") {
  const MultiHeadAttentionOptions usual{.width = 8, .heads = 2, .mask = Mask::causal()};
  check_attention_layer(
      "causal", usual,
      {{[] { make<MultiHeadAttention>(MultiHeadAttentionOptions{.width = 16, .heads = 3})(); },
        "attention: a width of 16 does not divide among 3 heads"}});
  const auto with = [&](auto&& change) {
    MultiHeadAttentionOptions options = usual;
    change(options);
    return options;
  };
  using Options = MultiHeadAttentionOptions;
  check_attention_layer(
      "rope", with([](Options& o) { o.rope = Rope({.width = 4, .context = 8}); }),
      {{[] {
          make<MultiHeadAttention>(
              Options{.width = 8, .memory_width = 8, .heads = 2, .rope = Rope({.width = 4, .context = 8})})();
        },
        "attention: rope has no meaning between a sequence and a memory"}});
  check_attention_layer("alibi", with([](Options& o) { o.alibi = true; }));
  check_attention_layer("sinks", with([](Options& o) { o.sinks = true; }));
  check_attention_layer("grouped", with([](Options& o) { o.heads = 4, o.kv_heads = 2; }),
                        {{[] { make<MultiHeadAttention>(Options{.width = 8, .heads = 4, .kv_heads = 3})(); },
                          "attention: 4 heads do not share 3 heads of keys and values"}});
  check_attention_layer("softcap", with([](Options& o) { o.softcap = 1.5; }));
}

TEST_CASE("layers, uniformly: MultiHeadAttention to a memory with padding") {
  const MultiHeadAttentionOptions options{.width = 8, .memory_width = 6, .heads = 2};
  check_layer(
      {.name = "MultiHeadAttention cross",
       .inputs = {real({2, 4, 8}), real({2, 5, 6})},
       .errors = {{[=] {
                     make<MultiHeadAttention>(options)()(zeros({2, 4, 8}));
                   },
                   "attention: this layer asks a memory of width 6, and got none"}},
       .larger = 1},
      make<MultiHeadAttention>(options),
      [](const MultiHeadAttention& layer, Vars x) {
        return layer(x[0], x[1], Mask::padding({5, 3}));
      },
      [](const MultiHeadAttention& layer, Plains x) {
        return attended(x[0], &x[1], layer, Mask::padding({5, 3}));
      });
}

TEST_CASE("layers, uniformly: TransformerBlock, pre and post, EncoderLayer and DecoderLayer") {
  const std::vector<check_ops::Refusal> narrow = {
      {[] { make<EncoderLayer>(EncoderLayerOptions{.width = 8, .heads = 3})(); },
       "attention: a width of 8 does not divide among 3 heads"}};
  for (const NormPlace place : {NormPlace::pre, NormPlace::post}) {
    const bool pre = place == NormPlace::pre;
    check_layer(
        {.name = pre ? "TransformerBlock pre" : "TransformerBlock post",
         .inputs = {real({2, 5, 8})},
         .errors = narrow},
        make<TransformerBlock>(TransformerBlockOptions{
            .attention = {.width = 8, .heads = 2, .mask = Mask::causal()},
            .mlp = {.width = 8, .hidden = 12, .activation = pre ? Activation::gelu : Activation::swiglu},
            .place = place,
            .normalize = pre ? Normalize::layer : Normalize::rms}),
        call, [](const TransformerBlock& block, Plains x) { return through(x[0], block); });
  }
  const EncoderLayerOptions options{.width = 8, .heads = 2, .hidden = 12, .activation = Activation::gelu};
  check_layer(
      {.name = "EncoderLayer", .inputs = {real({2, 5, 8})}, .errors = narrow, .larger = 1},
      make<EncoderLayer>(options),
      [](const EncoderLayer& layer, Vars x) {
        return layer(x[0], Mask::padding({5, 3}));
      },
      [](const EncoderLayer& layer, Plains x) {
        return through(x[0], layer, Mask::padding({5, 3}));
      });
  check_layer(
      {.name = "DecoderLayer", .inputs = {real({2, 4, 8}), real({2, 5, 8})}, .errors = narrow, .larger = 1},
      make<DecoderLayer>(options),
      [](const DecoderLayer& layer, Vars x) {
        return layer(x[0], x[1], Mask::padding({5, 3}));
      },
      [](const DecoderLayer& layer, Plains x) {
        return through(x[0], x[1], layer, Mask::padding({5, 3}));
      });
}

TEST_CASE("layers, uniformly: Gpt, of two kinds, and one that reads from a cache") {
  check_gpt("learned positions", small_gpt(),
            {{[] {
                Gpt(small_gpt(), Rng(1))(Tensor({2, 7}, i32));
              },
              "gpt: 7 tokens do not fit into a context of 6"},
             {[] { Gpt(small_gpt(), Rng(1))(Tensor({4}, i32)); }, "gpt: tokens [4] are not [batch, time]"}});
  GptOptions other = small_gpt();
  other.heads = 4, other.kv_heads = 2, other.bias = true, other.tied = false, other.softcap = 2;
  other.positions = Positions::rope, other.normalize = Normalize::rms, other.activation = Activation::swiglu;
  GptOptions three_heads = other;
  three_heads.heads = 3;
  check_gpt("rope rms swiglu", other,
            {{[=] { Gpt(three_heads, Rng(1)); }, "gpt: a width of 8 does not divide among 3 heads"}});
  const auto read_while_training = [=] {
    const Gpt model(other, Rng(1));
    GptCache cache = model.cache();
    model(tensor({{1}}, i32), cache);
  };
  check_layer(
      {.name = "Gpt cached",
       .inputs = {ids({2, 6}, 11)},
       .errors = {{read_while_training, "attention: a cache holds no gradients: read it under NoGrad"}},
       .under_nograd = true},
      [=] { return Gpt(other, Rng(3)); },
      [](const Gpt& model, Vars x) {
        GptCache cache = model.cache(x[0].size(0));
        std::vector<Var> parts;
        Index begin = 0;
        for (const Index more : {3, 1, 2}) {
          const Var tokens = slice(x[0], 1, begin, begin + more);
          parts.push_back(model(tokens, cache));
          begin += more;
        }
        return concat(parts, 1);
      },
      [](const Gpt& model, Plains x) { return logits_of(x[0], model); });
}
