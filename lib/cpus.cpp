#include "attune/lib/cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "attune/lib/error.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

int affinity_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // more CPUs than a cpu_set_t has room for
}

using Quota = std::optional<int> (*)(const fs::path& group);

std::optional<int> whole_cpus(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return std::nullopt;  // version 1 writes -1 for "no limit"
  return static_cast<int>(std::clamp((quota + period - 1) / period, 1LL, 1LL << 20));
}

// "150000 100000": microseconds of CPU time, in each period of so many; "max 100000" where there is no limit.
std::optional<int> quota_version2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  long long quota = 0, period = 0;
  return file >> quota >> period ? whole_cpus(quota, period) : std::nullopt;
}

std::optional<int> quota_version1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  long long quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? whole_cpus(quota, period) : std::nullopt;
}

// The least quota of `group` and of all groups above it. Inside a container the path that the kernel tells
// may be the host's, with nothing there; then the root still has the container's own quota.
std::optional<int> least_quota(const fs::path& mount, fs::path group, Quota quota) {
  std::optional<int> least;
  for (group = group.relative_path();; group = group.parent_path()) {
    const auto here = quota(mount / group);
    if (here && (!least || *here < *least)) least = here;
    if (group.empty()) return least;
  }
}

bool contains_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

}  // namespace

int detail::parse_threads(std::string_view text) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc::result_out_of_range && stopped == end && text[0] != '-') return kMaxThreads;
  check_environment(error == std::errc() && stopped == end && count >= 1,
                    "ATTUNE_THREADS: '{}' is not a number of threads (1, 2, 3, ...)", text);
  return std::min(count, kMaxThreads);
}

std::optional<int> detail::quota_cpus(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::optional<int> least;
  const auto consider = [&](std::optional<int> found) {
    if (found && (!least || *found < *least)) least = found;
  };

  // A line is `number:controllers:path`; version 2 has no controllers: "0::/user.slice/job".
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty()) consider(least_quota(mounts, group, quota_version2));
    if (contains_word(controllers, "cpu")) {
      consider(least_quota(mounts / "cpu", group, quota_version1));
      consider(least_quota(mounts / controllers, group, quota_version1));  // "cpu,cpuacct"
    }
  }
  return least;
}

int usable_cpus() {
  const int cpus = std::max(affinity_cpus(), 1);
  return std::min(cpus, detail::quota_cpus().value_or(cpus));
}

int default_threads() {
  const char* text = std::getenv("ATTUNE_THREADS");
  return text && *text ? detail::parse_threads(text) : std::min(usable_cpus(), kMaxThreads);
}

}  // namespace attune
