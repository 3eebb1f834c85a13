#include "attune/lib/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "attune/lib/kernels/elementwise.h"

namespace attune {
namespace {

std::size_t bytes_of(const Shape& shape, DType dtype) {
  std::size_t bytes = static_cast<std::size_t>(size_of(dtype));
  for (Index size : shape)
    check_environment(!__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes) &&
                          bytes < std::size_t{1} << 62,
                      "tensor: {} of {} {} larger than any memory", shape, dtype,
                      shape.count() == 0 ? "is empty, but has strides, which are products of its sizes," : "is");
  return bytes;
}

template <class To, class From>
To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_same_v<From, dual>) {
    return convert<To>(from.value);
  } else if constexpr (std::is_same_v<To, dual>) {
    return dual{static_cast<double>(from), 0};
  } else if constexpr (std::is_same_v<To, std::int32_t>) {
    constexpr double least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
    const auto number = static_cast<double>(from);
    check(number >= least && number <= most && number == std::trunc(number),
          "to: {} is not an integer that i32 can hold", number);
    return static_cast<std::int32_t>(number);
  } else {
    return static_cast<To>(from);
  }
}

void shape_of(const Nested& numbers, Shape& shape) {
  if (!numbers.is_list()) return;
  shape.append(static_cast<Index>(numbers.items().size()));
  if (!numbers.items().empty()) shape_of(numbers.items().front(), shape);
}

void flatten(const Nested& numbers, const Shape& shape, int axis, std::vector<double>& flat) {
  check(numbers.is_list() == (axis < shape.rank()), "tensor: numbers and lists are mixed along axis {}", axis);
  if (!numbers.is_list()) {
    flat.push_back(numbers.number());
    return;
  }
  check(static_cast<Index>(numbers.items().size()) == shape[axis],
        "tensor: rows of {} and of {} numbers along axis {}", shape[axis], numbers.items().size(), axis);
  for (const Nested& item : numbers.items()) flatten(item, shape, axis + 1, flat);
}

}  // namespace

Tensor::Tensor(const Shape& shape, DType dtype) {
  const std::size_t bytes = bytes_of(shape, dtype);
  storage_ = detail::StorageRef(detail::Storage::create(bytes));
  view_ = View(storage_->data(), shape, dtype);
  std::memset(storage_->data(), 0, bytes);
}

Tensor Tensor::copy_of(const ConstView& view) {
  Tensor copy(view.shape(), view.dtype());
  kernels::copy(copy, view);
  return copy;
}

void Tensor::set(std::initializer_list<Index> index, double value) {
  View place = view_;
  check(static_cast<int>(index.size()) == rank(), "set: {} indices for {}", index.size(), shape());
  for (Index i : index) place = place.select(0, i);
  visit(dtype(), [&]<class T>() {
    const T element = convert<T>(value);
    touch();
    *place.as<T>() = element;
  });
}

Tensor Tensor::to(DType dtype) const {
  Tensor result(shape(), dtype);
  visit(this->dtype(), [&]<class From>() {
    const auto from = data<From>();
    visit(dtype, [&]<class To>() {
      auto* to = result.data<To>().data();
      for (const From& number : from) *to++ = convert<To>(number);
    });
  });
  return result;
}

Tensor tensor(const Nested& numbers, DType dtype) {
  Shape shape;
  shape_of(numbers, shape);
  std::vector<double> flat;
  flatten(numbers, shape, 0, flat);
  Tensor result(shape, dtype);
  visit(dtype, [&]<class T>() {
    auto* to = result.data<T>().data();
    for (double number : flat) *to++ = convert<T>(number);
  });
  return result;
}

Tensor zeros(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }

Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor full(const Shape& shape, double value, DType dtype) {
  Tensor result(shape, dtype);
  visit(dtype, [&]<class T>() {
    for (T& element : result.data<T>()) element = convert<T>(value);
  });
  return result;
}

Tensor arange(Index n, DType dtype) {
  check(n >= 0, "arange: a count of {} is negative", n);
  Tensor result(Shape{n}, dtype);
  visit(dtype, [&]<class T>() {
    double next = 0;
    for (T& element : result.data<T>()) element = convert<T>(next++);
  });
  return result;
}

}  // namespace attune
