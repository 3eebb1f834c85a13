// Attention finds an alignment that nobody told it: a decoder reads words backwards, and learns where to look.
//
//   cross_attention [seed]
//
// A word of eight letters comes in, and must come out reversed and in capitals. The decoder sees only which place it is
// to write, and the encoder's letters; so all that it can learn about the word it must fetch by attention from the right
// place. The picture at the end is the alignment that it found (Bahdanau, Cho & Bengio 2015, figure 3, drew the first).
#include <cstdlib>

#include "attune/attune.h"
#include "attune/examples/show/progress.h"

using namespace attune;

namespace {

constexpr Index kLetters = 26, kLength = 8, kWidth = 32;

struct Reverser {
  Embedding letter, place, answer_place;
  MultiHeadAttention look;
  Linear out;

  explicit Reverser(Rng rng)
      : letter({.tokens = kLetters, .width = kWidth}, rng),
        place({.tokens = kLength, .width = kWidth}, rng),
        answer_place({.tokens = kLength, .width = kWidth}, rng),
        look({.width = kWidth, .memory_width = kWidth}, rng),
        out({.in = kWidth, .out = kLetters}, rng) {}

  // words i32 [B, 8] -> logits [B, 8, 26]
  Var operator()(Var words) const {
    const Tensor places = arange(kLength, i32);
    const Var letters = letter(words);
    const Var memory = letters + place(places);
    const Var asked = answer_place(places);
    const Var question = expand(asked, {words.size(0), kLength, kWidth});
    return out(look(question, memory));
  }

  void each(auto&& visit) {
    visit("letter", letter), visit("place", place), visit("answer_place", answer_place);
    visit("look", look), visit("out", out);
  }
};

// Words, and what is to be made of them.
Batch draw_words(Index n, Rng rng) {
  Batch batch{Tensor({n, kLength}, i32), Tensor({n, kLength}, i32)};
  for (Index b = 0; b < n; ++b)
    for (Index i = 0; i < kLength; ++i) {
      const auto symbol = static_cast<double>(rng.below(kLetters));
      batch.inputs.set({b, i}, symbol);
      batch.targets.set({b, kLength - 1 - i}, symbol);
    }
  return batch;
}

std::vector<std::string> as_letters(const ConstView& word, char first) {
  std::vector<std::string> letters;
  for (Index i = 0; i < word.count(); ++i)
    letters.emplace_back(1, static_cast<char>(first + static_cast<int>(word.at({i}))));
  return letters;
}

Tensor alignment(const Reverser& model, const Tensor& word) {
  Tensor weights({kLength, kLength});
  const NoGrad scope;
  const Observer watch([&](const TapPoint& at) {
    if (at.name == "weights") weights = Tensor::copy_of(at.value.value().select(0, 0).select(0, 0));
  });
  model(word);
  return weights;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  Reverser model{Rng(seed)};
  AdamW optimizer(model, {.lr = 1e-2});
  const Batch sample = draw_words(1, Rng(seed, 1));
  const auto read = as_letters(sample.inputs.view().select(0, 0), 'a');
  const auto said = as_letters(sample.targets.view().select(0, 0), 'A');

  constexpr int steps = 400;
  show::Progress progress(steps);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = draw_words(64, Rng(seed, 2 + static_cast<std::uint64_t>(step)));
    if (step == 0 || step == 100)
      fmt::print("What it looks at after {} steps (rows: letters to write, columns: letters read):\n{}\n", step,
                 draw_attention(alignment(model, sample.inputs), said, read));
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    progress.show(step + 1, fmt::format("loss {:.4f}", loss.item()));
  }

  const Score result = score(model, draw_words(1000, Rng(seed).split("unseen")));
  fmt::print("After {} steps:\n{}\n", steps, draw_attention(alignment(model, sample.inputs), said, read));
  fmt::print("Of 1000 new words, {} are reversed without a mistake.\n", result.right_sequences);
}
