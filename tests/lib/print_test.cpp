#include "attune/lib/print.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

using namespace attune;

namespace {

std::string text(const Tensor& numbers) { return fmt::format("{}", numbers); }

}  // namespace

TEST_CASE("integers have no decimals, whatever the type") {
  CHECK(text(tensor(3)) == "3");
  CHECK(text(tensor({1, -2, 10})) == "[ 1, -2, 10]");
  CHECK(text(tensor({{1, 2, 3}, {4, 5, 6}}, i32)) ==
        "[[1, 2, 3],\n"
        " [4, 5, 6]]");
  CHECK(text(tensor({2147483647, -2147483648.0}, i32)) == "[ 2147483647, -2147483648]");
  CHECK(text(zeros({3})) == "[0, 0, 0]");
}

TEST_CASE("decimals are as many as the numbers need, the same for all") {
  CHECK(text(tensor(3.14159265)) == "3.1416");
  CHECK(text(tensor({0.1, 0.2, 0.7})) == "[0.1, 0.2, 0.7]");
  CHECK(text(tensor({{1, 0.25, -3}, {0, 1000.5, NAN}})) ==
        "[[   1.00,    0.25,   -3.00],\n"
        " [   0.00, 1000.50,     nan]]");
  CHECK(text(tensor({1.0 / 3, -2.0 / 3}, f64)) == "[ 0.3333, -0.6667]");
  CHECK(text(tensor({0.0123456, 0.5 / 1000}, f64)) == "[0.01235, 0.00050]");
  CHECK(text(tensor({123456.789, 1}, f64)) == "[123456.8,      1.0]");
  CHECK(text(tensor({-0.0, 0.5})) == "[-0.0,  0.5]");
}

TEST_CASE("exponents appear where a number would vanish or be too long") {
  CHECK(text(tensor({1e-9, 1}, f64)) == "[1e-09, 1e+00]");
  CHECK(text(tensor({1.25e-9, 1, -0.5}, f64)) == "[ 1.25e-09,  1.00e+00, -5.00e-01]");
  CHECK(text(tensor({1234567.5, 1}, f64)) == "[1.235e+06, 1.000e+00]");
  CHECK(text(tensor({1.5e-4}, f64)) == "[1.5e-04]");
  CHECK(text(tensor({1e10, 1}, f64)) == "[1e+10, 1e+00]");
  CHECK(text(tensor({1e300, 5e-324}, f64)) == "[1e+300, 5e-324]");
}

TEST_CASE("what is not finite stands in its column") {
  CHECK(text(tensor({INFINITY, -INFINITY, NAN, 1})) == "[ inf, -inf,  nan,    1]");
  CHECK(text(tensor({NAN, NAN})) == "[nan, nan]");
  CHECK(text(tensor({NAN, 0.5})) == "[nan, 0.5]");
}

TEST_CASE("more axes are more brackets, and blank lines between matrices") {
  const Tensor eight = arange(8);
  CHECK(fmt::format("{}", eight.view().reshape({2, 2, 2})) ==
        "[[[0, 1],\n"
        "  [2, 3]],\n"
        "\n"
        " [[4, 5],\n"
        "  [6, 7]]]");
  CHECK(text(zeros({1, 1, 1, 1, 1, 1})) == "[[[[[[0]]]]]]");
  CHECK(text(Tensor()) == "[]");
  CHECK(text(zeros({2, 0})) == "[]");
  CHECK(text(zeros({0, 2})) == "[]");
}

TEST_CASE("a row that is too long goes on below itself") {
  CHECK(
      text(arange(30)) ==
      "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,\n"
      " 25, 26, 27, 28, 29]");
}

TEST_CASE("above a thousand elements the middle is left out") {
  CHECK(text(arange(1001)) == "[   0,    1,    2, ...,  998,  999, 1000]");
  CHECK(text(arange(1000)).size() > 4000);
  const Tensor many = arange(50 * 30);
  CHECK(fmt::format("{}", many.view().reshape({50, 30})) ==
        "[[   0,    1,    2, ...,   27,   28,   29],\n"
        " [  30,   31,   32, ...,   57,   58,   59],\n"
        " [  60,   61,   62, ...,   87,   88,   89],\n"
        " ...,\n"
        " [1410, 1411, 1412, ..., 1437, 1438, 1439],\n"
        " [1440, 1441, 1442, ..., 1467, 1468, 1469],\n"
        " [1470, 1471, 1472, ..., 1497, 1498, 1499]]");
  // A short axis is shown whole, and only what is shown decides the format.
  CHECK(fmt::format("{}", many.view().reshape({500, 3}).slice(0, 0, 400)) ==
        "[[   0,    1,    2],\n"
        " [   3,    4,    5],\n"
        " [   6,    7,    8],\n"
        " ...,\n"
        " [1191, 1192, 1193],\n"
        " [1194, 1195, 1196],\n"
        " [1197, 1198, 1199]]");
  Tensor odd = zeros({2000});
  odd.set({1000}, 0.123);
  CHECK(text(odd) == "[0, 0, 0, ..., 0, 0, 0]");
}

TEST_CASE("views show their elements, and a format is that of an element") {
  const Tensor numbers = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(fmt::format("{}", numbers.view().t()) ==
        "[[1, 4],\n"
        " [2, 5],\n"
        " [3, 6]]");
  CHECK(fmt::format("{:.2f}", numbers.view().select(0, 1)) == "[4.00, 5.00, 6.00]");
  CHECK(fmt::format("{:+.1e}", numbers.view().slice(0, 0, 1)) == "[[+1.0e+00, +2.0e+00, +3.0e+00]]");
  CHECK(fmt::format("{:6.1f}|", tensor({1, 22})) == "[   1.0,   22.0]|");
  CHECK(fmt::format("{:.1f} {}", tensor({1}, i32), 7) == "[1.0] 7");
  Tensor writable = tensor({1, 2});
  CHECK(fmt::format("{}", writable.view()) == "[1, 2]");
}

TEST_CASE("a dual is its value and its tangent") {
  Tensor numbers = tensor({1, -2.5}, DType::dual);
  numbers.data<dual>()[0].tangent = -0.25;
  numbers.data<dual>()[1].tangent = 10;
  CHECK(text(numbers) == "[ 1.0 -  0.25ε, -2.5 + 10.00ε]");
  CHECK(fmt::format("{:+.1f}", numbers) == "[+1.0 -  0.2ε, -2.5 + 10.0ε]");
}

TEST_CASE("describe tells type and shape") {
  CHECK(describe(zeros({2, 3})) == "f32 [2, 3]");
  CHECK(describe(tensor(1, i32)) == "i32 []");
  CHECK(describe(zeros({2, 3}, DType::dual).view().t()) == "dual [3, 2]");
  CHECK(describe(Tensor()) == "f32 [0]");
}
