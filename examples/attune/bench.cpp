// attune bench: what this machine can do, and what of it Attune gets. In ten seconds.
#include <algorithm>
#include <chrono>

#include "arguments.h"
#include "attune/attune.h"
#include "attune/examples/show/table.h"
#include "attune/lib/kernels/gemm.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/wrap.h"
#include "command.h"
#include "peak.h"
#include "problem.h"

namespace attune::program {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The shortest time of a call, over about `budget` seconds and three calls at least.
template <class F>
double shortest(double budget, F&& f) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int calls = 0; calls < 3 || seconds_since(start) < budget; ++calls) {
    const auto before = Clock::now();
    f();
    best = std::min(best, seconds_since(before));
  }
  return best;
}

void bench_gemm(double peak, double budget, const show::Terminal& out) {
  show::Table table({{"matrix product"},
                     {"time", show::Align::right},
                     {"GFLOP/s", show::Align::right},
                     {"of the peak", show::Align::right}});
  for (const Index n : {64, 128, 256, 512, 1024}) {
    Tensor a({n, n}), b({n, n}), c({n, n});
    Rng random(1);
    fill_normal(a, random);
    fill_normal(b, random);
    const double seconds = shortest(budget / 5, [&] { kernels::gemm(c, a, b); });
    const double rate = 2e-9 * static_cast<double>(n * n * n) / seconds;
    table.row({fmt::format("{0} x {0} x {0}", n), fmt::format("{:.3g} ms", 1e3 * seconds),
               fmt::format("{:.1f}", rate), peak > 0 ? fmt::format("{:.0f} %", 100 * rate / peak) : "-"});
  }
  fmt::print("{}\n", table.text(out));
}

// A step of nanoGPT's CPU example, on random characters.
void bench_step(double budget) {
  const Recipe r = recipe_of("text", "nanogpt-cpu");
  constexpr Index vocab = 65;
  Gpt model({.vocab = vocab,
             .context = r.context,
             .layers = static_cast<int>(r.layers),
             .heads = r.heads,
             .width = r.width},
            Rng(1));
  AdamW optimizer(model, {.lr = r.lr, .beta2 = r.beta2, .decay = r.decay, .clip = 1});
  Tensor tokens({r.batch, r.context}, i32);
  Rng random(2);
  for (auto& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(random.below(vocab));
  const double seconds = shortest(budget, [&] {
    Tape tape;
    const Var loss = cross_entropy(model(tokens), tokens);
    tape.backward(loss);
    optimizer.step();
  });
  fmt::print("a training step of nanogpt-cpu ({} parameters, {} x {} tokens):\n  {:.1f} ms, {} tokens/s\n",
             grouped(parameter_count(model)), r.batch, r.context, 1e3 * seconds,
             rate_text(static_cast<double>(r.batch * r.context) / seconds));
}

int run(const Arguments& a) {
  const double seconds = a.number("--seconds", 6, {0, 3600, true}, 6);
  const double core = bench::peak_gflops(), peak = core * threads();
  const std::string limit =
      fmt::format("{} thread{}, {}; fused multiply-adds: {:.1f} GFLOP/s on one core{}", threads(),
                  threads() == 1 ? "" : "s", row(), core, threads() > 1 ? fmt::format(", {:.1f} on all", peak) : "");
  fmt::print("{}\n\n", wrapped(limit));
  bench_gemm(peak, seconds / 2, a.out());
  bench_step(seconds / 2);
  fmt::print("\nEach the best of several: other programs that run now make it less.\n");
  return kDone;
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .summary = "what this machine can do, in ten seconds",
          .about =
              "Measures the most multiply-adds that the CPU can do in a second, what matrix products get of it, and "
              "a training step of nanoGPT's CPU example.",
          .examples = {{"attune bench", "with all threads"}, {"ATTUNE_THREADS=1 attune bench", "with one"}},
          .operands = {},
          .options = {{"--seconds", "S", "how long to measure, after the CPU's peak [6]", {}}},
          .run = run};
}

}  // namespace attune::program
