// What it costs to share work out: a fork and join around empty work, with workers awake and with workers
// asleep, and how short a loop may be for a second thread to pay.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "attune/lib/cpus.h"
#include "attune/lib/threads.h"

using namespace attune;

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

struct Times {
  double least, median, most_of_99;
};

Times summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2], times[times.size() * 99 / 100]};
}

void print(const char* what, int n, std::vector<double> times) {
  const Times t = summary(std::move(times));
  fmt::print("{:34} {} threads   least {:9.0f}   median {:9.0f}   99 % {:9.0f} ns\n", what, n, t.least,
             t.median, t.most_of_99);
}

// The time of `rounds` regions of one item per thread, with a pause before each.
std::vector<double> round_trips(int n, int rounds, std::chrono::microseconds pause) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    parallel_for(n, 1, [](Index, Index) {});
    times.push_back(nanoseconds(Clock::now() - start));
  }
  return times;
}

// Without the clock's own time: the mean of many regions in a row.
double back_to_back(int n) {
  constexpr int rounds = 100000;
  double least = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i) parallel_for(n, 1, [](Index, Index) {});
    least = std::min(least, nanoseconds(Clock::now() - start) / rounds);
  }
  return least;
}

// A region of `length` additions per thread's worth, in nanoseconds: the median of many.
double sum_time(std::vector<float>& data, int n) {
  set_threads(n);
  std::vector<double> times;
  for (int i = 0; i < 2000; ++i) {
    const auto start = Clock::now();
    parallel_for(static_cast<Index>(data.size()), 64, [&](Index begin, Index end) {
      for (Index k = begin; k < end; ++k) data[static_cast<std::size_t>(k)] += 1.0f;
    });
    times.push_back(nanoseconds(Clock::now() - start));
  }
  return summary(std::move(times)).median;
}

}  // namespace

int main() {
  const int cpus = usable_cpus();
  fmt::print("{} CPUs for this process, {} threads by default\n\n", cpus, threads());
  for (int n = 2; n <= std::max(cpus, 2); n *= 2) {
    set_threads(n);
    fmt::print("{:34} {} threads   mean of 100000 regions {:9.0f} ns\n", "awake, back to back", n,
               back_to_back(n));
    print("awake, each timed alone", n, round_trips(n, 10000, std::chrono::microseconds(0)));
    print("asleep, 2 ms after the last", n, round_trips(n, 300, std::chrono::microseconds(2000)));
  }

  fmt::print("\nx += 1 over floats in cache, median ns\n{:>10} {:>12} {:>12}\n", "floats", "1 thread",
             "2 threads");
  for (std::size_t size = 256; size <= 262144; size *= 4) {
    std::vector<float> data(size);
    const double one = sum_time(data, 1), two = sum_time(data, 2);
    fmt::print("{:>10} {:>12.0f} {:>12.0f}\n", size, one, two);
  }
}
