// A character-level GPT learns the next character of a text file, and then writes some.
//
//   next_token FILE [steps] [seed]
//
// The model and its training are those of nanoGPT's CPU example: 4 layers, 4 heads, width 128, context 64, batch 12.
#include <chrono>
#include <cstdlib>
#include <exception>

#include "attune/attune.h"
#include "attune/examples/show/progress.h"

using namespace attune;

namespace {

constexpr Index kContext = 64, kBatch = 12;

// The mean loss over validation batches that are the same at every call.
double validation_loss(const Gpt& model, const CharacterText& text, Index batches) {
  double sum = 0;
  for (Index i = 0; i < batches; ++i) {
    const Batch batch = text.validation_batch(Rng(0, 1), i, kBatch, kContext);
    const NoGrad scope;
    sum += cross_entropy(model(batch.inputs), batch.targets).item();
  }
  return sum / static_cast<double>(batches);
}

// Draws from the softmax of the logits.
std::int32_t sample(const ConstView& logits, Rng& rng) {
  const NoGrad scope;
  const ConstView weights = softmax(Tensor::copy_of(logits)).value();
  double left = rng.uniform();
  for (Index i = 0; i < weights.count(); ++i)
    if ((left -= weights.at({i})) < 0) return static_cast<std::int32_t>(i);
  return static_cast<std::int32_t>(weights.count() - 1);
}

std::string write(const Gpt& model, const CharacterText& text, std::string_view prompt, Index characters, Rng rng) {
  std::vector<std::int32_t> ids = text.encode(prompt);
  for (Index i = 0; i < characters; ++i) {
    const auto seen = std::min<Index>(kContext, static_cast<Index>(ids.size()));
    const NoGrad scope;
    const Tensor window = Tensor::copy_of(ConstView(ids.data() + static_cast<Index>(ids.size()) - seen, {1, seen}, i32));
    ids.push_back(sample(model(window).value().select(0, 0).select(0, -1), rng));
  }
  return text.decode(ids);
}

void train(const CharacterText& text, Index steps, std::uint64_t seed) {
  Gpt model({.vocab = text.vocab(), .context = kContext, .layers = 4, .heads = 4, .width = 128}, Rng(seed));
  AdamW optimizer(model, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .decay = 0.1, .clip = 1});
  const WarmupCosine schedule{.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .total = steps};
  fmt::print("next token: {} bytes to choose from, {} parameters, {} thread{}, {}\n", text.vocab(),
             parameter_count(model), threads(), threads() == 1 ? "" : "s", row());

  const Rng data(seed, 2);
  show::Progress progress(steps);
  std::vector<double> losses;
  for (Index step = 0; step < steps; ++step) {
    const Batch batch = text.batch(data, step, kBatch, kContext);
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    losses.push_back(loss.item());
    progress.show(step + 1, fmt::format("loss {:.3f}", losses.back()));
    if (step % 250 == 0 || step + 1 == steps) fmt::print("step {:5}  loss {:.4f}\n", step, losses.back());
  }
  const double seconds = progress.seconds();
  const auto tokens = static_cast<double>(steps * kBatch * kContext);
  fmt::print("\nloss {}\n", sparkline(losses));
  fmt::print("{} step{} in {:.1f} s: {:.1f} ms a step, {:.0f} tokens/s\n", steps, steps == 1 ? "" : "s", seconds,
             1000 * seconds / static_cast<double>(steps), tokens / seconds);
  fmt::print("validation loss (200 batches) {:.4f}\n\n", validation_loss(model, text, 200));
  fmt::print("{}\n", write(model, text, text.decode(std::vector<std::int32_t>{0}), 400, Rng(seed, 3)));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    fmt::print(stderr, "usage: next_token FILE [steps] [seed]\n");
    return 2;
  }
  const Index steps = argc > 2 ? std::atoll(argv[2]) : 2000;
  train(CharacterText::from_file(argv[1]), steps, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
} catch (const std::exception& error) {
  fmt::print(stderr, "next_token: {}\n", error.what());
  return 2;
}
