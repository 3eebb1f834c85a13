// What training costs: the time of a step, its share of what the CPU can do, and what it asks of the system.
//
//   train_bench [steps]
//
// Two models: nanoGPT's CPU configuration (4 layers, 4 heads, width 128, context 64, batch 12), whose step is 3.81 GFLOP
// of matrix products, and the copy task of examples/copy.cpp. Medians; the FMA peak is measured beside them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "attune/attune.h"
#include "peak.h"

using namespace attune;

// Every call of malloc in this process, whoever makes it.
namespace {
std::atomic<long> mallocs{0};
}
extern "C" void* __libc_malloc(std::size_t);  // NOLINT: glibc's own name
extern "C" void* malloc(std::size_t bytes) {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

rusage usage() {
  rusage result{};
  getrusage(RUSAGE_SELF, &result);
  return result;
}

struct Cost {
  double seconds;                        // a step, the median
  double first;                          // from here to the end of the first step
  long mallocs, blocks, faults;          // in all timed steps together
};

template <class NextBatch>
Cost cost_of(Gpt& model, int steps, NextBatch next_batch) {
  AdamW optimizer(model, {.lr = 1e-3, .beta2 = 0.99, .decay = 0.1, .clip = 1});
  const double start = now();
  const auto step = [&](const Batch& batch) {
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
  };
  std::vector<Batch> batches;
  for (int i = 0; i < steps; ++i) batches.push_back(next_batch(i));
  step(batches[0]);
  const double first = now() - start;
  for (int i = 0; i < 3; ++i) step(batches[static_cast<std::size_t>(i)]);
  std::vector<double> times(static_cast<std::size_t>(steps));
  const long mallocs_before = mallocs, faults_before = usage().ru_minflt;
  const auto blocks_before = static_cast<long>(memory_use().allocations);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double before = now();
    step(batches[i]);
    times[i] = now() - before;
  }
  const long faults = usage().ru_minflt - faults_before, calls = mallocs - mallocs_before;
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  return {times[times.size() / 2], first, calls, static_cast<long>(memory_use().allocations) - blocks_before, faults};
}

void print(const char* name, int thread_count, const Cost& cost, double tokens, double gflop, double peak) {
  fmt::print("{:<9} {:>7}  {:>8.3f}  {:>9.0f}  {:>6.1f}  {:>10.1f}  {:>7} {:>7} {:>7}\n", name, thread_count,
             1e3 * cost.seconds, tokens / cost.seconds, 100 * gflop / cost.seconds / peak, 1e3 * cost.first,
             cost.mallocs, cost.blocks, cost.faults);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 60;
  fmt::print("{}, {} timed steps each\n\n", row(), steps);
  fmt::print("{:<9} {:>7}  {:>8}  {:>9}  {:>6}  {:>10}  {:>7} {:>7} {:>7}\n", "model", "threads", "ms/step", "tokens/s",
             "% peak", "first ms", "mallocs", "blocks", "faults");
  for (const int thread_count : {1, 2}) {
    set_threads(thread_count);
    const double peak = thread_count * bench::peak_gflops();
    Rng rng(1);
    Gpt nano({.vocab = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, Rng(1));
    const auto random_tokens = [&](int) {
      Batch batch{Tensor({12, 64}, i32), Tensor({12, 64}, i32)};
      for (auto& id : batch.inputs.data<std::int32_t>()) id = static_cast<std::int32_t>(rng.below(65));
      for (auto& id : batch.targets.data<std::int32_t>()) id = static_cast<std::int32_t>(rng.below(65));
      return batch;
    };
    print("nanoGPT", thread_count, cost_of(nano, steps, random_tokens), 12 * 64, 3.81, peak);

    const CopyTask task({.symbols = 10, .length = 15, .seed = 1});
    Gpt copy({.vocab = task.vocab(), .context = task.context(), .layers = 2, .heads = 4, .width = 64}, Rng(1));
    // Matrix products: 6 flop for each weight and token, the head included, and the scores and sums of attention.
    const double tokens = 32 * 30, gflop = 6e-9 * tokens * (2 * 12 * 64 * 64 + 11 * 64) + 12e-9 * 2 * tokens * 30 * 64;
    print("copy", thread_count, cost_of(copy, steps, [&](int i) { return task.batch(i, 32); }), tokens, gflop, peak);
    fmt::print("FMA peak of {} thread(s): {:.0f} GFLOP/s; memory at its highest: {} MB\n\n", thread_count, peak,
               usage().ru_maxrss / 1024);
  }
}
