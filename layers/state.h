// What must be kept for a training run to go on as if it had never stopped. Whatever has state (an optimizer, averages
// of weights, a stream of random numbers) shows it to a StateVisitor, once for saving and loading alike:
//
//   void visit_state(StateVisitor& state) {
//     state.tensor("momentum", momentum_.view());
//     state.integer("steps", steps_);
//   }
//
// layers/checkpoint.h has the two visitors that write a file and read it.
#pragma once

#include <functional>
#include <string>

#include "attune/lib/random.h"
#include "attune/lib/view.h"

namespace attune {

class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // One visitor reads what it is shown; the other notes where it is to write, and writes when all of a file was found
  // to fit. So do not change anything here: what is to happen after loading goes to when_loaded().
  virtual void tensor(const std::string& name, const View& numbers) = 0;
  virtual void text(const std::string& name, std::string& text) = 0;
  virtual void integer(const std::string& name, Index& number) = 0;
  virtual void number(const std::string& name, double& number) = 0;
  virtual void random(const std::string& name, Rng& rng) = 0;
  // What must be the same when it is loaded: the kind of an optimizer.
  virtual void constant(const std::string& name, const std::string& text) = 0;
  virtual void when_loaded(std::function<void()> action) = 0;
};

}  // namespace attune
