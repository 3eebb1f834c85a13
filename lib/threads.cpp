#include "attune/lib/threads.h"

#include <emmintrin.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "attune/lib/cpus.h"

namespace attune {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;

// Processors fetch lines of 64 bytes in pairs: what two threads write lies this far apart.
constexpr std::size_t kApart = 128;

// How long a thread waits awake. The operations of a training step follow one another within this time, and a
// sleeping thread takes some 10 to 50 microseconds to come back; between steps it sleeps, and costs nothing.
// After the first moments it lets others run between two looks, for the one it waits for may be waiting for
// this CPU.
constexpr auto kPatience = std::chrono::microseconds(200);
constexpr auto kSelfishness = std::chrono::microseconds(10);

// A part of the work is taken in so many ranges, so that a thread that is late leaves some of them to the
// others.
constexpr Index kRangesPerPart = 4;

std::atomic<int> wanted_threads{0};  // 0: not decided yet
std::atomic<bool> crowded{false};    // more threads than CPUs: whoever waits lets others run

thread_local bool inside_a_region = false;

// ---- Waiting ----------------------------------------------------------------------------------------------

// True as soon as `ready` is; false when patience ends first.
template <class Ready>
bool wait_awake(Ready ready) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  bool selfish = !crowded.load(memory_order_relaxed);
  for (auto waited = Clock::duration(0); waited < kPatience; waited = Clock::now() - start) {
    selfish = selfish && waited < kSelfishness;
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      if (selfish)
        _mm_pause();
      else
        std::this_thread::yield();
    }
  }
  return false;
}

// A number that one thread sets and one other waits for. What the first wrote before, the second sees after.
//
// To set is to write the number, then read whether the other sleeps; to fall asleep is to write that one
// sleeps, then read the number. Both are sequentially consistent, since with less each could miss what the
// other wrote.
class alignas(kApart) Signal {
 public:
  void set(unsigned number) {
    number_.store(number);
    if (asleep_.load()) number_.notify_one();
  }

  // Returns the number, once it is no longer `old`.
  unsigned wait_past(unsigned old) {
    const auto changed = [&] { return number_.load(memory_order_acquire) != old; };
    if (!wait_awake(changed)) {
      asleep_.store(true);
      number_.wait(old);
      asleep_.store(false, memory_order_relaxed);
    }
    return number_.load(memory_order_acquire);
  }

 private:
  std::atomic<unsigned> number_{0};
  std::atomic<bool> asleep_{false};
};

// ---- Working ----------------------------------------------------------------------------------------------

// One call of parallel_for.
struct Region {
  Index items, grain;
  detail::RangeFunction function;
  void* object;
  int seats;  // how many threads work on it

  Index blocks() const { return items / grain + (items % grain != 0); }

  // Where a part begins: each has as many blocks of `grain` items as the others, or one more.
  Index first_item(Index part) const {
    const Index block = blocks() / seats * part + std::min(blocks() % seats, part);
    return block == blocks() ? items : block * grain;
  }
};

// A thread's place: the part of the work that it starts with, and what passes between a worker and the
// caller. The same seat starts with the same part of equal regions, which its cache may still hold.
//
// Regions have numbers. A worker that sees a new one in `start` works only if it is the one that writes the
// number into `settled`; the caller, when it finds no more work, writes it there itself for workers that are
// still on their way, and does not wait for them. So a worker that wakes late, or has lost its CPU, holds up
// nobody.
struct Seat {
  alignas(kApart) std::atomic<Index> next{0};  // the first item of the part that no thread has taken
  Index end = 0;
  Index step = 0;
  std::atomic<unsigned> settled{0};  // beside what the worker reads next

  Signal start, finish;
  unsigned region = 0,
           finished = 0;  // the caller's own notes: the last region, and the last that the worker was in
  std::thread worker;

  void fill(const Region& all, int part) {
    const Index begin = all.first_item(part);
    end = all.first_item(part + 1);
    step = std::max<Index>((end - begin) / all.grain / kRangesPerPart, 1) * all.grain;
    next.store(begin, memory_order_relaxed);
  }

  void call() { start.set(++region); }

  bool settle(unsigned number) {
    unsigned before = number - 1;
    return settled.compare_exchange_strong(before, number, std::memory_order_acq_rel);
  }

  void join() {
    if (!settle(region)) finished = finish.wait_past(finished);
  }
};

// The workers, and the region they work on. One thread at a time may be the caller.
class Pool {
 public:
  explicit Pool(Pool* abandoned) : abandoned_by_fork(abandoned) {}

  // Runs the region with workers, or returns false at once where another thread has them.
  bool run(Region region);

  // Ends the workers, for good: the pool stays taken.
  void retire();

  Pool* const
      abandoned_by_fork;  // of the parent process; held here, so that no leak is reported in the child

 private:
  void recruit(int workers);
  void serve(std::size_t seat);
  void work(std::size_t first_seat) noexcept;
  void take_ranges_of(Seat& seat);

