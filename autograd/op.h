// What it takes to write an op, inside the library or outside. An op is one function:
//
//   inline Var exp(Var x) {
//     Var y = output(x.shape(), {x});                          // 1. check, and room for the result
//     kernels::exp(into(y), x.value());                        // 2. forward
//     return record("exp", y, [=] {                            // 3. the rule, run by backward
//       if (Out d = add_to(x)) kernels::multiply(d, y.grad(), y.value());   // dx += dy * y
//     });
//   }
//
// A rule captures Vars and numbers by value: that is what the op saves. It accumulates, never assigns: add_to(x) says
// where, and whether this is the first touch. Every check belongs before record(): a rule must not throw.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>

#include "attune/autograd/tape.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/map_each.h"
#include "attune/lib/kernels/reduce.h"
#include "attune/lib/shape.h"

namespace attune {

// Whether a rule reads the values of its op's inputs. Where it does not (as in a + b), they may change before backward.
enum class Saves { values, nothing };

// Room for a result, of the inputs' common type: f32, f64 or dual. It needs a gradient if an input does. The memory is
// not set. Inputs that are i32 by their nature, such as token ids or conditions, stand in a list of their own:
// output(shape, {table}, {ids}).
Var output(const Shape& shape, std::span<const Var> inputs, Saves saves = Saves::values,
           std::source_location where = std::source_location::current());
Var output(const Shape& shape, std::initializer_list<Var> inputs, Saves saves = Saves::values,
           std::source_location where = std::source_location::current());
Var output(const Shape& shape, std::initializer_list<Var> inputs, std::initializer_list<Var> integers,
           std::source_location where = std::source_location::current());

// Where the forward kernel writes.
Out into(Var y, std::source_location where = std::source_location::current());

// Where a rule adds to the gradient of x, and whether it is the first to write there; false where x needs none. Use it
// up before the next add_to.
Out add_to(Var x, std::source_location where = std::source_location::current());

// The same for a kernel that writes several gradients at once: the places are distinct memory even where the Vars are
// not (as in layer_norm(x, g, g)); what a later one caught is added when the rule is done.
std::array<Out, 2> add_to(Var a, Var b, std::source_location where = std::source_location::current());
std::array<Out, 3> add_to(Var a, Var b, Var c, std::source_location where = std::source_location::current());

// dx += dy, summed over the axes along which x was stretched to y's shape. Where nobody else needs dy afterwards, and x
// has no gradient yet, its memory is handed on instead of copied: let it be the last thing a rule does with y.grad().
void add_grad_of(Var y, Var x, std::source_location where = std::source_location::current());

// Adds dx, of shape `full`, to the gradient of x, which had been stretched to `full` in forward: summed over the axes
// along which it was. write(place) is called if x needs a gradient, once.
template <class F>
void add_to_stretched(Var x, const Shape& full, F&& write,
                      std::source_location where = std::source_location::current());

// A constant of shape [], of the type of `like`.
Var scalar(double number, Var like, std::source_location where = std::source_location::current());
// A constant that shows memory of the scope, from saved(). `from` is what it was made of, for reports.
Var constant_of(const char* name, const View& value, std::initializer_list<Var> from = {},
                std::source_location where = std::source_location::current());

// Memory for a rule's intermediate results, until the rule returns. Not set.
View scratch(const Shape& shape, DType dtype);
// Memory that lives as long as the innermost scope, for what an op saves besides its Vars. Not set.
View saved(const Shape& shape, DType dtype);
// A list that a rule needs: its copy in the scope's memory, so that the capture is a pointer and a size.
template <class T>
std::span<const T> saved(std::span<const T> items);

// A stream of random numbers that this call alone draws from: the next of the tape's.
Rng draw_stream(std::source_location where = std::source_location::current());

// Names the result and keeps the rule, if the result needs a gradient. Returns y.
template <class Rule>
Var record(const char* name, Var y, const Rule& rule, std::source_location where = std::source_location::current());

// An op whose result is another view of x: its value and its gradient are x's own memory, so it has no rule.
// `change` turns one View into another, and may throw.
template <class F>
Var view_of(const char* name, Var x, F&& change, std::source_location where = std::source_location::current());

// A result that shows `value`, memory of x, but has a gradient of its own (expand), or none (detach).
enum class Flow { open, cut };
Var alias_of(const char* name, Var x, const View& value, Flow flow,
             std::source_location where = std::source_location::current());

// -- Below: how the templates do it.

namespace detail {
Var output_of(const Shape& shape, std::span<const Var> inputs, std::span<const Var> integers, Saves saves,
              std::source_location where);
void* scope_memory(std::size_t bytes, std::size_t alignment);
bool takes_rule(Var y, std::source_location where);
void set_rule(const char* name, Var y, void (*rule)(const void*), const void* captures);

// A Var's value, and its gradient where that is laid out differently (below an expand).
struct ViewPair {
  View value, gradient;
  bool differs;
};
ViewPair views(Var x, std::source_location where);
Var record_view(const char* name, Var x, const ViewPair& pair);
}  // namespace detail

inline Var output(const Shape& shape, std::span<const Var> inputs, Saves saves, std::source_location where) {
  return detail::output_of(shape, inputs, {}, saves, where);
}
inline Var output(const Shape& shape, std::initializer_list<Var> inputs, Saves saves, std::source_location where) {
  return detail::output_of(shape, {inputs.begin(), inputs.size()}, {}, saves, where);
}
inline Var output(const Shape& shape, std::initializer_list<Var> inputs, std::initializer_list<Var> integers,
                  std::source_location where) {
  return detail::output_of(shape, {inputs.begin(), inputs.size()}, {integers.begin(), integers.size()},
                           Saves::values, where);
}

template <class F>
void add_to_stretched(Var x, const Shape& full, F&& write, std::source_location where) {
  Out place = add_to(x, where);
  if (!place) return;
  if (place.view.shape() == full) {
    write(place);
  } else {
    const View whole = scratch(full, place.view.dtype());
    write(Out(whole));
    kernels::sum(place, whole);
  }
}

template <class T>
std::span<const T> saved(std::span<const T> items) {
  static_assert(std::is_trivially_copyable_v<T>);
  auto* copy = static_cast<T*>(detail::scope_memory(items.size_bytes(), alignof(T)));
  std::uninitialized_copy(items.begin(), items.end(), copy);
  return {copy, items.size()};
}

template <class Rule>
Var record(const char* name, Var y, const Rule& rule, std::source_location where) {
  static_assert(std::is_trivially_copyable_v<Rule>, "a rule captures Vars and numbers, by value: [=]");
  if (!detail::takes_rule(y, where)) {
    detail::set_rule(name, y, nullptr, nullptr);
    return y;
  }
  void* captures = detail::scope_memory(sizeof(Rule), alignof(Rule));
  new (captures) Rule(rule);
  detail::set_rule(name, y, [](const void* kept) { (*static_cast<const Rule*>(kept))(); }, captures);
  return y;
}

template <class F>
Var view_of(const char* name, Var x, F&& change, std::source_location where) {
  detail::ViewPair pair = detail::views(x, where);
  pair.value = change(pair.value);
  if (pair.differs) pair.gradient = change(pair.gradient);
  return detail::record_view(name, x, pair);
}

}  // namespace attune
