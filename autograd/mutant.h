// Wrong rules, made on purpose: whoever checks gradients must be checked, too.
//
//   const Mutant mutant({.op = "softmax", .which = 2, .change = scaled_by(1.001)});   // until the end of the scope
//   CHECK_FALSE(verify(model, loss));
//
// While one lives, the rules of matching ops that this thread's tapes record do what they do, and then what they wrote
// is changed before it is added; or what they read is changed for as long as they run. Nothing else is slower for it,
// and tapes that are open already are not touched. It must outlive the tapes that it changed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attune/autograd/tape.h"

namespace attune {

struct MutantOptions {
  std::string op = {};  // as reports call it
  int which = -1;       // of the ops of that name on a tape, counted from 0; -1: all
  int input = -1;       // whose gradient; -1: of all
  // What the rule wrote for an input, of the shape of the memory that holds it, to be changed in place.
  std::function<void(const View& written)> change = {};
  bool assigns = false;  // instead of adding to what is there

  // The same, where the result's gradient (which the rule multiplies) must be known, too.
  std::function<void(const View& written, const ConstView& upstream)> replace = {};
  // The result's gradient, to be changed before the rule reads it.
  std::function<void(const View& upstream)> upstream = {};
  // What the rule wrote for element `element` of the result's gradient alone, the others being 0. A rule is linear in
  // that gradient, so that all of these together are what it writes: here terms can be taken out of its sums.
  std::function<void(const View& written, Index element)> terms = {};
  // Numbers that the rule may read besides, to be changed before it runs: number `saved` of MutantTarget::saved.
  std::function<void(const View& numbers)> stale = {};
  int saved = -1;
  int swapped_with = -1;  // what the rule wrote for `input` and for this one change places
  bool garbage = false;   // the rule adds to memory that nobody has written to, and that holds whatever it holds
};

class Mutant {
 public:
  explicit Mutant(MutantOptions options);
  ~Mutant();
  Mutant(const Mutant&) = delete;
  Mutant& operator=(const Mutant&) = delete;

  // How many rules were made wrong so far: none means that the mutant was never there.
  int count() const;

 private:
  struct State;
  State* state_;
};

// What can be made wrong: an input that a rule writes to.
struct MutantTarget {
  std::string op;
  int which, input;
  Shape result, shape;
  std::vector<int> inputs = {};  // all that the rule writes to
  // What the rule might read: "the value of input 0", "the result", or what the op saved besides. Inputs that show the
  // same memory are one.
  std::vector<std::string> saved = {};
};

// All that f records on a tape of its own. Inputs that have one gradient are named once.
std::vector<MutantTarget> mutant_targets(const std::function<Var()>& f, Rng* random = nullptr);

// Changes: all of it times a factor (-1, 2, 1.001, or 0 for a term that is missing); the last row forgotten; rows
// shifted by one, the first coming last; the last two axes swapped, or, where they differ in size, the numbers in the
// order that they have in the transpose; all numbers moved on by one place.
std::function<void(const View&)> scaled_by(double factor);
std::function<void(const View&)> without_last_row();
std::function<void(const View&)> rows_shifted();
std::function<void(const View&)> transposed();
std::function<void(const View&)> moved_on();

}  // namespace attune
