// What is timed beside the FMA peak and beside peers: a training step of three models, and attention alone, forward and
// backward. Each is made once, with its inputs, and then run again and again.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "attune/attune.h"

namespace bench {

using namespace attune;

struct Workload {
  std::function<void()> run;
  double gflop;       // the matrix products of a run; of attention, the half that a causal mask leaves
  double tokens = 0;  // where there are any
};

constexpr std::size_t kBatches = 16;  // are there, and are read in turn

// A training step of a Gpt with AdamW. `batch(i)` is the i-th batch.
template <class MakeBatch>
Workload training_step(const GptOptions& options, MakeBatch batch) {
  struct Training {
    explicit Training(const GptOptions& size) : model(size, Rng(1)) {}
    Gpt model;
    AdamW optimizer{model, {.lr = 1e-3, .beta2 = 0.99, .decay = 0.1, .clip = 1}};
    std::array<Batch, kBatches> batches;
    std::size_t step = 0;
  };
  const auto training = std::make_shared<Training>(options);
  for (std::size_t i = 0; i < kBatches; ++i) training->batches[i] = batch(static_cast<Index>(i));

  const Tensor& ids = training->batches[0].inputs;
  const auto tokens = static_cast<double>(ids.count()), length = static_cast<double>(ids.size(1)),
             width = static_cast<double>(options.width), vocab = static_cast<double>(options.vocab);
  // 6 flop for each weight and token (2 forward, 4 backward), and 6 for each number of a query or value and key it
  // sees.
  const double flop = 6 * tokens * (options.layers * (12 * width * width + length * width) + vocab * width);
  return {[training] {
            const Batch& now = training->batches[training->step++ % kBatches];
            Tape tape;
            const Var loss = cross_entropy(training->model(now.inputs), now.targets);
            tape.backward(loss);
            training->optimizer.step();
          },
          1e-9 * flop, tokens};
}

// nanoGPT's CPU configuration, on random characters: 12 x 64 tokens.
inline Workload nanogpt() {
  Rng random(1);
  const auto tokens = [&] {
    Tensor ids({12, 64}, i32);
    for (auto& id : ids.data<std::int32_t>()) id = static_cast<std::int32_t>(random.below(65));
    return ids;
  };
  return training_step({.vocab = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, [&](Index) {
    return Batch{tokens(), tokens()};
  });
}

// The copy task, `batch` x 30 tokens.
inline Workload copying(int layers, Index width, Index batch) {
  const CopyTask task({.symbols = 10, .length = 15, .seed = 1});
  return training_step({.vocab = task.vocab(), .context = task.context(), .layers = layers, .heads = 4, .width = width},
                       [&](Index i) { return task.batch(i, batch); });
}

// Causal attention of 4 sequences in 8 heads of 64.
inline Workload attention_of(Index length) {
  const Shape shape{4, 8, length, 64};
  std::array<Tensor, 4> given{Tensor(shape), Tensor(shape), Tensor(shape), Tensor(shape)};
  Rng random(1);
  for (Tensor& each : given) fill_normal(each, random);
  const auto elements = static_cast<double>(given[0].count());
  // Two products forward and five backward, each of 2 flop an element and key, half of which are seen.
  return {[given = std::make_shared<std::array<Tensor, 4>>(std::move(given))] {
            const auto& [q, k, v, dy] = *given;
            Tape tape;
            const Var y = attention(variable(q), variable(k), variable(v), {.mask = Mask::causal()});
            tape.backward(y, dy);
          },
          1e-9 * 7 * elements * static_cast<double>(length)};
}

struct NamedWorkload {
  const char* name;
  Workload (*make)();
};
inline constexpr NamedWorkload kWorkloads[] = {
    {"nanogpt", nanogpt},
    {"copy", [] { return copying(2, 64, 32); }},  // as examples/copy.cpp
    {"small", [] { return copying(1, 32, 8); }},  // 13,792 parameters
    {"attention/256", [] { return attention_of(256); }},
    {"attention/1024", [] { return attention_of(1024); }},
    {"attention/4096", [] { return attention_of(4096); }},
};

}  // namespace bench
