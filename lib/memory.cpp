#include "attune/lib/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "attune/lib/error.h"

namespace attune {
namespace {

std::atomic<std::uint64_t> allocations{0}, alive{0}, peak{0};

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t padded(std::size_t bytes) { return (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment; }

void count_allocation(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t now = alive.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t before = peak.load(std::memory_order_relaxed);
  while (before < now && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

MemoryUse memory_use() { return {allocations.load(), alive.load(), peak.load()}; }

namespace detail {

void* allocate_block(std::size_t bytes) {
  const std::size_t size = padded(bytes);
  // A block of huge pages must start on one, or the kernel cannot use them.
  const bool huge = size >= kHugePage;
  void* block = size < bytes ? nullptr : std::aligned_alloc(huge ? kHugePage : kAlignment,
                                                            huge ? (size + kHugePage - 1) / kHugePage * kHugePage : size);
  check_environment(block != nullptr, "memory: no block of {} bytes can be had", bytes);
  if (huge) madvise(block, size, MADV_HUGEPAGE);
  count_allocation(size);
  return block;
}

void free_block(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  alive.fetch_sub(padded(bytes), std::memory_order_relaxed);
  std::free(block);
}

Storage* Storage::create(std::size_t bytes) {
  static_assert(sizeof(Storage) <= kAlignment);
  auto* storage = new (allocate_block(bytes + kAlignment)) Storage;
  storage->bytes = bytes;
  return storage;
}

void Storage::release() noexcept {
  if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) free_block(this, bytes + kAlignment);
}

}  // namespace detail
}  // namespace attune
