// Plain arrays, and references for ops that go element by element.
#include "../lib/kernel_check.h"
#include "op_check.h"

namespace attune::check_ops {
namespace {

// The element of x that an element of the stretched shape shows.
double stretched_element(const Plain& x, const Shape& full, Index element) {
  Index place = 0, step = 1;
  for (int back = 0; back < x.shape.rank(); ++back) {
    if (x.shape.last(back) != 1) place += element % full.last(back) * step;
    element /= full.last(back);
    step *= x.shape.last(back);
  }
  return x.numbers[static_cast<std::size_t>(place)];
}

Shape stretched_shape(const Shape& a, const Shape& b) {
  if (a.rank() < b.rank()) return stretched_shape(b, a);
  Shape result = a;
  for (int back = 0; back < b.rank(); ++back)
    if (a.last(back) == 1) result[a.rank() - 1 - back] = b.last(back);
  return result;
}

}  // namespace

Plain::Plain(const ConstView& view) : shape(view.shape()), numbers(check_kernels::values(view)) {}

std::size_t Plain::place(std::initializer_list<Index> index) const {
  check(static_cast<int>(index.size()) == shape.rank(), "{} indices for {}", index.size(), shape);
  Index result = 0;
  int axis = 0;
  for (Index at : index) {
    check(at >= 0 && at < shape[axis], "index {} is outside of axis {} of {}", at, axis, shape);
    result = result * shape[axis++] + at;
  }
  return static_cast<std::size_t>(result);
}

Reference elementwise(const std::function<double(double)>& f) {
  return [f](const Plain& x) {
    Plain y = x;
    for (double& number : y.numbers) number = f(number);
    return y;
  };
}

Reference elementwise(const std::function<double(double, double)>& f) {
  return [f](const Plain& a, const Plain& b) {
    Plain y(stretched_shape(a.shape, b.shape));
    for (Index i = 0; i < y.shape.count(); ++i)
      y.numbers[static_cast<std::size_t>(i)] =
          f(stretched_element(a, y.shape, i), stretched_element(b, y.shape, i));
    return y;
  };
}

}  // namespace attune::check_ops
