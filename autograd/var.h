// Var: a number array in a computation that a Tape remembers (or a NoGrad forgets).
//
// It is a small handle, trivially copyable: the array belongs to the innermost scope that was open when it was made, and
// the handle dies with that scope. A dead handle, or one from another thread, is an error that names the op.
#pragma once

#include <cstdint>
#include <source_location>

#include "attune/lib/tensor.h"

namespace attune {

class Parameter;

class Var {
 public:
  using Location = std::source_location;

  // A constant, without a gradient. The tensor is borrowed: it must keep its numbers until backward, and a change in
  // between is an error there.
  Var(const Tensor& tensor, Location where = Location::current());  // NOLINT: a tensor is a constant
  // The same, but the scope takes the tensor over.
  Var(Tensor&& tensor, Location where = Location::current());  // NOLINT
  Var(const Tensor&&) = delete;
  // The leaf of a parameter: its gradient goes to the parameter.
  Var(const Parameter& parameter, Location where = Location::current());  // NOLINT

  // Lives as long as the Var's scope.
  const ConstView& value(Location where = Location::current()) const;
  // dL/dx. Inside of a rule: the gradient of the op's result. After backward: of a variable, or of what keep_grad()
  // named; anything else is freed as backward goes, and an error here.
  ConstView grad(Location where = Location::current()) const;
  bool has_grad(Location where = Location::current()) const;

  const Shape& shape(Location where = Location::current()) const;
  DType dtype(Location where = Location::current()) const;
  int rank(Location where = Location::current()) const { return shape(where).rank(); }
  Index size(int axis, Location where = Location::current()) const {
    const Shape& sizes = shape(where);
    return sizes[sizes.axis(axis, "size")];
  }
  double item(Location where = Location::current()) const { return value(where).item(); }
  // Whether a gradient can flow into it.
  bool needs_grad(Location where = Location::current()) const;

  friend bool operator==(Var a, Var b) { return a.id_ == b.id_; }

 private:
  friend struct VarAccess;
  explicit Var(std::uint64_t id) : id_(id) {}

  std::uint64_t id_;  // the node's index, and above it the generation of its scope: one word, stored at once
};

static_assert(std::is_trivially_copyable_v<Var> && sizeof(Var) == 8);

// A leaf with a gradient, borrowed or taken over as a constant is. In dual it keeps the tensor's tangents, which a
// constant cuts.
Var variable(const Tensor& tensor, std::source_location where = std::source_location::current());
Var variable(Tensor&& tensor, std::source_location where = std::source_location::current());
Var variable(const Tensor&&) = delete;

// Keeps the gradient of x (and of all that shares its memory) beyond backward, until the tape ends. Call it before.
void keep_grad(Var x, std::source_location where = std::source_location::current());

}  // namespace attune
