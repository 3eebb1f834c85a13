// How many CPUs and threads there are: by ATTUNE_THREADS, and by the files in which the kernel tells a
// group's quota.
#include "attune/lib/cpus.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

using namespace attune;
using detail::parse_threads;
using detail::quota_cpus;

namespace {

namespace fs = std::filesystem;

// A made-up root of a file system, gone at the end.
struct Root {
  fs::path path = fs::temp_directory_path() / ("attune_cpus_test_" + std::to_string(getpid()));
  Root() { fs::remove_all(path); }
  ~Root() { fs::remove_all(path); }
  void write(const char* name, const char* text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

}  // namespace

TEST_CASE("ATTUNE_THREADS is a number from 1 up") {
  CHECK(parse_threads("1") == 1);
  CHECK(parse_threads("12") == 12);
  CHECK(parse_threads("256") == kMaxThreads);
  CHECK(parse_threads("257") == kMaxThreads);
  CHECK(parse_threads("99999999999999999999") == kMaxThreads);
  for (const char* text : {"0", "-1", "-99999999999999999999", "two", "2x", " 2", "2 ", "2.0", "+2", "0x2"}) {
    const std::string message =
        "ATTUNE_THREADS: '" + std::string(text) + "' is not a number of threads (1, 2, 3, ...)";
    CHECK_THROWS_WITH_AS(parse_threads(text), message.c_str(), std::runtime_error);
  }
}

TEST_CASE("this process may use at least one CPU") {
  CHECK(usable_cpus() >= 1);
  CHECK(default_threads() >= 1);
}

TEST_CASE("no quota where nothing says so") {
  const Root root;
  CHECK_FALSE(quota_cpus(root.path));
  root.write("proc/self/cgroup", "0::/\n");
  CHECK_FALSE(quota_cpus(root.path));
  root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  CHECK_FALSE(quota_cpus(root.path));
}

TEST_CASE("quotas of cgroups version 2 are rounded up, and the least one holds") {
  const Root root;
  root.write("proc/self/cgroup", "0::/machine/job\n");
  root.write("sys/fs/cgroup/machine/job/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/machine/cpu.max", "350000 100000\n");
  CHECK(quota_cpus(root.path) == 4);
  root.write("sys/fs/cgroup/machine/job/cpu.max", "150000 100000\n");
  CHECK(quota_cpus(root.path) == 2);
  root.write("sys/fs/cgroup/machine/job/cpu.max", "1000 100000\n");
  CHECK(quota_cpus(root.path) == 1);
}

TEST_CASE("quotas of cgroups version 1, also where the path is the host's") {
  const Root root;
  root.write("proc/self/cgroup", "5:memory:/\n2:cpu,cpuacct:/docker/0123\n1:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(quota_cpus(root.path));
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  CHECK(quota_cpus(root.path) == 3);
  root.write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000\n");
  CHECK(quota_cpus(root.path) == 2);
}

TEST_CASE("files that make no sense set no quota") {
  const Root root;
  root.write("proc/self/cgroup", "nonsense\n0::/\n:\n");
  for (const char* text : {"", "max", "100000", "100000 0", "-5 100000", "abc def"}) {
    root.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(quota_cpus(root.path));
  }
}
