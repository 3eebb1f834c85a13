// Rows over chosen axes: what a kernel that goes along the last axis gets to see.
#include "attune/autograd/reduction.h"

#include "../lib/kernel_check.h"

using namespace attune;
using check_kernels::values;
using Numbers = std::vector<double>;

TEST_CASE("axis rows: shapes") {
  const AxisRows rows({2, 3, 4}, {-1, 0}, "test");
  CHECK(rows.kept() == Shape{3});
  CHECK(rows.length() == 8);
  CHECK(rows.result(Axes::go) == Shape{3});
  CHECK(rows.result(Axes::stay) == Shape{1, 3, 1});
  const AxisRows all({2, 3}, {}, "test");
  CHECK(all.kept() == Shape{});
  CHECK(all.length() == 6);
  CHECK(AxisRows({}, {}, "test").length() == 1);
  CHECK_THROWS_WITH_AS(AxisRows({2, 3}, 2, "test"), "test: axis 2 does not exist in a tensor of rank 2",
                       std::invalid_argument);
}

TEST_CASE("axis rows: a view where strides allow one, else a copy, in row-major order of the reduced axes") {
  const Tensor x = arange(12);
  const ConstView cube = x.view().reshape({2, 3, 2});
  const NoGrad scope;
  const auto of = [&](const AxisList& axes) { return AxisRows(cube.shape(), axes, "test").of(cube); };
  CHECK(of({1, 2}).data() == x.view().data());
  CHECK(of(1).data() == x.view().data());
  CHECK(of(1).shape() == Shape{2, 2, 3});
  CHECK(values(of(1)) == Numbers{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11});
  CHECK(of({0, 2}).data() != x.view().data());
  CHECK(values(of({2, 0})) == Numbers{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11});
}

TEST_CASE("axis rows: places to add to, in any layout") {
  for (const AxisList& axes : {AxisList{1}, AxisList{0, 2}, AxisList{}}) {
    Tensor to = ones({2, 3, 2});
    const AxisRows rows(to.shape(), axes, "test");
    const NoGrad scope;
    const Tensor from = arange(12);
    rows.add(Out(to.view(), true), [&](const Out& d) {
      CHECK(d.view.shape().last() == rows.length());
      kernels::copy(d, from.view().reshape(d.view.shape()));
    });
    Tensor without = arange(12);
    kernels::subtract(without, to.view().reshape({12}), ones({12}));
    const ConstView moved = rows.of(without.view().reshape({2, 3, 2}));
    CHECK(values(moved) == values(from));
  }
}

TEST_CASE("axis_last swaps an axis with the last one") {
  const Tensor x = arange(6);
  const ConstView matrix = x.view().reshape({2, 3});
  CHECK(values(axis_last(matrix, 0)) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(values(axis_last(matrix, 1)) == values(matrix));
}
