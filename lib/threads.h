// The thread pool: fork and join over ranges of work items, for regions of a few microseconds.
//
// It is not a task queue. How many threads there are never changes a result: whoever splits work splits it by its
// shape, and any thread may take any part. Several of the user's own threads may call parallel_for at once: one
// gets the workers, the others do their own work. A nested call runs on the calling thread.
#pragma once

#include <memory>
#include <type_traits>

#include "attune/lib/error.h"

namespace attune {

// How many threads work at once, the caller among them. The first is ATTUNE_THREADS, or what the affinity mask and
// the cgroup's quota leave to this process.
int threads();

// From now on; n is at least 1 (std::invalid_argument). Not while a parallel_for runs on another thread.
void set_threads(int n);

namespace detail {
using RangeFunction = void (*)(void* object, Index begin, Index end);
void parallel_ranges(Index items, Index grain, RangeFunction function, void* object);
}  // namespace detail

// Calls f(begin, end) over disjoint ranges that together are 0 ... items - 1, none smaller than `grain` but the last.
// Returns when all are done. An exception of f is rethrown here, once every thread has stopped.
template <class F>
void parallel_for(Index items, Index grain, F&& f) {
  using Function = std::remove_reference_t<F>;
  detail::parallel_ranges(
      items, grain,
      [](void* object, Index begin, Index end) { (*static_cast<Function*>(object))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace attune
