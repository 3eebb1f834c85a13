#include "attune/lib/view.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <numeric>
#include <vector>

using namespace attune;

namespace {

// 0, 1, 2, ... in memory, and a view of all of it.
struct Counted {
  explicit Counted(const Shape& shape) : numbers(static_cast<std::size_t>(shape.count())) {
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    view = View(numbers.data(), shape, f32);
  }
  std::vector<float> numbers;
  View view;
};

void collect(const ConstView& view, std::vector<double>& into) {
  if (view.rank() == 0) return into.push_back(view.item());
  for (Index i = 0; i < view.size(0); ++i) collect(view.select(0, i), into);
}

// What a view shows, in row-major order.
std::vector<double> elements(const ConstView& view) {
  std::vector<double> result;
  collect(view, result);
  return result;
}

using Numbers = std::vector<double>;

// A view whose axis runs backwards, which only a layout made by hand can be.
View reversed(const Counted& counted) {
  detail::Layout layout = counted.view.layout();
  layout.strides[0] = -1;
  return View(const_cast<float*>(&counted.numbers.back()), layout);
}

}  // namespace

static_assert(std::convertible_to<View, ConstView>);
static_assert(!std::convertible_to<ConstView, View>);
static_assert(!std::constructible_from<View, ConstView>);
static_assert(std::same_as<decltype(std::declval<ConstView>().as<float>()), const float*>);
static_assert(std::same_as<decltype(std::declval<View>().as<float>()), float*>);
static_assert(std::convertible_to<View, Out>);
static_assert(!std::convertible_to<ConstView, Out>);

TEST_CASE("a view knows its shape, strides and type") {
  const Counted counted({2, 3, 4});
  const View& view = counted.view;
  CHECK(view.rank() == 3);
  CHECK(view.shape() == Shape{2, 3, 4});
  CHECK(view.count() == 24);
  CHECK(view.dtype() == f32);
  CHECK(view.size(-1) == 4);
  CHECK(view.stride(0) == 12);
  CHECK(view.stride(-1) == 1);
  CHECK(view.is_contiguous());
  CHECK(view.data() == counted.numbers.data());
  CHECK(view.as<float>() == counted.numbers.data());
  CHECK(ConstView(view).data() == view.data());
  CHECK_THROWS_WITH_AS(view.size(3), "size: axis 3 does not exist in a tensor of rank 3",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.stride(-4), "stride: axis -4 does not exist in a tensor of rank 3",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.as<double>(), "view: an element of f32 was read as f64", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.as<std::int32_t>(), "view: an element of f32 was read as i32",
                       std::invalid_argument);
}

