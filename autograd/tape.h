// Tape: a scope that remembers what is computed in it, and differentiates it in reverse (Linnainmaa 1970).
//
//   {
//     Tape tape;
//     Var loss = cross_entropy(model(inputs), targets);
//     tape.backward(loss);
//   }   // everything computed since `Tape tape;` is forgotten here, at the cost of moving a pointer
//
// Scopes belong to a thread and nest; the innermost one receives what is computed, and sees the Vars of outer ones as
// constants. What is created first is needed first, so backward is one loop from the last node to the first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/autograd/var.h"
#include "attune/lib/random.h"

namespace attune {

class GradientSet;

namespace detail {
struct ScopeState;
// An open scope: what it owns on its thread's stacks, and how to give it back.
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 protected:
  Scope(bool records, bool training, Rng* random);
  ~Scope();

  ScopeState* state_;
};
}  // namespace detail

struct TapeOptions {
  bool training = true;   // whether dropout drops
  Rng* random = nullptr;  // where dropout draws what it drops: each takes one position. Outlives the tape
  bool places = false;    // whether to remember where each op was recorded (layer, file and line), for reports
  // What tensors of f32 and f64 become where they are used as constants, on this tape and inside of it: so a function
  // with f32 data can be evaluated in f64, or differentiated forward in dual. Parameters are cast by Cast.
  std::optional<DType> constants = {};
};

// What backward did for one parameter.
struct ParameterReport {
  enum class Gradient { reached, zero, missing };
  // Why a path ended. Gradients are zero for what is masked, dead (every input of a relu was below 0), saturated (every
  // row of a softmax was one-hot) and zeroed (all else).
  enum class Why { reached, frozen, unused, not_in_loss, detached, integers, masked, dead, saturated, zeroed };
  std::string parameter;  // its path in the model once an optimizer or flatten() has named it, else its shape
  Gradient gradient;
  std::string ended_at;  // where not reached: the last op on its way, and why it ended there
  Why why = Why::reached;
  std::string place = {};  // of that op, where the tape remembers places: "blocks.1.attention, softmax.h:18"

  // "blocks.1.mlp.up.weight: only zeros: relu [2, 4] at blocks.1: ..."; empty where reached.
  std::string text() const;
};

// The op that first made a number that is infinite or NaN out of numbers that are not.
struct NonFinite {
  enum class Phase { forward, backward };
  Phase phase;
  std::string op;  // or "parameter", "constant", where it came in with one
  Shape shape;     // of the op's result; in backward, its rule wrote the number into the gradient of `input`
  std::string input;
  std::vector<Index> element;
  double number;
  std::string place;

  std::string text() const;
};

struct BackwardOptions {
  GradientSet* into = nullptr;                       // instead of the parameters themselves
  bool spare_parameters = false;                     // they keep what they have: variables alone get gradients
  std::function<void(const Parameter&)> ready = {};  // called once this parameter's gradient is complete
};

class Tape : public detail::Scope {
 public:
  explicit Tape(const TapeOptions& options = {}) : Scope(true, options.training, options.random) {
    if (options.places || options.constants) watch(options);
  }

  // Adds dloss/dp to the gradient of every parameter p that the scalar `loss` depends on, and writes the gradients of
  // variables and of what was kept. Once per tape. Where it refuses, nothing has changed; where a rule or `ready` throws,
  // gradients have what was added until then.
  void backward(Var loss, const BackwardOptions& options = {});
  void backward(Var loss, GradientSet& into);
  // For a y of any shape: `seed` is the gradient of what is differentiated with respect to y, of y's shape and type.
  void backward(Var y, const ConstView& seed, const BackwardOptions& options = {});

  // After backward, and before parameters change: one line for each parameter used on this tape.
  std::vector<ParameterReport> report();
  // The first op whose result is not finite although all it was made of is; after backward, where there is none, the
  // first rule that wrote such a gradient. What is hidden later, as scores of -inf by a softmax, does not count.
  std::optional<NonFinite> find_nonfinite();

 private:
  void watch(const TapeOptions& options);
  void differentiate(Var y, const ConstView* seed, const BackwardOptions& options);
};

// The same scope without the record: to evaluate. Dropout is off. Results live until it ends, so open it inside of a
// loop rather than around it.
class NoGrad : public detail::Scope {
 public:
  NoGrad() : Scope(false, false, nullptr) {}
};

// Whether the innermost scope trains; throws where none is open.
bool is_training();

// Gives back the memory that this thread's tapes keep for their successors. No scope may be open on it.
void release_tape_memory();

}  // namespace attune
