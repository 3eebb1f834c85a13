#include "attune/autograd/op.h"
#include "attune/autograd/workspace.h"

#include <algorithm>

namespace attune::detail {
namespace {
constexpr std::size_t kFirstBlock = std::size_t{1} << 20;
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

std::size_t GradientPool::bytes_of(std::size_t size_class) {
  if (size_class == 0) return kSmallest;
  const std::size_t top = (size_class - 1) / 4 + 6, quarter = (size_class - 1) % 4;
  return (std::size_t{1} << top) + (quarter + 1) * (std::size_t{1} << (top - 2));
}

void* GradientPool::cut(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
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

void GradientPool::release() {
  for (const Chunk& chunk : chunks_) free_block(chunk.data, chunk.bytes);
  chunks_.clear();
  free_ = {};
  fresh_ = nullptr;
  fresh_bytes_ = 0;
}

void Workspace::add_node_block() { nodes.push_back(std::make_unique_for_overwrite<Node[]>(kNodesPerBlock)); }

constinit thread_local Workspace* this_threads_workspace = nullptr;

Workspace& make_workspace() {
  static thread_local struct Owner {
    Workspace workspace;
    ~Owner() { this_threads_workspace = nullptr; }
  } owner;
  this_threads_workspace = &owner.workspace;
  return owner.workspace;
}

const ScopeState& open_scope(const std::source_location& where) {
  const ScopeState* scope = workspace().innermost;
  if (!scope) [[unlikely]]
    check(false, "{}: no tape is open on this thread: open a Tape (to differentiate) or a NoGrad (to evaluate)",
          op_name(where));
  return *scope;
}

View without_tangents(const ConstView& value) {
  const View copy = saved(value.shape(), DType::dual);
  kernels::copy(copy, value);
  auto* numbers = copy.as<dual>();
  for (Index i = 0; i < copy.count(); ++i) numbers[i].tangent = 0;
  return copy;
}

}  // namespace attune::detail
