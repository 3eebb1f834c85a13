// What a thread keeps for its tapes, and what a tape consists of: nodes on a stack, values in an arena, gradients from
// free lists. All of it is reused by the next tape, so that a training step in its steady state allocates nothing.
//
// Internal: ops need only op.h. A node's index is its place in the order of creation, which is a topological order.
#pragma once

#include <array>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"
#include "attune/lib/memory.h"
#include "attune/lib/view.h"

namespace attune::detail {

// Memory that is taken in sequence and given back all at once, to a mark.
class Arena {
 public:
  struct Mark {
    std::size_t block = 0, used = 0;
  };
  Arena() = default;
  Arena(const Arena&) = delete;
  ~Arena() { release(); }

  void* allocate(std::size_t bytes, std::size_t alignment) {
    std::size_t start = (now_.used + alignment - 1) & ~(alignment - 1);
    if (start + bytes > size_) [[unlikely]]
      return allocate_in_next_block(bytes);
    now_.used = start + bytes;
    return base_ + start;
  }
  Mark mark() const { return now_; }
  void rewind(Mark mark) {
    now_ = mark;
    enter(mark.block);
  }
  void release();

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  void* allocate_in_next_block(std::size_t bytes);
  void enter(std::size_t block) {
    base_ = block < blocks_.size() ? static_cast<char*>(blocks_[block].data) : nullptr;
    size_ = block < blocks_.size() ? blocks_[block].bytes : 0;
  }

  Mark now_;
  char* base_ = nullptr;
  std::size_t size_ = 0;
  std::vector<Block> blocks_;
};

// Blocks that live as long as their gradient: sizes are rounded up to one of four steps between powers of two, and a
// block that comes back waits for the next of its size.
class GradientPool {
 public:
  GradientPool() = default;
  GradientPool(const GradientPool&) = delete;
  ~GradientPool() { release(); }

  void* take(std::size_t bytes);
  void give(void* block, std::size_t bytes);
  void release();

 private:
  static constexpr std::size_t kClasses = 4 * 48;
  struct Free {
    Free* next;
  };
  struct Chunk {
    void* data;
    std::size_t bytes;
  };
  static std::size_t class_of(std::size_t bytes);
  static std::size_t bytes_of(std::size_t size_class);

  std::array<Free*, kClasses> free_{};
  char* fresh_ = nullptr;  // the rest of the newest chunk, from which small blocks are cut
  std::size_t fresh_bytes_ = 0;
  std::vector<Chunk> chunks_;
};

// How a gradient is laid out where that is not as its value is: below an expand, whose value repeats.
struct GradientPlace {
  Index offset;  // from the root's gradient, in elements
  Layout layout;
};

struct Node {
  View value;
  const char* name;
  void (*rule)(const void*);
  const void* captures;
  const GradientPlace* place;  // null: as the value
  ParameterState* parameter;   // of a parameter's leaf
  void* gradient;              // of a root, while it has one
  const std::uint32_t* inputs;
  std::uint32_t generation;
  std::uint32_t root;  // the node whose memory and gradient this one shows; itself, unless it is a view
  std::uint16_t input_count;
  bool needs_grad;
  bool touched;        // of a root: whether its gradient was written
  bool keep;           // of a root: whether its gradient outlives backward
  bool value_saved;    // of a root: whether some rule reads its value
  bool leaf;
};

// A tensor or parameter that a scope uses: kept alive, and checked for changes before backward.
struct Borrowed {
  std::uint32_t node;
  StorageRef storage;
  std::uint64_t version;
  std::shared_ptr<ParameterState> parameter;
};

// What a rule caught in scratch because its place was not distinct.
struct Delayed {
  Var target;
  View caught;
};

struct ScopeState {
  ScopeState* outer;
  std::uint32_t generation;
  std::uint32_t first_node;
  std::size_t first_borrowed;
  std::size_t first_kept;
  Arena::Mark mark;
  bool records;
  bool training;
  bool differentiated = false;
  GradientSet* sink = nullptr;
  // Leaves by parameter: an open-addressing table in the arena.
  struct Leaf {
    const ParameterState* parameter;
    std::uint32_t node;
  };
  Leaf* leaves = nullptr;
  std::uint32_t leaf_capacity = 0, leaf_count = 0;
  // What backward started from, for report().
  std::uint32_t start = 0;
  const View* seed = nullptr;
  bool interrupted = false;  // inside of backward, or left by an exception there
  bool probing = false;      // report() runs the rules again, without touching parameters
};

struct Workspace {
  static constexpr std::uint32_t kNodeBits = 10;
  static constexpr std::uint32_t kNodesPerBlock = 1u << kNodeBits;

  ScopeState* innermost = nullptr;
  std::uint32_t node_count = 0;
  std::vector<std::unique_ptr<Node[]>> nodes;
  Arena arena;
  GradientPool gradients;
  std::vector<Borrowed> borrowed;
  std::vector<std::uint32_t> kept;  // roots whose gradient outlived backward
  std::vector<Delayed> delayed;

  Node& node(std::uint32_t index) { return nodes[index >> kNodeBits][index & (kNodesPerBlock - 1)]; }
  Node& push_node();
};

// This thread's. Made at first use.
Workspace& workspace();

// The gradient of a root (of a view, ask its root): memory from the pool, the parameter's own, or a GradientSet's.
void ensure_gradient(Node& root, const ScopeState& scope);
void free_gradient(Node& root, const ScopeState& scope);
// Whether it had been written before; from now on it has.
bool touch(Node& root, const ScopeState& scope);
// Where the gradient of a node stands, inside of its root's, which must exist.
View gradient_place(const Node& node);

ScopeState::Leaf& find_leaf(ScopeState& scope, const ParameterState* parameter);
void grow_leaves(ScopeState& scope);

// "softmax", from the function that a location is in.
std::string op_name(const std::source_location& where);

}  // namespace attune::detail

namespace attune {

struct VarAccess {
  static Var make(std::uint32_t index, std::uint32_t generation) {
    return Var(std::uint64_t{generation} << 32 | index);
  }
  static std::uint32_t index(Var x) { return static_cast<std::uint32_t>(x.id_); }
  static std::uint32_t generation(Var x) { return static_cast<std::uint32_t>(x.id_ >> 32); }
  // The node of a Var that is alive on this thread; throws for any other.
  static detail::Node& node(Var x, const std::source_location& where);
  static Var leaf_of(const std::shared_ptr<detail::ParameterState>& parameter);
};

}  // namespace attune
