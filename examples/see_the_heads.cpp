// Induction heads appear: in a model of two layers, and in none of one layer.
//
//   see_the_heads [seed]
//
// The text is a pattern of different symbols, over and over, of a length that nobody tells: "|dbacdbacdb". To go on, a
// model must find the last time it saw this symbol and say what followed. Two layers can: a head of the first looks one
// token back, and a head of the second looks for a token whose predecessor is the present one (Elhage et al. 2021;
// Olsson et al. 2022). One layer has no way to match a predecessor. The models have attention and nothing else: with
// perceptrons between, other circuits solve it, too, and are harder to see.
//
// A head's score is the share of its attention that goes there, summed over all earlier matches, and averaged over the
// tokens from the pattern's second time on.
#include <algorithm>
#include <cstdlib>

#include "attune/attune.h"
#include "attune/examples/show/progress.h"

using namespace attune;

namespace {

// A transformer without perceptrons: x += attention(norm(x)), layer by layer.
struct AttentionOnly {
  Embedding token, position;
  std::vector<LayerNorm> norms;
  std::vector<MultiHeadAttention> layers;
  LayerNorm norm;
  Linear out;

  AttentionOnly(Index vocab, Index context, int depth, Rng rng)
      : token({.tokens = vocab, .width = kWidth}, rng),
        position({.tokens = context, .width = kWidth}, rng),
        norm(kWidth),
        out({.in = kWidth, .out = vocab}, rng) {
    for (int layer = 0; layer < depth; ++layer) {
      norms.emplace_back(kWidth);
      layers.emplace_back(MultiHeadAttentionOptions{.width = kWidth, .heads = kHeads, .mask = Mask::causal()}, rng);
    }
  }

  // tokens i32 [B, T] -> logits [B, T, V]
  Var operator()(Var tokens) const {
    const Tensor places = arange(tokens.size(-1), i32);
    const Var meaning = token(tokens);
    Var x = meaning + position(places);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Within layer("layer", static_cast<int>(i));
      x = x + layers[i](norms[i](x));
    }
    return out(norm(x));
  }

  void each(auto&& visit) {
    visit("token", token), visit("position", position);
    visit("norms", norms), visit("layers", layers);
    visit("norm", norm), visit("out", out);
  }

 private:
  static constexpr Index kWidth = 64, kHeads = 4;
};

struct Head {
  std::string layer;
  Index number = 0;
  double score = 0;
  Tensor map;  // [T, T], of the first sequence
};

using Place = bool (*)(const ConstView& tokens, Index query, Index key);

bool is_previous(const ConstView&, Index query, Index key) { return key == query - 1; }
bool follows_a_match(const ConstView& tokens, Index query, Index key) {
  return key >= 1 && key <= query && tokens.at({key - 1}) == tokens.at({query});
}

// How much of the attention [B, T, T] goes to such places, for the queries that have one.
double score_at(const ConstView& weights, const ConstView& tokens, Place place) {
  double sum = 0, queries = 0;
  for (Index b = 0; b < tokens.size(0); ++b)
    for (Index query = 0; query < tokens.size(1); ++query) {
      double mass = 0;
      bool any = false;
      for (Index key = 0; key <= query; ++key)
        if (place(tokens.select(0, b), query, key)) {
          any = true;
          mass += weights.at({b, query, key});
        }
      sum += mass;
      queries += any;
    }
  return sum / std::max(queries, 1.0);
}

// The head of the model that looks there most.
Head best_head(const AttentionOnly& model, const Tensor& tokens, Place place) {
  Head best;
  const NoGrad scope;
  const Observer watch([&](const TapPoint& at) {
    if (at.name != "weights") return;
    const ConstView weights = at.value.value();  // [B, H, T, T]
    for (Index head = 0; head < weights.size(1); ++head) {
      const double score = score_at(weights.select(1, head), tokens, place);
      if (score > best.score || best.layer.empty())
        best = {at.path, head, score, Tensor::copy_of(weights.select(0, 0).select(0, head))};
    }
  });
  model(tokens);
  return best;
}

AttentionOnly train(int layers, const InductionTask& task, std::uint64_t seed, const Tensor& probe) {
  AttentionOnly model(task.vocab(), task.context(), layers, Rng(seed));
  AdamW optimizer(model, {.beta2 = 0.98, .clip = 1});
  constexpr Index steps = 1000;
  const WarmupCosine schedule{.lr = 2e-3, .min_lr = 1e-4, .warmup = 50, .total = steps};
  show::Progress progress(steps);
  std::vector<double> losses, scores;
  for (Index step = 0; step < steps; ++step) {
    if (step % 50 == 0) scores.push_back(best_head(model, probe, follows_a_match).score);
    const Batch batch = task.batch(step, 64);
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    losses.push_back(loss.item());
    progress.show(step + 1, fmt::format("{} layer{}, loss {:.3f}", layers, layers > 1 ? "s" : "", losses.back()));
  }
  const Score result = score(model, task.held_out(500));
  fmt::print("{} layer{}: of what can be known, {:.1f} % is said right; loss {:.3f}\n", layers, layers > 1 ? "s" : "",
             100 * result.token_accuracy(), losses.back());
  fmt::print("  loss      {}\n  induction {} ... {:.2f}\n\n", sparkline(losses, 40), sparkline(scores, 40),
             best_head(model, probe, follows_a_match).score);
  return model;
}

void draw(const char* what, const Head& head, const std::vector<std::string>& names) {
  constexpr Index shown = 24;
  const ConstView corner = head.map.view().slice(0, 0, shown).slice(1, 0, shown);
  const std::span labels(names.data(), static_cast<std::size_t>(shown));
  fmt::print("{}: head {} of {}, {:.0f} % of its attention\n{}\n", what, head.number, head.layer, 100 * head.score,
             draw_attention(corner, labels, labels));
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const InductionTask task({.seed = seed});
  const Tensor probe = task.held_out(32).inputs;

  train(1, task, seed, probe);
  const AttentionOnly model = train(2, task, seed, probe);

  std::vector<std::string> names;
  for (const std::int32_t token : std::span(probe.data<std::int32_t>()).first(static_cast<std::size_t>(task.context())))
    names.push_back(task.show({&token, 1}));
  draw("The head that looks one token back", best_head(model, probe, is_previous), names);
  draw("The head that looks behind the last match", best_head(model, probe, follows_a_match), names);
}
