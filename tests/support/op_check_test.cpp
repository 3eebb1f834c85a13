// The check of ops, checked: each kind of mistake that an op can make is found in its own column.
#include "op_check.h"

#include <algorithm>

#include "../lib/kernel_check.h"
#include "attune/autograd/ops/add.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf;

namespace {

// y = 3x, and its gradient times `wrong`.
Var triple(Var x, double wrong = 1) {
  Var y = output(x.shape(), {x}, Saves::nothing);
  kernels::scale(into(y), x.value(), 3);
  return record("triple", y, [=] {
    if (Out d = add_to(x)) kernels::scale(d, y.grad(), 3 * wrong);
  });
}

// x's memory from its first element on, taken for row-major: as far as it goes, then its last element again.
Tensor as_its_memory_lies(const ConstView& x) {
  Index last = 0;
  for (int axis = 0; axis < x.rank(); ++axis) last += (x.shape()[axis] - 1) * x.stride(axis);
  Tensor y(x.shape(), x.dtype());
  const Index size = size_of(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.data());
  auto* to = static_cast<std::byte*>(y.view().data());
  for (Index i = 0; i < x.count(); ++i) std::copy_n(from + std::min(i, last) * size, size, to + i * size);
  return y;
}

OpCase correct() {
  return {.name = "triple",
          .f = [](Var x) { return triple(x); },
          .reference = elementwise([](double x) { return 3 * x; }),
          .inputs = {{real({2, 3})}, {real({17})}},
          .saves = Saves::nothing};
}

// The columns in which an op failed, each once.
std::vector<std::string> failed(const OpCase& op) {
  std::vector<std::string> columns;
  for (const std::string& failure : examine(op).failures) {
    const std::size_t start = failure.find(": ") + 2;
    const std::string column = failure.substr(start, failure.find_first_of(" :", start) - start);
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
  }
  return columns;
}

bool fails(const OpCase& op, const std::string& column) {
  const std::vector<std::string> columns = failed(op);
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

using Columns = std::vector<std::string>;

}  // namespace

TEST_CASE("check_op: a right op passes, and every column has its figure") {
  const OpReport report = examine(correct());
  CHECK(report.failures == Columns{});
  for (Column column :
       {Column::values, Column::single, Column::gradcheck, Column::dual, Column::second, Column::adds})
    CHECK(report.worst.count(column) == 1);
  for (Column column : {Column::strided, Column::rows, Column::errors}) CHECK(report.equal.at(column) > 0);
}

TEST_CASE("check_op: a wrong value, and a wrong shape") {
  OpCase op = correct();
  op.reference = elementwise([](double x) { return 3 * x + 1e-12; });
  CHECK(failed(op) == Columns{"values"});
  op.reference = [](const Plain& x) { return Plain({x.shape.count() + 1}); };
  CHECK(failed(op) == Columns{"values"});
}

TEST_CASE("check_op: a gradient that is off by a millionth") {
  OpCase op = correct();
  op.f = [](Var x) { return triple(x, 1 + 1e-6); };
  CHECK(failed(op) == Columns{"gradcheck", "dual"});
}

TEST_CASE("check_op: a gradient that is assigned instead of added") {
  OpCase op = correct();
  op.f = [](Var x) {
    Var y = output(x.shape(), {x}, Saves::nothing);
    kernels::scale(into(y), x.value(), 3);
    return record("triple", y, [=] {
      if (Out d = add_to(x)) kernels::scale(d.view, y.grad(), 3);
    });
  };
  CHECK(fails(op, "adds"));
}

TEST_CASE("check_op: a second derivative that is lost") {
  OpCase op = correct();
  op.name = "square";
  op.reference = elementwise([](double x) { return x * x; });
  op.saves = Saves::values;
  op.f = [](Var x) {
    Var y = output(x.shape(), {x});
    kernels::multiply(into(y), x.value(), x.value());
    return record("square", y, [=] {
      const View twice = scratch(x.shape(), x.dtype());
      kernels::scale(twice, x.value(), 2);
      if (x.dtype() == DType::dual)
        for (Index i = 0; i < twice.count(); ++i) twice.as<dual>()[i].tangent = 0;
      if (Out d = add_to(x)) kernels::multiply(d, y.grad(), twice);
    });
  };
  CHECK(fails(op, "second"));
}

TEST_CASE("check_op: a kernel that takes every layout for row-major") {
  OpCase op = correct();
  op.f = [](Var x) {
    Var y = output(x.shape(), {x}, Saves::nothing);
    kernels::scale(into(y), as_its_memory_lies(x.value()), 3);
    return record("triple", y, [=] {
      if (Out d = add_to(x)) kernels::scale(d, y.grad(), 3);
    });
  };
  CHECK(failed(op) == Columns{"strided", "errors"});
}

TEST_CASE("check_op: results that depend on the instruction set or on threads") {
  if (supported_rows().size() > 1) {
    OpCase op = correct();
    op.f = [](Var x) { return triple(x, row() == "scalar" ? 1 : 1 + 0x1p-22); };
    CHECK(fails(op, "rows"));
  }
  OpCase op = correct();
  op.f = [](Var x) { return triple(x, threads() == 2 ? 1 + 0x1p-22 : 1); };
  CHECK(fails(op, "rows"));
}

TEST_CASE("check_op: values that the rule reads and that were not declared as saved") {
  OpCase op = correct();
  op.f = [](Var x) {
    Var y = output(x.shape(), {x}, Saves::nothing);
    kernels::exp(into(y), x.value());
    return record("exp", y, [=] {
      const View again = scratch(x.shape(), x.dtype());
      kernels::exp(again, x.value());
      if (Out d = add_to(x)) kernels::multiply(d, y.grad(), again);
    });
  };
  CHECK(fails(op, "saves"));
  op = correct();
  op.saves = Saves::values;
  CHECK(failed(op) == Columns{"saves"});
}

TEST_CASE("check_op: a wrong value or slope at a known point") {
  OpCase op = correct();
  op.points = {{{2}, 6, {3}}, {{kInf}, kInf, {3}}};
  CHECK(failed(op) == Columns{});
  op.points = {{{2}, 6.0000000000001}};
  CHECK(failed(op) == Columns{"points"});
  op.points = {{{2}, 6, {-3}}};
  CHECK(failed(op) == Columns{"points"});
  op.points = {{{kInf}, 6}};
  CHECK(failed(op) == Columns{"points"});
}

TEST_CASE("check_op: an i32 operand that is refused under another name") {
  OpCase op = correct();
  op.reference = elementwise([](double a, double b) { return 3 * a + b; });
  op.inputs = {{real({3}), real({3})}};
  op.f = [](Var a, Var b) { return triple(a) + b; };
  CHECK(failed(op) == Columns{"errors"});
}

TEST_CASE("check_op: another message than the op has") {
  OpCase op = correct();
  op.errors = {{[] { check(false, "triple: no"); }, "triple: never"}, {[] {}, "triple: no"}};
  CHECK(failed(op) == Columns{"errors"});
  CHECK(examine(op).failures.size() == 2);
}

TEST_CASE("check_op: an op that throws is a failure, not the end of the tests") {
  OpCase op = correct();
  op.f = [](Var x) {
    check(x.rank() == 1, "triple: {} is no row", x.shape());
    return triple(x);
  };
  CHECK(fails(op, "values"));
}

TEST_CASE("check_op: the table has a line for each op, with the worst of its cases") {
  OpReport one, other, third;
  one.name = "add";
  one.worst = {{Column::values, 1e-16}, {Column::dual, 3e-15}};
  one.equal = {{Column::rows, 24}};
  one.saves = Saves::nothing;
  other.name = "add, a number";
  other.worst = {{Column::values, 2e-16}, {Column::dual, 1e-15}};
  other.equal = {{Column::rows, 12}};
  third.name = "t";
  third.worst = {{Column::values, 0}};
  const std::vector<OpReport> ops = by_op(std::vector<OpReport>{one, other, third});
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].worst.at(Column::values) == 2e-16);
  CHECK(ops[0].worst.at(Column::dual) == 3e-15);
  CHECK(ops[0].equal.at(Column::rows) == 36);
  CHECK(ops[0].saves == Saves::nothing);
  CHECK(table(ops) ==
        "op      values        f32  gradcheck       dual     second    strided  broadcast     f(x,x)       "
        "adds       "
        "rows      saves     points     errors\n"
        "add    2.0e-16          -          -    3.0e-15          -          -          -          -         "
        " -       "
        "36 =    nothing          -          -\n"
        "t            0          -          -          -          -          -          -          -         "
        " -       "
        "   -          -          -          -\n");
}
