// Attention with numbers small enough to check by hand, and a causal table.
//
//   attention_by_hand [FILE]     FILE holds x, w_q, w_k and w_v; by default the four tokens beside this source
//
// First: one query, two keys. q = [1, 1] points where k1 = [1, 1] points, and at a right angle to k2 = [1, -1].
// Then: four tokens of width 8, drawn from N(0, 1), their weights from N(0, 0.3²) (NumPy's default_rng(0)).
#include <exception>

#include "attune/attune.h"

using namespace attune;

namespace {

// What attention() computes on its way, by the names of its taps.
struct Seen {
  Tensor scores, weights, output;
};

Seen attend(Var q, Var k, Var v, const AttentionOptions& options) {
  Seen seen;
  const Observer watch([&](const TapPoint& at) {
    (at.name == "scores" ? seen.scores : seen.weights) = Tensor::copy_of(at.value.value());
  });
  seen.output = Tensor::copy_of(attention(q, k, v, options).value());
  return seen;
}

void two_keys() {
  const Tensor q = tensor({{1, 1}}, f64), k = tensor({{1, 1}, {1, -1}}, f64), v = tensor({{1, 0}, {0, 1}}, f64);
  fmt::print("q = [1, 1]; k1 = [1, 1], k2 = [1, -1]; v1 = [1, 0], v2 = [0, 1]\n\n");
  for (const bool scaled : {true, false}) {
    const NoGrad scope;
    const Seen seen = attend(q, k, v, {.scale = scaled ? Scale() : Scale::none()});
    fmt::print("{}\n", scaled ? "q·k / √2, as the transformer does:" : "q·k without the scale, the softmax is sharper:");
    fmt::print("  scores   {:.3f}\n  weights  {:.2f}\n  output   {:.2f}\n\n", seen.scores, seen.weights, seen.output);
  }
}

void four_tokens(const std::string& path) {
  const SafetensorsFile file = read_safetensors(path);
  const auto named = [&](const char* name) -> const Tensor& {
    const Tensor* tensor = file.find(name);
    check(tensor != nullptr, "attention_by_hand: {} has no tensor '{}'", path, name);
    return *tensor;
  };
  const NoGrad scope;
  const Var x = named("x");
  const Var q = matmul(x, named("w_q")), k = matmul(x, named("w_k")), v = matmul(x, named("w_v"));
  const Seen seen = attend(q, k, v, {.mask = Mask::causal()});
  fmt::print("Four tokens, causal: each row says how a token divides its attention among those up to itself.\n");
  fmt::print("{:.2f}\n\n{}", seen.weights, draw_attention(seen.weights));
}

}  // namespace

int main(int argc, char** argv) try {
  two_keys();
  four_tokens(argc > 1 ? argv[1] : ATTUNE_EXAMPLES_DIR "/four_tokens.safetensors");
} catch (const std::exception& error) {
  fmt::print(stderr, "attention_by_hand: {}\n", error.what());
  return 2;
}
