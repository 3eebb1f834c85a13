#include "count_new.h"

#include <cstdlib>
#include <new>

static thread_local std::uint64_t calls = 0;

std::uint64_t attune::calls_of_new() { return calls; }

#ifndef ATTUNE_SANITIZED
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++calls;
  if (void* block = std::malloc(bytes > 0 ? bytes : 1)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
#endif
