#include "attune/lib/tensor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <numeric>
#include <utility>

using namespace attune;

// A tensor moves, and copies only by clone().
static_assert(!std::copy_constructible<Tensor> && !std::is_copy_assignable_v<Tensor>);
static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
// A view of a temporary, or one that writes to a constant, would be a trap.
static_assert(std::convertible_to<Tensor&, View> && std::convertible_to<Tensor&, Out>);
static_assert(!std::convertible_to<Tensor, View> && !std::convertible_to<Tensor, Out>);
static_assert(!std::convertible_to<const Tensor&, View> && !std::convertible_to<const Tensor&, Out>);
static_assert(std::convertible_to<Tensor&, ConstView> && std::convertible_to<const Tensor&, ConstView>);
static_assert(std::same_as<decltype(std::declval<const Tensor&>().view()), ConstView>);
static_assert(std::same_as<decltype(std::declval<const Tensor&>().data<float>()), std::span<const float>>);

TEST_CASE("a new tensor is zero, contiguous and aligned") {
  for (DType dtype : {f32, f64, DType::dual, i32}) {
    const Tensor t(Shape{3, 5}, dtype);
    CHECK(t.shape() == Shape{3, 5});
    CHECK(t.dtype() == dtype);
    CHECK(t.count() == 15);
    CHECK(t.view().is_contiguous());
    CHECK(reinterpret_cast<std::uintptr_t>(t.view().data()) % kAlignment == 0);
    for (Index i = 0; i < 15; ++i) CHECK(t.view().reshape({15}).at({i}) == 0);
  }
  const Tensor none;
  CHECK(none.shape() == Shape{0});
  CHECK(none.count() == 0);
  CHECK(none.dtype() == f32);
  CHECK(none.data<float>().empty());
  CHECK(none.clone().shape() == Shape{0});
  CHECK(none.to(f64).dtype() == f64);
  CHECK(Tensor(Shape{4, 0}).count() == 0);
}

TEST_CASE("tensors are written as nested braces") {
  CHECK(tensor(3).rank() == 0);
  CHECK(tensor(3).item() == 3);
  CHECK(tensor({7}).shape() == Shape{1});
  CHECK(tensor({{7}}).shape() == Shape{1, 1});
  CHECK(tensor({1, 2, 3}).shape() == Shape{3});
  const Tensor matrix = tensor({{1, 2}, {3, 4}, {5, 6}}, f64);
  CHECK(matrix.shape() == Shape{3, 2});
  CHECK(matrix.dtype() == f64);
  CHECK(matrix.at({2, 0}) == 5);
  CHECK(tensor({{{1, 2}}, {{3, 4}}}).shape() == Shape{2, 1, 2});
  CHECK(tensor({{{{{{1}}}}}}).shape() == Shape{1, 1, 1, 1, 1, 1});
  CHECK(tensor({1, 2}, i32).at({1}) == 2);
  CHECK(tensor({1.5}, DType::dual).data<dual>()[0].value == 1.5);

  CHECK_THROWS_WITH_AS(tensor({{1, 2}, {3}}), "tensor: rows of 2 and of 1 numbers along axis 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({{1, 2}, 3}), "tensor: numbers and lists are mixed along axis 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({1, {2, 3}}), "tensor: numbers and lists are mixed along axis 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({{{1}, {2}}, {{3}, {4, 5}}}), "tensor: rows of 1 and of 2 numbers along axis 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({1, 2.5}, i32), "to: 2.5 is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({{{{{{{1}}}}}}}), "shape: rank 7 is above the limit of 6",
                       std::invalid_argument);
}

