// Where numbers live: aligned blocks, counted owners, and how much of both there is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace attune {

// Every block starts at a multiple of this, and ends with as many bytes that may be read but mean nothing.
inline constexpr std::size_t kAlignment = 64;

// How often and how much this process has asked the system for blocks, since it started.
struct MemoryUse {
  std::uint64_t allocations = 0;  // calls so far
  std::uint64_t bytes = 0;        // alive now
  std::uint64_t peak_bytes = 0;
};
MemoryUse memory_use();

namespace detail {

// Throws std::runtime_error, naming the size, where there is no memory.
void* allocate_block(std::size_t bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// A block with an owner count and a version, which grows with every access that may write.
struct Storage {
  std::atomic<std::uint32_t> owners{1};
  std::atomic<std::uint64_t> version{0};
  std::size_t bytes = 0;

  void* data() { return reinterpret_cast<char*>(this) + kAlignment; }
  static Storage* create(std::size_t bytes);
  void release() noexcept;
};

// Shared ownership of a Storage.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* owned) : storage_(owned) {}
  StorageRef(const StorageRef& other) : storage_(other.storage_) {
    if (storage_) storage_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_) storage_->release();
  }
  Storage* get() const { return storage_; }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  Storage* storage_ = nullptr;
};

}  // namespace detail
}  // namespace attune
