// The pool shares out every item once, whoever works on it, and survives exceptions, nesting, other callers
// and fork().
#include "attune/lib/threads.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace attune;

namespace {

// Restores the number of threads.
struct KeepThreads {
  int before = threads();
  ~KeepThreads() { set_threads(before); }
};

// How often parallel_for visits each item. Plain ints: the thread sanitizer would tell of an item taken twice
// at once.
std::vector<int> visits(Index items, Index grain) {
  std::vector<int> count(static_cast<std::size_t>(std::max<Index>(items, 0)));
  parallel_for(items, grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) ++count[static_cast<std::size_t>(i)];
  });
  return count;
}

bool all_once(const std::vector<int>& count) {
  return std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
}

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

TEST_CASE("parallel_for visits every item once") {
  const KeepThreads keep;
  for (const int n : {1, 2, 3, 8}) {
    set_threads(n);
    CHECK(threads() == n);
    for (const Index items : {0, 1, 2, 3, 7, 8, 9, 16, 31, 64, 100, 1000, 4097})
      for (const Index grain : {1, 2, 3, 8, 64, 1000, 100000}) {
        INFO("threads ", n, " items ", items, " grain ", grain);
        CHECK(all_once(visits(items, grain)));
      }
  }
  CHECK(visits(-3, 1).empty());
}

TEST_CASE("ranges hold whole grains, but for the last") {
  const KeepThreads keep;
  set_threads(3);
  for (const Index items : {10, 100, 1001})
    for (const Index grain : {1, 7, 30}) {
      std::mutex guard;
      std::vector<std::pair<Index, Index>> ranges;
      parallel_for(items, grain, [&](Index begin, Index end) {
        const std::lock_guard lock(guard);
        ranges.emplace_back(begin, end);
      });
      for (const auto& [begin, end] : ranges) CHECK((end - begin >= grain || end == items));
    }
}

TEST_CASE("a huge number of items overflows nothing") {
  const KeepThreads keep;
  set_threads(2);
  constexpr Index items = Index{1} << 62;
  std::atomic<Index> sum{0};
  parallel_for(items, 1, [&](Index begin, Index end) { sum += end - begin; });
  CHECK(sum == items);
  sum = 0;
  parallel_for(items, items - 1, [&](Index begin, Index end) { sum += end - begin; });
  CHECK(sum == items);
}

TEST_CASE("several threads do take part") {
  const KeepThreads keep;
  set_threads(2);
  std::mutex guard;
  std::set<std::thread::id> seen;
  for (int round = 0; round < 100 && seen.size() < 2;
       ++round)  // on a busy machine a worker may come too late
    parallel_for(64, 1, [&](Index, Index) {
      work_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(guard);
      seen.insert(std::this_thread::get_id());
    });
  CHECK(seen.size() == 2);
  CHECK(seen.count(std::this_thread::get_id()) == 1);
}

TEST_CASE("an exception reaches the caller once all have stopped, and the pool still works") {
  const KeepThreads keep;
  for (const int n : {1, 2, 8}) {
    set_threads(n);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> running{0};
      const auto f = [&](Index begin, Index end) {
        ++running;
        for (Index i = begin; i < end; ++i)
          if (i % 100 == 77) {
            --running;
            throw std::out_of_range("item 77");
          }
        --running;
      };
      CHECK_THROWS_WITH_AS(parallel_for(1000, 1, f), "item 77", std::out_of_range);
      CHECK(running == 0);
    }
    CHECK(all_once(visits(1000, 1)));
  }
}

TEST_CASE("a nested call runs on the calling thread") {
  const KeepThreads keep;
  set_threads(2);
  std::atomic<int> inner_items{0}, strangers{0};
  parallel_for(16, 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto self = std::this_thread::get_id();
      parallel_for(100, 1, [&](Index b, Index e) {
        inner_items += static_cast<int>(e - b);
        if (std::this_thread::get_id() != self) ++strangers;
      });
    }
  });
  CHECK(inner_items == 1600);
  CHECK(strangers == 0);
}

TEST_CASE("threads of the user may call at once") {
  const KeepThreads keep;
  set_threads(2);
  std::atomic<int> wrong{0};
  const auto caller = [&] {
    for (int round = 0; round < 500; ++round)
      if (!all_once(visits(257, 1))) ++wrong;
  };
  std::thread one(caller), two(caller);
  caller();
  one.join();
  two.join();
  CHECK(wrong == 0);
}

TEST_CASE("the number of threads may change between any two calls") {
  const KeepThreads keep;
  for (int round = 0; round < 200; ++round) {
    set_threads(1 + round * 7 % 5);
    CHECK(all_once(visits(100, 1)));
  }
}

TEST_CASE("workers that fell asleep are woken") {
  const KeepThreads keep;
  set_threads(3);
  for (const int pause : {0, 100, 190, 200, 210, 250, 1000, 3000})
    for (int round = 0; round < 20; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      CHECK(all_once(visits(12, 1)));
    }
}

TEST_CASE("a worker that wakes while many regions pass is not lost") {
  const KeepThreads keep;
  set_threads(2);
  for (int round = 0; round < 300; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(150 + round));  // about when workers fall asleep
    for (int i = 0; i < 30; ++i) CHECK(all_once(visits(2, 1)));
  }
  std::atomic<bool> helped{false};  // a worker that did not wake would leave all the work to the caller
  const auto self = std::this_thread::get_id();
  for (int round = 0; round < 1000 && !helped; ++round)
    parallel_for(2, 1, [&](Index, Index) {
      work_for(std::chrono::milliseconds(1));
      if (std::this_thread::get_id() != self) helped = true;
    });
  CHECK(helped);
}

TEST_CASE("a child of fork works with a pool of its own") {
  const KeepThreads keep;
  set_threads(2);
  CHECK(all_once(visits(100, 1)));  // the parent has workers
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);  // a child that hangs ends with a signal
#ifdef __SANITIZE_THREAD__
    set_threads(1);  // the thread sanitizer ends a child of several threads that starts one
#endif
    const bool right = all_once(visits(1000, 1));
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(all_once(visits(100, 1)));
}

TEST_CASE("wrong arguments are refused") {
  const KeepThreads keep;
  CHECK_THROWS_WITH_AS(set_threads(0), "set_threads: 0 threads cannot work; at least 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(set_threads(-4), std::invalid_argument);
  CHECK(threads() == keep.before);
  CHECK_THROWS_WITH_AS(visits(5, 0), "parallel_for: a grain of 0 items is less than 1",
                       std::invalid_argument);
}
