// Small transformers learn toy tasks: which of them, to what, and in how many steps.
//
//   tasks [name] [seed]      copy, reverse, sort, addition, parity, "parity of all", recall, induction; all unless named
//
// What there is to see: copying, reversing, sorting and addition are solved with one mistake in a thousand at most; the
// parity of a whole sequence is not learned where the parities on the way to it are; recall needs larger initial weights
// than language does; and whether these steps are enough for induction depends on the seed.
#include <cstdlib>
#include <memory>

#include "attune/attune.h"
#include "attune/examples/show/progress.h"

using namespace attune;

namespace {

struct Plan {
  const char* name;
  std::unique_ptr<Task> (*task)(std::uint64_t seed);
  double lr;
  Index steps;
  Index heads = 4;
  double deviation = 0.02, beta2 = 0.999;
};

template <class Made, class Options>
std::unique_ptr<Task> made(std::uint64_t seed) {
  Options options;
  options.seed = seed;
  return std::make_unique<Made>(options);
}
std::unique_ptr<Task> running_parity(std::uint64_t seed) {
  return std::make_unique<ParityTask>(ParityTaskOptions{.running = true, .seed = seed});
}

const Plan kPlans[] = {
    {"copy", made<CopyTask, CopyTaskOptions>, 3e-3, 1500},
    {"reverse", made<ReverseTask, ReverseTaskOptions>, 3e-3, 1500},
    {"sort", made<SortTask, SortTaskOptions>, 3e-3, 1500},
    {"addition", made<AdditionTask, AdditionTaskOptions>, 3e-3, 4000},
    {"parity", running_parity, 1e-3, 3000},
    {"parity of all", made<ParityTask, ParityTaskOptions>, 1e-3, 2000},
    {"recall", made<RecallTask, RecallTaskOptions>, 1e-3, 500, 2, 0.1, 0.98},
    {"induction", made<InductionTask, InductionTaskOptions>, 3e-3, 1500},
};

void learn(const Plan& plan, std::uint64_t seed) {
  const std::unique_ptr<Task> task = plan.task(seed);
  Gpt model({.vocab = task->vocab(),
             .context = task->context(),
             .layers = 2,
             .heads = plan.heads,
             .width = 64,
             .deviation = plan.deviation},
            Rng(seed));
  AdamW optimizer(model, {.beta2 = plan.beta2, .clip = 1});
  const WarmupCosine schedule{.lr = plan.lr, .min_lr = plan.lr / 30, .warmup = 50, .total = plan.steps};
  show::Progress progress(plan.steps);
  std::vector<double> losses;
  for (Index step = 0; step < plan.steps; ++step) {
    const Batch batch = task->batch(step, 32);
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    losses.push_back(loss.item());
    progress.show(step + 1, fmt::format("{} loss {:.4f}", plan.name, losses.back()));
  }
  const double seconds = progress.seconds();
  const Score result = score(model, task->held_out(1000));
  const Batch example = task->held_out(1);
  fmt::print("{:<14} {:>5} {:>8} {:>6.1f}   {:>6.2f} %  {:>6.2f} %  {}\n", plan.name, seed, plan.steps, seconds,
             100 * result.exact_match(), 100 * result.token_accuracy(), sparkline(losses, 30));
  fmt::print("               reads {}\n               to say {}\n",
             task->show(example.inputs.data<std::int32_t>()), task->show(example.targets.data<std::int32_t>()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  bool known = false;
  fmt::print("task            seed    steps seconds  sequences     tokens  loss\n");
  for (const Plan& plan : kPlans) {
    if (!wanted.empty() && wanted != plan.name) continue;
    known = true;
    learn(plan, seed);
  }
  if (!known) {
    fmt::print(stderr, "tasks: '{}' is none of copy, reverse, sort, addition, parity, 'parity of all', recall, induction\n", wanted);
    return 2;
  }
}
