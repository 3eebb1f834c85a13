#include "attune/lib/kernels/gather.h"

#include "attune/lib/kernels/lines.h"
#include "attune/lib/kernels/rowwise.h"

namespace attune::kernels {
namespace {

constexpr std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

// The axis, after a check that ids and `some` have one shape, which is that of `whole` but along it.
int check_picked(const char* op, const ConstView& some, const ConstView& whole, const ConstView& ids, int axis) {
  check(ids.dtype() == i32, "{}: ids are of {}, not i32", op, ids.dtype());
  check(some.dtype() == whole.dtype(), "{}: element types {} and {} differ", op, some.dtype(), whole.dtype());
  const int along = whole.shape().axis(axis, op);
  Shape expected = whole.shape();
  if (ids.rank() == whole.rank()) expected[along] = ids.shape()[along];
  check(ids.shape() == expected && some.shape() == expected, "{}: ids {} and {} do not fit {} along axis {}", op,
        ids.shape(), some.shape(), whole.shape(), axis);
  check_ids(ids, whole.shape()[along], kNothingIgnored, [&](Index id, const Shape& position) {
    check(false, "{}: id {} at {} is outside of axis {} of {}", op, id, position, axis, whole.shape());
  });
  return along;
}

}  // namespace

void gather(const Out& y, const ConstView& x, const ConstView& ids, int axis) {
  if (!y) return;
  const ConstView some = y.view;
  const int along = check_picked("gather", some, x, ids, axis);
  const Index size = ids.shape()[along];
  const Index y_step = some.strides()[at(along)], x_step = x.strides()[at(along)], id_step = ids.strides()[at(along)];
  const std::int32_t* const id = ids.as<std::int32_t>();
  visit(x.dtype(), [&]<class T>() {
    T* const to = y.view.as<T>();
    const T* const from = x.as<T>();
    each_line(around_axis(ids.shape(), along), std::array{&some, &x, &ids}, size, [&](Index, const auto& start) {
      for (Index k = 0; k < size; ++k)
        put(to[start[0] + k * y_step], from[start[1] + id[start[2] + k * id_step] * x_step], y.accumulate);
    });
  });
}

void scatter_add(const View& y, const ConstView& source, const ConstView& ids, int axis) {
  const ConstView whole = y;
  const int along = check_picked("scatter_add", source, whole, ids, axis);
  const Index size = ids.shape()[along];
  const Index y_step = y.strides()[at(along)], from_step = source.strides()[at(along)], id_step = ids.strides()[at(along)];
  const std::int32_t* const id = ids.as<std::int32_t>();
  visit(y.dtype(), [&]<class T>() {
    T* const to = y.as<T>();
    const T* const from = source.as<T>();
    each_line(around_axis(ids.shape(), along), std::array{&whole, &source, &ids}, size, [&](Index, const auto& start) {
      for (Index k = 0; k < size; ++k)
        put(to[start[0] + id[start[2] + k * id_step] * y_step], from[start[1] + k * from_step], true);
    });
  });
}

void lower_triangle(const Out& y, const ConstView& x, Index diagonal) {
  if (!y) return;
  check(x.rank() >= 2, "tril: {} is no matrix", x.shape());
  check(x.shape() == y.view.shape() && x.dtype() == y.view.dtype(), "tril: {} {} does not fit {} {}", x.dtype(), x.shape(),
        y.view.dtype(), y.view.shape());
  const ConstView result = y.view;
  const int last = x.rank() - 1;
  const Index columns = x.shape()[last], rows = x.shape()[last - 1];
  const Index y_step = result.strides()[at(last)], x_step = x.strides()[at(last)];
  visit(x.dtype(), [&]<class T>() {
    T* const to = y.view.as<T>();
    const T* const from = x.as<T>();
    each_line(around_axis(x.shape(), last), std::array{&result, &x}, columns, [&](Index row, const auto& start) {
      const Index kept = row % rows + diagonal + 1;
      for (Index k = 0; k < columns; ++k) {
        T& place = to[start[0] + k * y_step];
        if (k < kept) put(place, from[start[1] + k * x_step], y.accumulate);
        else if (!y.accumulate) place = T{};
      }
    });
  });
}

}  // namespace attune::kernels
