#include "attune/autograd/op.h"
#include "attune/autograd/workspace.h"

#include <algorithm>
#include <bit>

namespace attune::detail {
namespace {
constexpr std::size_t kFirstBlock = std::size_t{1} << 20;
constexpr std::size_t kSmallest = 64;  // bytes of the smallest gradient block
}  // namespace

void* Arena::allocate_in_next_block(std::size_t bytes) {
  std::size_t block = blocks_.empty() ? 0 : now_.block + 1;
  while (block < blocks_.size() && blocks_[block].bytes < bytes) ++block;
  if (block == blocks_.size()) {
    const std::size_t doubled = blocks_.empty() ? kFirstBlock : 2 * blocks_.back().bytes;
    const std::size_t size = std::max(doubled, bytes);
    blocks_.push_back({allocate_block(size), size});
  }
  now_ = {block, bytes};
  enter(block);
  return base_;
}

void Arena::release() {
  for (const Block& block : blocks_) free_block(block.data, block.bytes);
  blocks_.clear();
  rewind({});
}

std::size_t GradientPool::class_of(std::size_t bytes) {
  if (bytes <= kSmallest) return 0;
  const auto top = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // bytes - 1 in [2^top, 2^(top + 1))
  const std::size_t quarter = (bytes - 1) >> (top - 2) & 3;
  return 4 * (top - 6) + quarter + 1;
}

std::size_t GradientPool::bytes_of(std::size_t size_class) {
  if (size_class == 0) return kSmallest;
  const std::size_t top = (size_class - 1) / 4 + 6, quarter = (size_class - 1) % 4;
  return (std::size_t{1} << top) + (quarter + 1) * (std::size_t{1} << (top - 2));
}

void* GradientPool::take(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
  if (Free* block = free_[size_class]) {
    free_[size_class] = block->next;
    return block;
  }
  const std::size_t size = (bytes_of(size_class) + kAlignment - 1) / kAlignment * kAlignment;
  if (size > fresh_bytes_) {
    const std::size_t chunk = std::max(size, kFirstBlock);
    chunks_.push_back({allocate_block(chunk), chunk});
    if (size == chunk) return chunks_.back().data;
    fresh_ = static_cast<char*>(chunks_.back().data);
    fresh_bytes_ = chunk;
  }
  void* block = fresh_;
  fresh_ += size;
  fresh_bytes_ -= size;
  return block;
}

void GradientPool::give(void* block, std::size_t bytes) {
  Free*& first = free_[class_of(bytes)];
  first = new (block) Free{first};
}

void GradientPool::release() {
  for (const Chunk& chunk : chunks_) free_block(chunk.data, chunk.bytes);
  chunks_.clear();
  free_ = {};
  fresh_ = nullptr;
  fresh_bytes_ = 0;
}

Node& Workspace::push_node() {
  if (node_count == nodes.size() << kNodeBits) [[unlikely]]
    nodes.push_back(std::make_unique_for_overwrite<Node[]>(kNodesPerBlock));
  return node(node_count++);
}

Workspace& workspace() {
  static thread_local Workspace made;
  return made;
}

}  // namespace attune::detail