TEST_CASE("at and item read elements of every type as doubles") {
  const Counted counted({2, 3});
  CHECK(counted.view.at({1, 2}) == 5);
  CHECK(counted.view.at({-1, -3}) == 3);
  CHECK(counted.view.slice(0, 1, 2).slice(1, 1, 2).item() == 4);
  double wide = 0.1;
  std::int32_t id = -7;
  dual both{2.5, 9};
  CHECK(View(&wide, Shape{}, f64).item() == 0.1);
  CHECK(View(&id, Shape{}, i32).item() == -7);
  CHECK(View(&both, Shape{}, DType::dual).at({}) == 2.5);
  CHECK_THROWS_WITH_AS(counted.view.at({1}), "at: 1 indices for [2, 3]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(counted.view.at({0, 3}), "at: index 3 is outside of size 3 of [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(counted.view.at({-3, 0}), "at: index -3 is outside of size 2 of [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(counted.view.item(), "item: [2, 3] has 6 elements, not one", std::invalid_argument);
  CHECK_THROWS_WITH_AS(counted.view.slice(0, 0, 0).item(), "item: [0, 3] has 0 elements, not one",
                       std::invalid_argument);
}

TEST_CASE("slice") {
  const Counted counted({4, 5});
  const View& view = counted.view;
  CHECK(elements(view.slice(0, 1, 3)) == Numbers{5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  CHECK(elements(view.slice(1, 1, 5, 2).slice(0, 0, 2)) == Numbers{1, 3, 6, 8});
  CHECK(view.slice(1, 0, 5, 2).shape() == Shape{4, 3});
  CHECK(view.slice(1, 0, 4, 2).shape() == Shape{4, 2});
  CHECK(elements(view.slice(-1, -2, 5).slice(0, -1, 4)) == Numbers{18, 19});
  CHECK(elements(view.slice(0, 0, -3)) == Numbers{0, 1, 2, 3, 4});
  CHECK(view.slice(0, 0, 4).is_contiguous());
  CHECK(view.slice(0, 1, 3).is_contiguous());
  CHECK_FALSE(view.slice(1, 1, 3).is_contiguous());
  CHECK(view.slice(1, 1, 3).slice(0, 2, 3).is_contiguous());

  const View none = view.slice(0, 4, 4);
  CHECK(none.shape() == Shape{0, 5});
  CHECK(none.data() == view.data());  // an empty view points nowhere beyond the data
  CHECK(none.is_contiguous());
  const Index huge = Index{1} << 62;  // a product of sizes that no Index holds, but of no element
  const View nothing = View(nullptr, {0, huge, huge}, f32);
  CHECK(nothing.is_contiguous());
  CHECK(nothing.select(1, huge - 1).slice(1, 3, huge).count() == 0);

  constexpr Index most = std::numeric_limits<Index>::max();
  CHECK(elements(view.slice(1, 1, 5, most).slice(0, 0, 2)) == Numbers{1, 6});
  CHECK_THROWS_WITH_AS(view.slice(1, 0, 5, 0), "slice: a step of 0 is below 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.slice(1, 0, 5, -1), "slice: a step of -1 is below 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.slice(1, 2, 6), "slice: 2 to 6 is not inside axis 1 of [4, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.slice(1, 3, 2), "slice: 3 to 2 is not inside axis 1 of [4, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.slice(-2, -5, 2), "slice: -5 to 2 is not inside axis 0 of [4, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.slice(2, 0, 1), "slice: axis 2 does not exist in a tensor of rank 2",
                       std::invalid_argument);
}

TEST_CASE("select takes an axis away") {
  const Counted counted({2, 3, 4});
  const View& view = counted.view;
  CHECK(elements(view.select(0, 1)) == elements(view.slice(0, 1, 2)));
  CHECK(view.select(1, 2).shape() == Shape{2, 4});
  CHECK(elements(view.select(1, 2)) == Numbers{8, 9, 10, 11, 20, 21, 22, 23});
  CHECK(elements(view.select(-1, -1)) == Numbers{3, 7, 11, 15, 19, 23});
  CHECK(view.select(0, 0).select(0, 0).select(0, 3).rank() == 0);
  CHECK_THROWS_WITH_AS(view.select(1, 3), "select: index 3 is outside of size 3 of [2, 3, 4]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.select(1, -4), "select: index -4 is outside of size 3 of [2, 3, 4]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.select(3, 0), "select: axis 3 does not exist in a tensor of rank 3",
                       std::invalid_argument);
}

TEST_CASE("t and permute move axes") {
  const Counted counted({2, 3, 4});
  const View& view = counted.view;
  CHECK(view.t().shape() == Shape{2, 4, 3});
  CHECK(view.t().at({1, 3, 2}) == view.at({1, 2, 3}));
  CHECK(elements(view.t().t()) == elements(view));
  CHECK_FALSE(view.t().is_contiguous());
  CHECK(Counted({1, 5}).view.t().is_contiguous());

  const View moved = view.permute({2, 0, 1});
  CHECK(moved.shape() == Shape{4, 2, 3});
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) CHECK(moved.at({k, i, j}) == view.at({i, j, k}));
  CHECK(elements(view.permute({-1, 0, 1})) == elements(moved));
  CHECK(view.select(0, 0).select(0, 0).select(0, 0).permute({}).item() == 0);

  CHECK_THROWS_WITH_AS(view.select(0, 0).select(0, 0).t(), "t: [4] has no two axes to swap",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.permute({0, 1}), "permute: (0, 1) does not name each axis of [2, 3, 4] once",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.permute({0, 1, 1}),
                       "permute: (0, 1, 1) does not name each axis of [2, 3, 4] once", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.permute({0, 2, -1}),
                       "permute: (0, 2, -1) does not name each axis of [2, 3, 4] once",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.permute({0, 1, 3}),
                       "permute: (0, 1, 3) does not name each axis of [2, 3, 4] once", std::invalid_argument);
}

TEST_CASE("reshape of what is contiguous") {
  const Counted counted({2, 3, 4});
  const View& view = counted.view;
  for (const Shape& shape :
       {Shape{24}, Shape{6, 4}, Shape{2, 12}, Shape{1, 24, 1}, Shape{4, 3, 2}, Shape{2, 3, 2, 2}}) {
    CHECK(view.reshape(shape).shape() == shape);
    CHECK(elements(view.reshape(shape)) == elements(view));
  }
  CHECK(view.reshape({-1}).shape() == Shape{24});
  CHECK(view.reshape({2, -1}).shape() == Shape{2, 12});
  CHECK(view.reshape({-1, 4, 1}).shape() == Shape{6, 4, 1});
  CHECK(view.slice(0, 0, 0).reshape({0, 7}).shape() == Shape{0, 7});
  CHECK(view.slice(0, 0, 0).reshape({-1, 7}).shape() == Shape{0, 7});
  CHECK(view.slice(1, 1, 2).slice(2, 1, 2).slice(0, 1, 2).reshape(Shape{}).item() == 17);

  CHECK_THROWS_WITH_AS(view.reshape({5, 5}), "reshape: [2, 3, 4] has 24 elements, [5, 5] has 25",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.reshape({5, -1}), "reshape: [2, 3, 4] has 24 elements, which 5 does not divide",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.reshape({0, -1}), "reshape: [2, 3, 4] has 24 elements, which 0 does not divide",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.reshape({-1, -1}), "reshape: more than one size is -1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.reshape({-2, 12}), "reshape: a size of -2 is negative", std::invalid_argument);
  CHECK_THROWS_WITH_AS(view.reshape({1, 1, 1, 1, 1, 1, 24}), "shape: rank 7 is above the limit of 6",
                       std::invalid_argument);
  constexpr Index huge = Index{1} << 40;
  CHECK_THROWS_AS(view.reshape({huge, huge}), std::invalid_argument);
  CHECK_THROWS_AS(view.reshape({huge, huge, -1}), std::invalid_argument);
}

TEST_CASE("reshape of what is not contiguous splits axes, and merges those that stand evenly") {
  const Counted counted({4, 6, 5});
  const View& view = counted.view;
  const auto reshapes = [](const View& from, const Shape& to) {
    CHECK(from.reshape(to).shape() == to);
    CHECK(elements(from.reshape(to)) == elements(from));
  };
  reshapes(view.t(), {4, 5, 2, 3});  // an axis splits
  reshapes(view.t(), {2, 2, 5, 6});
  reshapes(view.slice(2, 1, 3), {24, 2});     // the outer two merge
  reshapes(view.slice(2, 1, 3), {2, 12, 2});  // and split again elsewhere
  reshapes(view.slice(2, 1, 3), {24, 1, 2, 1});
  reshapes(view.slice(1, 0, 6, 2), {4, 3, 5});
  reshapes(view.permute({2, 0, 1}), {5, 24});
  reshapes(view.permute({2, 0, 1}), {5, 8, 3});
  reshapes(view.slice(0, 0, 4, 2), {2, 30});
  reshapes(view.slice(2, 0, 5, 2), {24, 3});
  reshapes(view.select(2, 0), {24});  // steps of five throughout
  reshapes(view.slice(0, 1, 2).t(), {5, 6});
  const Counted row({3});
  reshapes(row.view.expand({2, 3}), {2, 1, 3});
  reshapes(row.view.reshape({3, 1}).expand({3, 4}), {3, 2, 2});
  reshapes(row.view.slice(0, 0, 1).expand({4}), {2, 2});
  const Counted twelve({12});
  reshapes(reversed(twelve), {3, 4});
  CHECK(elements(reversed(twelve).reshape({3, 4}).select(1, 0)) == Numbers{11, 7, 3});

  CHECK_THROWS_WITH_AS(
      view.t().reshape({4, 30}),
      "reshape: [4, 5, 6] with strides [30, 1, 5] is no view of [4, 30]: copy it with contiguous() first",
      std::invalid_argument);
  CHECK_THROWS_AS(view.slice(2, 0, 4).reshape({-1}), std::invalid_argument);
  CHECK_THROWS_AS(view.slice(2, 0, 4).reshape({4, 24}), std::invalid_argument);
  CHECK_THROWS_AS(view.permute({2, 0, 1}).reshape({20, 6}), std::invalid_argument);
  CHECK_THROWS_AS(row.view.expand({2, 3}).reshape({6}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      reversed(twelve).reshape({3, 4}).t().reshape({12}),
      "reshape: [4, 3] with strides [-1, -4] is no view of [12]: copy it with contiguous() first",
      std::invalid_argument);
}

TEST_CASE("expand repeats without a copy") {
  const Counted counted({3, 1});
  const View stretched = counted.view.expand({2, 3, 4});
  CHECK(stretched.shape() == Shape{2, 3, 4});
  CHECK(stretched.stride(0) == 0);
  CHECK(stretched.stride(2) == 0);
  CHECK(stretched.data() == counted.view.data());
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) CHECK(stretched.at({i, j, k}) == static_cast<double>(j));
  CHECK_FALSE(stretched.is_contiguous());
  CHECK(counted.view.expand({3, 0}).count() == 0);
  CHECK(counted.view.expand({3, 1}).is_contiguous());
  CHECK_THROWS_WITH_AS(counted.view.expand({4, 4}), "expand: [3, 1] does not stretch to [4, 4]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(counted.view.expand({3}), "expand: [3, 1] does not stretch to [3]",
                       std::invalid_argument);
}

TEST_CASE("a default view shows nothing") {
  const ConstView nothing;
  CHECK(nothing.data() == nullptr);
  CHECK(nothing.rank() == 0);
}

TEST_CASE("an Out is a place, and may be none") {
  const Counted counted({2});
  CHECK_FALSE(static_cast<bool>(Out()));
  CHECK(static_cast<bool>(Out(counted.view)));
  CHECK_FALSE(Out(counted.view).accumulate);
  CHECK(Out(counted.view, true).accumulate);
}
