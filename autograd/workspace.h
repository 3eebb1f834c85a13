// What a thread keeps for its tapes, and what a tape consists of: nodes on a stack, values in an arena, gradients from
// free lists. All of it is reused by the next tape, so that a training step in its steady state allocates nothing.
//
// Internal: ops need only op.h. A node's index is its place in the order of creation, which is a topological order.
#pragma once

#include <array>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
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

  void* take(std::size_t bytes) {
    Free*& first = free_[class_of(bytes)];
    if (!first) [[unlikely]]
      return cut(bytes);
    return std::exchange(first, first->next);
  }
  void give(void* block, std::size_t bytes) {
    Free*& first = free_[class_of(bytes)];
    first = new (block) Free{first};
  }
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
  static constexpr std::size_t kSmallest = 64;  // bytes
  static std::size_t class_of(std::size_t bytes) {
    if (bytes <= kSmallest) return 0;
    const auto top = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // bytes - 1 is in [2^top, 2^(top + 1))
    const std::size_t quarter = (bytes - 1) >> (top - 2) & 3;
    return 4 * (top - 6) + quarter + 1;
  }
  static std::size_t bytes_of(std::size_t size_class);
  void* cut(std::size_t bytes);  // a new block

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
  ConstView value;
  const char* name;
  void (*rule)(const void*);
  const void* captures;
  const GradientPlace* place;  // null: as the value
  ParameterState* parameter;   // of a parameter's leaf
  void* gradient;              // of a root, while it has one
  const std::uint32_t* inputs;
  std::uint32_t generation;
  std::uint32_t root;    // the node whose gradient this one shows; itself, unless it is a view
  std::uint32_t memory;  // the node whose memory holds the value: the root, or below an alias what that one shows
  std::uint16_t input_count;
  bool needs_grad;
  bool touched;        // of a root: whether its gradient was written
  bool keep;           // of a root: whether its gradient outlives backward
  bool value_saved;    // of an owner of memory: whether some rule of its scope reads it
  bool saves;          // whether its rule reads the values of its inputs
  bool writable;       // whether its op still computes it
  bool leaf;
};

// A tensor or parameter that a scope uses: kept alive, and checked for changes before backward.
struct Borrowed {
  std::uint32_t node;
  StorageRef storage;
  std::uint64_t version;
  std::shared_ptr<ParameterState> parameter;
  bool of_outer_scope = false;  // whose values a rule of this one reads
};

// What a rule caught in scratch because its place was not distinct.
struct Delayed {
  Var target;
  View caught;
};

// What a tape tells somebody who checks it. Ordinary tapes have none, and pay for none of it.
struct RecordLog {
  struct Place {
    std::uint32_t node;
    std::source_location where;
    std::string path;
  };
  std::vector<Place> places;                        // in order of nodes
  std::function<void(std::uint32_t)> begins = {};   // a node was made, and its op has not computed yet
  std::function<void(std::uint32_t)> recorded = {};  // an op with a rule is complete

  void note(std::uint32_t node, const std::source_location& where);
};
// Out of the way of tapes that have none.
[[gnu::noinline, gnu::cold]] void forget(RecordLog* log);
// "blocks.1.mlp, gelu.h:12"; "after up.weight, gelu.h:12" where no layer said its path; empty where nothing is known.
std::string place_of(const ScopeState& scope, std::uint32_t node);

struct ScopeState {
  ScopeState* outer;
  std::uint32_t generation;
  std::uint32_t first_node;
  std::size_t first_borrowed;
  std::size_t first_kept;
  std::size_t first_delayed;
  Arena::Mark mark;
  bool records;
  bool training;
  Rng* random;
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
  bool running = false;      // inside of backward
  bool probing = false;      // report() runs the rules again
  bool sealed = false;       // an op may not use a Var of the scope around, whose gradient would be lost
  bool again = false;        // computes what was computed before
  bool sparing = false;      // gradients of parameters stand aside: when probing, and for tapes inside of such rules
  bool attended = false;     // sealed, or with a log, or with rules to be changed
  RecordLog* log = nullptr;  // owned
  std::optional<DType> constants = {};
};

// What an op saved besides its Vars, on the tape of this generation.
struct SavedNumbers {
  std::uint32_t generation;
  View numbers;
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
  std::function<void(std::uint32_t)>* mutate = nullptr;  // changes rules as they are recorded (mutant.h)
  std::vector<SavedNumbers>* saved_log = nullptr;        // what ops save, for the same purpose

  Node& node(std::uint32_t index) { return nodes[index >> kNodeBits][index & (kNodesPerBlock - 1)]; }
  Node& push_node() {
    if (node_count == nodes.size() << kNodeBits) [[unlikely]]
      add_node_block();
    return node(node_count++);
  }
  void add_node_block();
};

