// How many CPUs this process may use: not how many the machine has, since a container or taskset leaves
// fewer.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace attune {

// More threads than this are never started; larger wishes count as this many.
inline constexpr int kMaxThreads = 256;

// The affinity mask and the cgroup's quota, whichever leaves less; at least 1.
int usable_cpus();

// What ATTUNE_THREADS says, or usable_cpus() where it is not set or empty. std::runtime_error names any other
// text than a number from 1 up.
int default_threads();

namespace detail {
int parse_threads(std::string_view text);

// The quota that holds for this process, rounded up to whole CPUs; nothing where there is none. `root` is
// where /proc and /sys are found. Both versions of cgroups are read, and all groups from the process's own up
// to the root.
std::optional<int> quota_cpus(const std::filesystem::path& root = "/");
}  // namespace detail

}  // namespace attune
