// What training costs: the time of a step, its share of what the CPU can do, and what it asks of the system.
//
//   train_bench [steps]
//
// Three models (workloads.h): nanoGPT's CPU configuration, whose step is 3.81 GFLOP of matrix products, the copy task
// as examples/copy.cpp has it, and a small one. Medians; the FMA peak is measured beside them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "peak.h"
#include "workloads.h"

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

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

rusage usage() {
  rusage result{};
  getrusage(RUSAGE_SELF, &result);
  return result;
}

struct Cost {
  double seconds;                // a step, the median
  double first;                  // from nothing to the end of the first step
  long mallocs, blocks, faults;  // in all timed steps together
  double tokens, gflop;          // of a step
};

Cost cost_of(bench::Workload (*make)(), int steps) {
  const double start = now();
  const bench::Workload training = make();
  training.run();
  const double first = now() - start;
  for (std::size_t i = 0; i < bench::kBatches; ++i) training.run();
  std::vector<double> times(static_cast<std::size_t>(steps));
  const long mallocs_before = mallocs, faults_before = usage().ru_minflt;
  const auto blocks_before = static_cast<long>(memory_use().allocations);
  for (double& time : times) {
    const double before = now();
    training.run();
    time = now() - before;
  }
  const long faults = usage().ru_minflt - faults_before, calls = mallocs - mallocs_before;
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  return {times[times.size() / 2],
          first,
          calls,
          static_cast<long>(memory_use().allocations) - blocks_before,
          faults,
          training.tokens,
          training.gflop};
}

void print(const char* name, int thread_count, const Cost& cost, double peak) {
  fmt::print("{:<9} {:>7}  {:>8.3f}  {:>9.0f}  {:>6.1f}  {:>10.1f}  {:>7} {:>7} {:>7}\n", name, thread_count,
             1e3 * cost.seconds, cost.tokens / cost.seconds, 100 * cost.gflop / cost.seconds / peak, 1e3 * cost.first,
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
    for (const auto& [name, make] : bench::kWorkloads)
      if (std::string_view(name).find('/') == std::string_view::npos)  // attention alone is no step
        print(name, thread_count, cost_of(make, steps), peak);
    fmt::print("FMA peak of {} thread(s): {:.0f} GFLOP/s; memory at its highest: {} MB\n\n", thread_count, peak,
               usage().ru_maxrss / 1024);
  }
}
