#include "attune/lib/shape.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <vector>

using namespace attune;

TEST_CASE("a shape knows its sizes") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 2);
  CHECK(shape.last() == 4);
  CHECK(shape.last(2) == 2);
  CHECK(shape.count() == 24);
  CHECK(std::vector<Index>(shape.begin(), shape.end()) == std::vector<Index>{2, 3, 4});
  CHECK(fmt::format("{}", shape) == "[2, 3, 4]");

  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.count() == 1);
  CHECK(fmt::format("{}", scalar) == "[]");
  CHECK(Shape{3, 0, 5}.count() == 0);
  CHECK(Shape{5, 5, 5, 5, 5, 5}.count() == 15625);
}

TEST_CASE("shapes compare by rank and sizes") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{} == Shape());
  Shape grown{2};
  grown.append(3);
  CHECK(grown == Shape{2, 3});
  Shape changed{2, 3};
  changed[1] = 7;
  CHECK(changed == Shape{2, 7});
}

TEST_CASE("a count beyond 64 bits is the largest, not a wrong one") {
  constexpr Index huge = Index{1} << 40;
  CHECK(Shape{huge, huge}.count() == std::numeric_limits<Index>::max());
  CHECK(Shape{huge, huge, 0}.count() == 0);
}

TEST_CASE("shapes refuse negative sizes and a rank above six") {
  CHECK_THROWS_WITH_AS((Shape{2, -1}), "shape: a size of -1 is negative", std::invalid_argument);
  CHECK_THROWS_WITH_AS((Shape{1, 1, 1, 1, 1, 1, 1}), "shape: rank 7 is above the limit of 6",
                       std::invalid_argument);
  Shape full{1, 1, 1, 1, 1, 1};
  CHECK_THROWS_WITH_AS(full.append(1), "shape: rank 7 is above the limit of 6", std::invalid_argument);
  CHECK(full.rank() == 6);
}

TEST_CASE("axes count from either end") {
  const Shape shape{2, 3, 4};
  CHECK(shape.axis(0, "op") == 0);
  CHECK(shape.axis(2, "op") == 2);
  CHECK(shape.axis(-1, "op") == 2);
  CHECK(shape.axis(-3, "op") == 0);
  CHECK_THROWS_WITH_AS(shape.axis(3, "sum"), "sum: axis 3 does not exist in a tensor of rank 3",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(shape.axis(-4, "sum"), "sum: axis -4 does not exist in a tensor of rank 3",
                       std::invalid_argument);
  CHECK_THROWS_AS(Shape().axis(0, "sum"), std::invalid_argument);
}

TEST_CASE("broadcast stretches sizes of one and missing leading axes") {
  CHECK(broadcast({2, 3}, {2, 3}, "add") == Shape{2, 3});
  CHECK(broadcast({2, 1}, {1, 3}, "add") == Shape{2, 3});
  CHECK(broadcast({3}, {2, 1}, "add") == Shape{2, 3});
  CHECK(broadcast({}, {4, 5}, "add") == Shape{4, 5});
  CHECK(broadcast({4, 5}, {}, "add") == Shape{4, 5});
  CHECK(broadcast({}, {}, "add") == Shape{});
  CHECK(broadcast({1}, {0}, "add") == Shape{0});
  CHECK(broadcast({5, 1, 3}, {4, 1}, "add") == Shape{5, 4, 3});
  CHECK_THROWS_WITH_AS(broadcast({2, 3}, {4, 3}, "add"),
                       "add: [2, 3] and [4, 3] do not broadcast: sizes 2 and 4 differ",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(broadcast({2}, {0}, "multiply"),
                       "multiply: [2] and [0] do not broadcast: sizes 2 and 0 differ", std::invalid_argument);
}

TEST_CASE("broadcasts_to asks for one direction") {
  CHECK(broadcasts_to({3}, {2, 3}));
  CHECK(broadcasts_to({}, {2, 3}));
  CHECK(broadcasts_to({1, 1}, {2, 3}));
  CHECK(broadcasts_to({2, 3}, {2, 3}));
  CHECK(broadcasts_to({1}, {0}));
  CHECK_FALSE(broadcasts_to({2, 3}, {3}));
  CHECK_FALSE(broadcasts_to({2, 3}, {2, 1}));
  CHECK_FALSE(broadcasts_to({2}, {2, 3}));
  CHECK_FALSE(broadcasts_to({1, 3}, {3}));
  CHECK_FALSE(broadcasts_to({0}, {1}));
}

TEST_CASE("axis lists: from braces, a number, a vector or an array") {
  const auto listed = [](const AxisList& axes) { return std::vector<int>(axes.begin(), axes.end()); };
  const std::vector<int> vector = {2, -1};
  const std::array<int, 2> array = {0, 3};
  CHECK(listed({}).empty());
  CHECK(AxisList().empty());
  CHECK(listed({0, 2}) == std::vector<int>{0, 2});
  CHECK(listed({0}) == std::vector<int>{0});
  CHECK(listed(-1) == std::vector<int>{-1});
  CHECK(listed(vector) == vector);
  CHECK(listed(std::span(vector).first(1)) == std::vector<int>{2});
  CHECK(listed(array) == std::vector<int>{0, 3});
  CHECK(AxisList(vector)[1] == -1);
  CHECK_THROWS_WITH_AS(listed({0, 1, 2, 3, 4, 5, 6}), "axes: 7 are named, above the limit of 6",
                       std::invalid_argument);
}