TEST_CASE("zeros, ones, full, arange") {
  CHECK(zeros({2}).at({1}) == 0);
  CHECK(ones({2, 2}, i32).at({1, 1}) == 1);
  CHECK(full({3}, 2.5, f64).at({2}) == 2.5);
  CHECK(full({}, 7).item() == 7);
  CHECK(full({1}, 2, DType::dual).data<dual>()[0].tangent == 0);
  CHECK(arange(5).at({4}) == 4);
  CHECK(arange(5, i32).dtype() == i32);
  CHECK(arange(0).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(full({1}, 0.5, i32), "to: 0.5 is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(arange(-1), "arange: a count of -1 is negative", std::invalid_argument);
}

TEST_CASE("elements are read with at and item, and written with set") {
  Tensor t(Shape{2, 3});
  t.set({1, 2}, 1.5);
  t.set({-2, -3}, -4);
  CHECK(t.at({1, 2}) == 1.5);
  CHECK(t.at({0, 0}) == -4);
  CHECK(t.data<float>()[5] == 1.5f);
  CHECK_THROWS_WITH_AS(t.set({1}, 0), "set: 1 indices for [2, 3]", std::invalid_argument);
  CHECK_THROWS_AS(t.set({2, 0}, 0), std::invalid_argument);
  CHECK_THROWS_AS(t.at({0, 3}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(t.item(), "item: [2, 3] has 6 elements, not one", std::invalid_argument);
  CHECK_THROWS_WITH_AS(t.data<double>(), "view: an element of f32 was read as f64", std::invalid_argument);

  Tensor ids(Shape{1}, i32);
  ids.set({0}, -3);
  CHECK(ids.at({0}) == -3);
  CHECK_THROWS_WITH_AS(ids.set({0}, 0.5), "to: 0.5 is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK(ids.at({0}) == -3);
  Tensor both(Shape{1}, DType::dual);
  both.data<dual>()[0] = {1, 2};
  both.set({0}, 5);
  CHECK(both.data<dual>()[0].value == 5);
  CHECK(both.data<dual>()[0].tangent == 0);
}

TEST_CASE("to converts each number") {
  Tensor wide = tensor({0.1, -2, 3e38, 1e-50}, f64);
  const Tensor narrow = wide.to(f32);
  CHECK(narrow.at({0}) == static_cast<double>(0.1f));
  CHECK(narrow.at({3}) == 0);
  CHECK(narrow.to(f64).at({0}) == static_cast<double>(0.1f));
  CHECK(wide.to(f64).at({0}) == 0.1);
  CHECK(tensor({1e39}, f64).to(f32).at({0}) == INFINITY);
  CHECK(std::isnan(tensor({NAN}).to(f64).at({0})));

  Tensor both = wide.to(DType::dual);
  CHECK(both.data<dual>()[0].value == 0.1);
  CHECK(both.data<dual>()[0].tangent == 0);
  both.data<dual>()[0].tangent = 7;
  CHECK(both.to(DType::dual).data<dual>()[0].tangent == 7);
  CHECK(both.to(f64).at({0}) == 0.1);

  const Tensor ids = tensor({-2147483648.0, 2147483647, -0.0}, f64).to(i32);
  CHECK(ids.at({0}) == -2147483648.0);
  CHECK(ids.at({1}) == 2147483647);
  CHECK(ids.to(f32).at({0}) == -2147483648.0);
  CHECK(ids.to(DType::dual).at({1}) == 2147483647);
  CHECK_THROWS_WITH_AS(tensor({1.5}).to(i32), "to: 1.5 is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({2147483648}, f64).to(i32),
                       "to: 2147483648 is not an integer that i32 can hold", std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({NAN}).to(i32), "to: nan is not an integer that i32 can hold",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tensor({-INFINITY}).to(i32), "to: -inf is not an integer that i32 can hold",
                       std::invalid_argument);
}

TEST_CASE("copies are made by name, and are apart") {
  Tensor t = tensor({{1, 2, 3}, {4, 5, 6}});
  Tensor copy = t.clone();
  copy.set({0, 0}, 9);
  CHECK(t.at({0, 0}) == 1);
  CHECK(copy.at({0, 0}) == 9);

  const Tensor columns = Tensor::copy_of(std::as_const(t).view().t().slice(0, 1, 3));
  CHECK(columns.shape() == Shape{2, 2});
  CHECK(columns.view().is_contiguous());
  CHECK(columns.at({0, 1}) == 5);
  CHECK(columns.at({1, 0}) == 3);
  const Tensor ids = tensor({{1, -2}, {2143289345, 4}}, i32);  // 2143289345 has the bits of a NaN
  CHECK(Tensor::copy_of(ids.view().t()).at({0, 1}) == 2143289345);
}

TEST_CASE("a moved tensor is empty, and its numbers stay where they were") {
  Tensor t = tensor({1, 2, 3});
  const void* place = std::as_const(t).view().data();
  Tensor taken = std::move(t);
  CHECK(taken.view().data() == place);
  CHECK(t.shape() == Shape{0});  // NOLINT: what a moved tensor is
  CHECK(t.version() == 0);
  CHECK_FALSE(static_cast<bool>(t.storage()));

  Tensor other = tensor({7});
  other = std::move(taken);
  CHECK(other.count() == 3);
  CHECK(taken.count() == 0);  // NOLINT
  Tensor& itself = other;
  other = std::move(itself);
  CHECK(other.count() == 3);
  CHECK(other.at({2}) == 3);
}

TEST_CASE("the version grows with what may write, and with nothing else") {
  Tensor t(Shape{2, 2});
  const auto grows = [&](auto&& access) {
    const std::uint64_t before = t.version();
    access();
    return t.version() > before;
  };
  CHECK(grows([&] { t.view(); }));
  CHECK(grows([&] { t.data<float>(); }));
  CHECK(grows([&] { t.set({0, 0}, 1); }));
  CHECK(grows([&] { [[maybe_unused]] const View view = t; }));
  CHECK(grows([&] { [[maybe_unused]] const Out out = t; }));
  CHECK_FALSE(grows([&] { t.at({0, 0}); }));
  CHECK_FALSE(grows([&] { std::as_const(t).view(); }));
  CHECK_FALSE(grows([&] { std::as_const(t).data<float>(); }));
  CHECK_FALSE(grows([&] { [[maybe_unused]] const ConstView view = t; }));
  CHECK_FALSE(grows([&] { t.clone(); }));
  CHECK_FALSE(grows([&] { t.to(f64); }));
  CHECK_FALSE(grows([&] { t.shape(), t.count(), t.size(0), t.rank(), t.dtype(); }));
  CHECK_FALSE(grows([&] {
    try {
      t.set({5, 0}, 1);
    } catch (const std::invalid_argument&) {
    }
  }));
}

TEST_CASE("storage can outlive its tensor") {
  detail::StorageRef kept;
  const void* place = nullptr;
  {
    const Tensor t = tensor({1, 2});
    kept = t.storage();
    place = t.view().data();
  }
  CHECK(kept->data() == place);
  CHECK(static_cast<const float*>(place)[1] == 2);
}

TEST_CASE("what no memory can hold is refused") {
  constexpr Index huge = Index{1} << 40;
  CHECK_THROWS_WITH_AS((Tensor(Shape{huge, huge})),
                       "tensor: [1099511627776, 1099511627776] of f32 is larger than any memory",
                       std::runtime_error);
  CHECK_THROWS_AS((Tensor(Shape{Index{1} << 59}, f64)), std::runtime_error);
  CHECK_THROWS_WITH_AS(zeros({huge, huge, 0}),
                       "tensor: [1099511627776, 1099511627776, 0] of f32 is empty, but has strides, which are "
                       "products of its sizes, larger than any memory",
                       std::runtime_error);
}

TEST_CASE("memory is counted, and given back") {
  const MemoryUse before = memory_use();
  {
    const Tensor t(Shape{1000, 1000});
    const MemoryUse during = memory_use();
    CHECK(during.allocations == before.allocations + 1);
    CHECK(during.bytes >= before.bytes + 4'000'000);
    CHECK(during.peak_bytes >= during.bytes);
  }
  CHECK(memory_use().bytes == before.bytes);
}
