// A small transformer learns to copy: it reads fifteen symbols and a separator, and says the symbols again.
//
//   copy [seed]
//
// What there is to see: that it solves sequences it was never shown, and how: a head that looks back exactly one
// sequence length, drawn at the end.
#include <algorithm>
#include <cstdlib>

#include "attune/attune.h"
#include "attune/examples/show/progress.h"

using namespace attune;

namespace {

// Says each sequence of [n, length] again, symbol by symbol from its own answers; returns what it said.
Tensor recite(const Gpt& model, const CopyTask& task, const Tensor& sequences) {
  const Index n = sequences.size(0), length = task.length();
  Tensor tokens({n, 2 * length}, i32), said({n, length}, i32);
  kernels::copy(tokens.view().slice(1, 0, length), sequences);
  kernels::fill(tokens.view().select(1, length), static_cast<double>(task.separator()));
  for (Index i = 0; i < length; ++i) {
    const NoGrad scope;
    const Tensor so_far = Tensor::copy_of(tokens.view().slice(1, 0, length + 1 + i));
    const ConstView logits = model(so_far).value().select(1, -1);
    for (Index row = 0; row < n; ++row) {
      const float* scores = logits.select(0, row).as<float>();
      const auto best = std::max_element(scores, scores + task.vocab()) - scores;
      said.set({row, i}, static_cast<double>(best));
      if (i + 1 < length) tokens.set({row, length + 1 + i}, static_cast<double>(best));
    }
  }
  return said;
}

std::string letters(const ConstView& symbols) {
  std::string text;
  for (Index i = 0; i < symbols.count(); ++i) text += static_cast<char>('a' + static_cast<int>(symbols.at({i})));
  return text;
}

Index count_right(const Tensor& said, const Tensor& sequences) {
  Index right = 0;
  for (Index row = 0; row < said.size(0); ++row)
    right += letters(said.view().select(0, row)) == letters(sequences.view().select(0, row));
  return right;
}

// How much of its attention a head gives, while it recites, to the symbol that it is about to say.
double copying(const ConstView& weights, Index length) {
  double sum = 0;
  for (Index i = 0; i < length; ++i) sum += weights.at({length + i, i});
  return sum / static_cast<double>(length);
}

struct Head {
  std::string layer;
  Index number = 0;
  Tensor weights;
};

Head best_copying_head(const Gpt& model, const CopyTask& task, const Tensor& inputs) {
  Head best;
  const NoGrad scope;
  const Observer watch([&](const TapPoint& at) {
    if (at.name != "weights") return;
    const ConstView maps = at.value.value().select(0, 0);
    for (Index head = 0; head < maps.size(0); ++head)
      if (best.layer.empty() || copying(maps.select(0, head), task.length()) > copying(best.weights, task.length()))
        best = {at.path, head, Tensor::copy_of(maps.select(0, head))};
  });
  model(inputs);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const CopyTask task({.symbols = 10, .length = 15, .seed = seed});
  Gpt model({.vocab = task.vocab(), .context = task.context(), .layers = 2, .heads = 4, .width = 64}, Rng(seed));
  AdamW optimizer(model, {.lr = 1e-3, .clip = 1});
  constexpr Index steps = 1500, batch_size = 32;
  const WarmupCosine schedule{.lr = 3e-3, .min_lr = 1e-4, .warmup = 50, .total = steps};
  fmt::print("copy: {} symbols, length {}; {} parameters, {} thread{}, {}\n", task.vocab() - 1, task.length(),
             parameter_count(model), threads(), threads() == 1 ? "" : "s", row());

  show::Progress progress(steps);
  std::vector<double> losses;
  for (Index step = 0; step < steps; ++step) {
    const Batch batch = task.batch(step, batch_size);
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    losses.push_back(loss.item());
    progress.show(step + 1, fmt::format("loss {:.4f}", losses.back()));
    if (step % 250 == 0 || step + 1 == steps) fmt::print("step {:4}  loss {:.4f}\n", step, losses.back());
  }
  const double seconds = progress.seconds();

  const Batch unseen = task.held_out(1000);
  const Tensor held_out = Tensor::copy_of(unseen.inputs.view().slice(1, 0, task.length()));
  Tensor said(held_out.shape(), i32);
  for (Index row = 0; row < held_out.size(0); row += 50) {
    const Tensor some = Tensor::copy_of(held_out.view().slice(0, row, row + 50));
    kernels::copy(said.view().slice(0, row, row + 50), recite(model, task, some));
  }
  fmt::print("\nloss {}\n", sparkline(losses));
  fmt::print("{} steps in {:.1f} s. Of {} sequences it has not seen, it recites {} without a mistake.\n", steps, seconds,
             held_out.size(0), count_right(said, held_out));
  fmt::print("  it read  {}\n  it said  {}\n\n", letters(held_out.view().select(0, 0)), letters(said.view().select(0, 0)));

  const Batch sample = task.batch(steps, 1);
  const Head head = best_copying_head(model, task, sample.inputs);
  std::vector<std::string> names;
  for (Index i = 0; i < task.context(); ++i) {
    const auto token = static_cast<Index>(sample.inputs.at({0, i}));
    names.push_back(token == task.separator() ? "|" : std::string(1, static_cast<char>('a' + token)));
  }
  fmt::print("Head {} of {} looks where the next symbol stands (rows: the token read; columns: what it looks at):\n{}",
             head.number, head.layer, draw_attention(head.weights, names, names));
}
