// Times one workload at a time, for another program that runs its own in between: bench/peers/run speed.
//
//   speed THREADS      reads lines, and answers each with one:
//     nanogpt 20       the median of 20 runs in seconds, and a run's GFLOP (bench/workloads.h)
//     peak             GFLOP/s of the FMA peak, of all threads
//     row              the instruction set
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "peak.h"
#include "workloads.h"

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median_seconds(const bench::Workload& workload, std::size_t runs) {
  std::vector<double> times(runs);
  for (double& time : times) {
    const double before = now();
    workload.run();
    time = now() - before;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(runs / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Made when it is first asked for, and warm: it has run three times.
const bench::Workload& workload(const std::string& name) {
  static std::map<std::string, bench::Workload> made;
  if (const auto found = made.find(name); found != made.end()) return found->second;
  for (const bench::NamedWorkload& each : bench::kWorkloads)
    if (name == each.name) {
      const bench::Workload& result = made.emplace(name, each.make()).first->second;
      for (int i = 0; i < 3; ++i) result.run();
      return result;
    }
  throw std::invalid_argument(fmt::format("speed: {}: no such workload", name));
}

std::string answer(const std::string& question) {
  std::istringstream words(question);
  std::string name;
  std::size_t runs = 0;
  words >> name >> runs;
  if (name == "row") return std::string(attune::row());
  if (name == "peak") return fmt::format("{}", attune::threads() * bench::peak_gflops());
  if (runs == 0) throw std::invalid_argument(fmt::format("speed: {}: how many runs?", question));
  return fmt::format("{} {}", median_seconds(workload(name), runs), workload(name).gflop);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::invalid_argument("usage: speed THREADS");
  attune::set_threads(std::atoi(argv[1]));
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 2;
}
