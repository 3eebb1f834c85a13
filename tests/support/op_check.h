// One uniform check for every op. A test says what the op is, what it should compute, and on which shapes:
//
//   TEST_CASE("exp") {
//     check_op({.name = "exp",
//               .f = [](Var x) { return exp(x); },
//               .reference = elementwise([](double x) { return std::exp(x); }),
//               .inputs = odd_sizes(1),
//               .saves = Saves::nothing});
//   }
//
// and check_op holds it to all that ops promise, a column of the table each:
//
//   values     f64 against the reference, which is written in plain double, and in shape
//   f32        f32 against f64: values and gradients
//   gradcheck  reverse mode against differences, in f64
//   dual       reverse mode against forward mode, along a direction in all inputs and in each alone
//   second     the tangents of the dual gradients against differences of the f64 ones
//   strided    each operand as a window, as every other element, with axes reversed, and stretched: the same
//   bits; and
//              all of them as results of other ops, whose gradients nobody keeps
//   broadcast  sizes of 1 on every set of axes, and missing leading axes, on either side: values and
//   gradients f(x,x)     two operands of one shape are one Var: the same value, and the sum of both gradients
//   adds       into a gradient that is there already
//   rows       every instruction set, on 1, 2 and 3 threads, f32, f64 and dual: the same bits
//   saves      whether inputs may change before backward, as the op declares it
//   points     known answers: where a kink is, far out, at infinities and NaN; values, and slopes in both modes
//   errors     messages, to the letter
//
// Besides: an input without a gradient gets none and leaves those of the others as they were. With
// ATTUNE_TABLE=1 in the environment the table is printed after the last test, a line for each op, with the
// worst figure measured or how many comparisons came out equal; with ATTUNE_TABLE=all, a line for each case.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/autograd/op.h"
#include "attune/lib/tensor.h"

namespace attune::check_ops {

// -- What goes in.

// Numbers in [low, high), or token ids 0 ... high - 1, which have no gradient. Where two nearly equal ones would
// be in the way of differences, as in a maximum, they can be equally far apart instead, in a random order: a few
// hundred of them.
struct Input {
  Shape shape;
  double low = -2, high = 2;
  bool ids = false;
  bool apart = false;
};
using Inputs = std::vector<Input>;

Input real(const Shape& shape, double low = -2, double high = 2);
Input apart(const Shape& shape);
Input ids(const Shape& shape, Index count);

// For `operands` operands of one shape: nothing, one, around the widths of registers, and enough for several
// threads.
std::vector<Inputs> odd_sizes(int operands, double low = -2, double high = 2);

// -- What should come out.

// An array of doubles, row-major: x(i, j) is an element.
struct Plain {
  Plain() = default;
  explicit Plain(const Shape& of_shape)
      : shape(of_shape), numbers(static_cast<std::size_t>(of_shape.count())) {}
  explicit Plain(const ConstView& view);

  double& operator()(auto... index) { return numbers[place({static_cast<Index>(index)...})]; }
  double operator()(auto... index) const { return numbers[place({static_cast<Index>(index)...})]; }
  std::size_t place(std::initializer_list<Index> index) const;

  Shape shape;
  std::vector<double> numbers;
};

// A function of a list, from one of the list or of one to four arguments.
template <class Result, class Argument>
class OfList {
 public:
  OfList() = default;
  template <class F>
    requires(!std::is_same_v<F, OfList>)
  OfList(F f) {  // NOLINT: a lambda is one
    if constexpr (std::is_invocable_r_v<Result, F, std::span<const Argument>>)
      call_ = f;
    else if constexpr (std::is_invocable_r_v<Result, F, Argument>)
      call_ = [f](List x) { return f(x[0]); };
    else if constexpr (std::is_invocable_r_v<Result, F, Argument, Argument>)
      call_ = [f](List x) { return f(x[0], x[1]); };
    else if constexpr (std::is_invocable_r_v<Result, F, Argument, Argument, Argument>)
      call_ = [f](List x) { return f(x[0], x[1], x[2]); };
    else
      call_ = [f](List x) { return f(x[0], x[1], x[2], x[3]); };
  }
  Result operator()(std::span<const Argument> list) const { return call_(list); }

 private:
  using List = std::span<const Argument>;
  std::function<Result(List)> call_;
};
using Function = OfList<Var, Var>;
using Reference = OfList<Plain, Plain>;

// One element from one of each operand, which stretch to a common shape.
Reference elementwise(const std::function<double(double)>& f);
Reference elementwise(const std::function<double(double, double)>& f);

// -- The check.

// A call that must throw std::invalid_argument with this message. A tape is open around it.
struct Refusal {
  std::function<void()> call;
  std::string message;
};

// A known answer: at these numbers, one for each operand, f is y, and its slopes are these (none: not checked).
struct Point {
  std::vector<double> at;
  double y = 0;
  std::vector<double> slopes = {};
};

struct OpCase {
  std::string name =
      {};  // a row of the table: the op as its messages call it, and after a comma what is special here
  Function f = {};
  Reference reference = {};
  std::vector<Inputs> inputs = {};  // each list of inputs goes through every check

  bool broadcasts = false;      // two operands that stretch: shapes are added to `inputs`
  bool differentiable = true;   // else: no gradient, and no tangent, passes
  bool any_dtype = false;       // it moves elements and computes nothing, so i32 is welcome
  bool strided = true;          // whether every layout is welcome
  bool composed = false;        // of several ops, so that messages have the names of its parts
  Saves saves = Saves::values;  // whether the rule reads the inputs' values
  double f32_bound = 5e-7;      // on max |f32 - f64| / max |f64|, of values and of each gradient: 8 roundings
  std::vector<Point> points = {};
  std::vector<Refusal> errors = {};
};

// What each check may be off by, relative to the largest element.
inline constexpr double kValueBound = 1e-13;
inline constexpr double kGradcheckBound = 1e-8;
inline constexpr double kDualBound = 1e-12;
inline constexpr double kSecondBound = 1e-8;
inline constexpr double kSumBound = 1e-15;
inline constexpr double kPointBound = 2e-15;  // of each number by itself; in f32 3e-7

enum class Column {
  values,
  single,
  gradcheck,
  dual,
  second,
  strided,
  broadcast,
  same,
  adds,
  rows,
  saves,
  points,
  errors
};
inline constexpr int kColumns = 13;

struct OpReport {
  std::string name;
  std::map<Column, double> worst;  // of the columns that measure
  std::map<Column, Index> equal;   // of those that compare: how many came out equal
  std::optional<Saves> saves;      // as found
  std::map<Column, std::string> reasons;  // of columns that have no meaning here: what stands under the table
  std::vector<std::string> failures;
};

// Elements elsewhere: a larger memory, and the view in it that has the wanted shape.
struct Arrangement {
  const char* name;
  Shape (*memory)(const Shape& shape);
  View (*place)(const View& memory, const Shape& shape);
};
std::span<const Arrangement> arrangements();

// Runs every check, and asserts nothing.
OpReport examine(const OpCase& op);

// Runs every check; each failure fails the test that called. The figures go into the table.
void check_op(const OpCase& op);

// A line for each report, under the columns' headings. A dash with a letter has its reason below.
std::string table(std::span<const OpReport> reports);
// One report for each op, which is what stands before the comma of a name: the worst of its cases.
std::vector<OpReport> by_op(std::span<const OpReport> cases);
// Adds to what is printed after the last test.
void add_to_table(OpReport report);

}  // namespace attune::check_ops
