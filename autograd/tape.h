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
};

// What backward did for one parameter.
struct ParameterReport {
  enum class Gradient { reached, zero, missing };
  std::string parameter;  // its path in the model once an optimizer or flatten() has named it, else its shape
  Gradient gradient;
  std::string ended_at;  // where not reached: the last op on its way, and why it ended there
};

struct BackwardOptions {
  GradientSet* into = nullptr;                       // instead of the parameters themselves
  std::function<void(const Parameter&)> ready = {};  // called once this parameter's gradient is complete
};

class Tape : public detail::Scope {
 public:
  explicit Tape(const TapeOptions& options = {}) : Scope(true, options.training, options.random) {}

  // Adds dloss/dp to the gradient of every parameter p that the scalar `loss` depends on, and writes the gradients of
  // variables and of what was kept. Once per tape; nothing changes where it throws.
  void backward(Var loss, const BackwardOptions& options = {});
  void backward(Var loss, GradientSet& into);
  // For a y of any shape: `seed` is the gradient of what is differentiated with respect to y, of y's shape and type.
  void backward(Var y, const ConstView& seed, const BackwardOptions& options = {});

  // After backward, and before parameters change: one line for each parameter used on this tape.
  std::vector<ParameterReport> report();

 private:
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
