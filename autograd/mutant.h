// Wrong rules, made on purpose: whoever checks gradients must be checked, too.
//
//   const Mutant mutant({.op = "softmax", .which = 2, .change = scaled_by(1.001)});   // until the end of the scope
//   CHECK_FALSE(verify(model, loss));
//
// While one lives, the rules of matching ops that this thread's tapes record do what they do, and then what they wrote is
// changed before it is added. Nothing else is slower for it, and tapes that are open already are not touched. It must
// outlive the tapes that it changed.
#pragma once

#include <functional>
#include <string>

#include "attune/autograd/tape.h"

namespace attune {

struct MutantOptions {
  std::string op;   // as reports call it
  int which = -1;   // of the ops of that name on a tape, counted from 0; -1: all
  int input = -1;   // whose gradient; -1: of all
  // What the rule wrote for an input, of the shape of the memory that holds it, to be changed in place.
  std::function<void(const View& written)> change = {};
  bool assigns = false;  // instead of adding to what is there
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

// Changes: all of it times a factor (-1, 2, 1.001, or 0 for a term that is missing); the last row forgotten; rows shifted
// by one, the first coming last; the last two axes swapped, where they are of one size.
std::function<void(const View&)> scaled_by(double factor);
std::function<void(const View&)> without_last_row();
std::function<void(const View&)> rows_shifted();
std::function<void(const View&)> transposed();

}  // namespace attune