// This thread's, made at first use.
extern constinit thread_local Workspace* this_threads_workspace;
Workspace& make_workspace();
inline Workspace& workspace() {
  if (!this_threads_workspace) [[unlikely]]
    return make_workspace();
  return *this_threads_workspace;
}

inline std::size_t gradient_bytes(const Node& root) {
  return static_cast<std::size_t>(root.value.count() * size_of(root.value.dtype()));
}

// Whether a root's gradient is a parameter's: its own memory, or that of the GradientSet which takes its place.
inline bool belongs_to_parameter(const Node& root, const ScopeState& scope) {
  return root.parameter && !scope.sparing;
}
void* parameter_gradient(const Node& root, const ScopeState& scope);
// Whether it had been written before; from now on it has.
bool touch_parameter(const Node& root, const ScopeState& scope);

// The memory of a root's gradient. Of a view, ask its root.
inline void ensure_gradient(Node& root, const ScopeState& scope) {
  if (root.gradient) return;
  root.gradient = belongs_to_parameter(root, scope) ? parameter_gradient(root, scope)
                                                    : workspace().gradients.take(gradient_bytes(root));
}

inline void free_gradient(Node& root, const ScopeState& scope) {
  if (root.gradient && !belongs_to_parameter(root, scope))
    workspace().gradients.give(root.gradient, gradient_bytes(root));
  root.gradient = nullptr;
}

// Whether a root's gradient had been written before; from now on it has.
inline bool touch(Node& root, const ScopeState& scope) {
  const bool before = std::exchange(root.touched, true);
  return belongs_to_parameter(root, scope) ? touch_parameter(root, scope) : before;
}

// Where the gradient of a node stands, inside of its root's, which must exist. Pointer and layout are two, since a
// view that is copied as soon as it is written makes the processor wait for its store buffer.
inline void* gradient_data(const Node& node) {
  const Node& root = workspace().node(node.root);
  char* base = static_cast<char*>(root.gradient);
  if (node.place) [[unlikely]]
    return base + node.place->offset * size_of(node.value.dtype());
  return base + (static_cast<const char*>(node.value.data()) - static_cast<const char*>(root.value.data()));
}
inline const Layout& gradient_layout(const Node& node) { return node.place ? node.place->layout : node.value.layout(); }
inline View gradient_place(const Node& node) { return View(gradient_data(node), gradient_layout(node)); }

ScopeState::Leaf& find_leaf(ScopeState& scope, const ParameterState* parameter);
void grow_leaves(ScopeState& scope);

// The innermost scope; throws in the name of the op where there is none.
const ScopeState& open_scope(const std::source_location& where);

// A new node that shows memory of its own. `view` is what a ConstView is made of, in place: a view that is copied as soon as it is written makes the processor wait.
template <class... View>
inline Node& push_root(const char* name, std::uint32_t generation, const void* data, const View&... view) {
  Workspace& w = workspace();
  const std::uint32_t index = w.node_count;
  Node& node = w.push_node();
  std::construct_at(&node.value, data, view...);
  node.name = name;
  node.rule = nullptr;
  node.captures = nullptr;
  node.place = nullptr;
  node.parameter = nullptr;
  node.gradient = nullptr;
  node.inputs = nullptr;
  node.generation = generation;
  node.root = node.memory = index;
  node.input_count = 0;
  node.needs_grad = node.touched = node.keep = node.value_saved = node.saves = node.writable = node.leaf = false;
  return node;
}

inline void* new_memory(const Shape& shape, DType dtype) {
  return workspace().arena.allocate(static_cast<std::size_t>(shape.count() * size_of(dtype)), kAlignment);
}

// A dual constant has no tangent, whatever its tensor holds: the two modes of differentiation must agree.
View without_tangents(const ConstView& value);

inline View borrowed_view(const ConstView& view) { return View(const_cast<void*>(view.data()), view.layout()); }

// A leaf of the innermost scope that shows memory of an outer one, with a gradient or without.
Var leaf_of_view(const char* name, const View& value, bool needs_grad, const std::source_location& where);

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
  // The node of a Var that is alive on this thread; throws for any other. Every op asks a dozen times.
  [[gnu::always_inline]] static detail::Node& node(Var x, const std::source_location& where) {
    detail::Workspace& w = detail::workspace();
    if (index(x) < w.node_count) [[likely]] {
      detail::Node& node = w.node(index(x));
      if (node.generation == generation(x)) [[likely]]
        return node;
    }
    throw_dead(where);
  }
  [[noreturn]] static void throw_dead(const std::source_location& where);
  static Var leaf_of(const std::shared_ptr<detail::ParameterState>& parameter);
};

}  // namespace attune
