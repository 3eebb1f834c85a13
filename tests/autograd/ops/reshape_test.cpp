// reshape: the same elements in another shape, as a view.
#include "attune/autograd/ops/reshape.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/contiguous.h"
#include "attune/autograd/ops/permute.h"
#include "attune/autograd/ops/slice.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain with_shape(const Plain& x, const Shape& shape) {
  Plain y = x;
  y.shape = shape;
  return y;
}

}  // namespace

TEST_CASE("reshape") {
  check_op(
      {.name = "reshape",
       .f =
           [](Var x) {
             return reshape(x, {3, -1});
           },
       .reference =
           [](const Plain& x) {
             return with_shape(x, {3, x.shape.count() / 3});
           },
       .inputs = {{real({2, 3, 4})},
                  {real({3})},
                  {real({1, 17, 3})},
                  {real({3, 0})},
                  {real({2, 3, 1, 1, 1, 33})},
                  {real({30, 41, 150})}},
       .any_dtype = true,
       .strided = false,  // not every layout has a view of another shape
       .saves = Saves::nothing,
       .errors =
           {{[] {
               reshape(zeros({2, 3}), {4, 2});
             },
             "reshape: [2, 3] has 6 elements, [4, 2] has 8"},
            {[] {
               reshape(zeros({2, 3}), {-1, 4});
             },
             "reshape: [2, 3] has 6 elements, which 4 does not divide"},
            {[] {
               reshape(zeros({2, 3}), {-1, -1});
             },
             "reshape: more than one size is -1"},
            {[] {
               reshape(zeros({2, 3}), {-2, 3});
             },
             "reshape: a size of -2 is negative"},
            {[] {
               reshape(zeros({0, 3}), {0, -1});
             },
             "reshape: [0, 3] has 0 elements, which 0 does not divide"},
            {[] {
               reshape(t(zeros({2, 3})), {6});
             },
             "reshape: [3, 2] with strides [1, 3] is no view of [6]: copy it with contiguous() first"}}});
}

TEST_CASE("reshape: to a shape, to a scalar and back") {
  check_op({.name = "reshape, to a shape",
            .f =
                [](Var x) {
                  return reshape(x, Shape{2, 1, 6});
                },
            .reference =
                [](const Plain& x) {
                  return with_shape(x, {2, 1, 6});
                },
            .inputs = {{real({3, 4})}, {real({12})}},
            .any_dtype = true,
            .strided = false,
            .saves = Saves::nothing});
  check_op({.name = "reshape, to a scalar",
            .f = [](Var x) { return reshape(x, {}); },
            .reference = [](const Plain& x) { return with_shape(x, {}); },
            .inputs = {{real({1, 1})}, {real({})}},
            .any_dtype = true,
            .saves = Saves::nothing});
}

TEST_CASE("reshape: of a strided Var, where its elements stand evenly") {
  check_op({.name = "reshape, heads of a slice",
            .f =
                [](Var x) {
                  return reshape(slice(x, -1, 4, 10), {2, 3, 2, 3});
                },
            .reference =
                [](const Plain& x) {
                  Plain y({2, 3, 2, 3});
                  for (Index b = 0; b < 2; ++b)
                    for (Index i = 0; i < 3; ++i)
                      for (Index c = 0; c < 6; ++c) y(b, i, c / 3, c % 3) = x(b, i, 4 + c);
                  return y;
                },
            .inputs = {{real({2, 3, 12})}},
            .any_dtype = true,
            .composed = true,
            .saves = Saves::nothing});
}

TEST_CASE("reshape: of any Var, through contiguous") {
  check_op({.name = "reshape, contiguous first",
            .f = [](Var x) { return reshape(contiguous(t(x)), {-1}); },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape.count()});
                  for (Index i = 0; i < x.shape[0]; ++i)
                    for (Index j = 0; j < x.shape[1]; ++j) y(j * x.shape[0] + i) = x(i, j);
                  return y;
                },
            .inputs = {{real({3, 4})}, {real({1, 17})}, {real({0, 3})}, {real({33, 16})}},
            .any_dtype = true,
            .composed = true,
            .saves = Saves::nothing});
}