  std::mutex taken_;
  std::vector<std::unique_ptr<Seat>> seats_;  // the caller's first
  bool retired_ = false;

  Region region_{};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // written by the thread that raised failed_
};

bool Pool::run(Region region) {
  const std::unique_lock lock(taken_, std::try_to_lock);
  if (!lock) return false;
  recruit(region.seats - 1);
  region.seats = std::min(region.seats, static_cast<int>(seats_.size()));
  region_ = region;
  const auto seats = static_cast<std::size_t>(region.seats);
  for (std::size_t i = 0; i < seats; ++i) seats_[i]->fill(region, static_cast<int>(i));

  for (std::size_t i = 1; i < seats; ++i) seats_[i]->call();
  inside_a_region = true;
  work(0);
  inside_a_region = false;
  for (std::size_t i = 1; i < seats; ++i) seats_[i]->join();

  if (failed_.load(memory_order_relaxed)) {
    failed_.store(false, memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  return true;
}

// Takes ranges from the own part, then from the others' parts, until none is left.
void Pool::work(std::size_t first_seat) noexcept {
  try {
    const auto seats = static_cast<std::size_t>(region_.seats);
    for (std::size_t i = 0; i < seats; ++i) take_ranges_of(*seats_[(first_seat + i) % seats]);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
}

void Pool::take_ranges_of(Seat& seat) {
  while (!failed_.load(memory_order_relaxed)) {
    if (seat.next.load(memory_order_relaxed) >= seat.end)
      return;  // looks before it writes: others may still read
    const Index begin = seat.next.fetch_add(seat.step, memory_order_relaxed);
    if (begin >= seat.end) return;
    region_.function(region_.object, begin, std::min(begin + seat.step, seat.end));
  }
}

// A worker's life.
void Pool::serve(std::size_t seat_number) {
  inside_a_region = true;
  Seat& seat = *seats_[seat_number];
  for (unsigned region = 0;;) {
    region = seat.start.wait_past(region);
    if (!seat.settle(region)) continue;
    if (retired_) return;
    work(seat_number);
    seat.finish.set(region);
  }
}

// Brings the number of workers up to `workers`, or to what the system allows. Signals are for the user's
// threads.
void Pool::recruit(int workers) {
  if (static_cast<int>(seats_.size()) > workers) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  seats_.reserve(kMaxThreads);  // never moves: workers read it while others are recruited
  while (static_cast<int>(seats_.size()) <= workers) {
    const std::size_t number = seats_.size();
    seats_.push_back(std::make_unique<Seat>());
    if (number == 0) continue;
    try {
      seats_[number]->worker = std::thread(&Pool::serve, this, number);
    } catch (const std::system_error&) {
      seats_.pop_back();
      wanted_threads.store(static_cast<int>(number), memory_order_relaxed);
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pool::retire() {
  if (inside_a_region || !taken_.try_lock()) return;  // the program ends in the middle of a region: let it
  retired_ = true;
  for (auto& seat : seats_) {
    if (!seat->worker.joinable()) continue;
    seat->call();
    seat->worker.join();
  }
}

// ---- The process's pool -----------------------------------------------------------------------------------

std::atomic<Pool*> process_pool{nullptr};
Pool* abandoned_by_fork = nullptr;

// Never deleted, so that destructors of static objects may still call parallel_for.
Pool& pool() {
  Pool* now = process_pool.load(memory_order_acquire);
  if (now) return *now;
  auto made = std::make_unique<Pool>(abandoned_by_fork);
  if (process_pool.compare_exchange_strong(now, made.get())) return *made.release();
  return *now;
}

// A child of fork() has none of its parent's workers: it gets a pool of its own when it needs one.
void abandon_pool() {
  if (Pool* now = process_pool.exchange(nullptr)) abandoned_by_fork = now;
}

struct Lifetime {
  Lifetime() { pthread_atfork(nullptr, nullptr, abandon_pool); }
  ~Lifetime() {
    if (Pool* now = process_pool.load(memory_order_acquire)) now->retire();
  }
};
const Lifetime lifetime;

int want(int count) {
  static const int cpus = usable_cpus();
  crowded.store(count > cpus, memory_order_relaxed);
  wanted_threads.store(count, memory_order_relaxed);
  return count;
}

}  // namespace

int threads() {
  const int wanted = wanted_threads.load(memory_order_relaxed);
  return wanted > 0 ? wanted : want(default_threads());
}

void set_threads(int n) {
  check(n >= 1, "set_threads: {} threads cannot work; at least 1", n);
  want(std::min(n, kMaxThreads));
}

void detail::parallel_ranges(Index items, Index grain, RangeFunction function, void* object) {
  check(grain >= 1, "parallel_for: a grain of {} items is less than 1", grain);
  if (items <= 0) return;
  Region region{items, grain, function, object, 1};
  if (!inside_a_region && items > grain)
    region.seats = static_cast<int>(std::min<Index>(threads(), region.blocks()));
  if (region.seats == 1 || !pool().run(region)) function(object, 0, items);
}

}  // namespace attune
