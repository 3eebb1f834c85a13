// The matrix product, bit for bit, against three loops that say what it means.
#include "attune/lib/kernels/gemm.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "attune/lib/kernels/run.h"
#include "attune/lib/threads.h"
#include "../support/sanitized.h"

using namespace attune;
using kernels::gemm;

namespace {

// ---- What it means ----------------------------------------------------------------------------------------

float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
dual multiply_add(dual a, dual b, dual c) {
  return {std::fma(a.value, b.value, c.value),
          std::fma(a.value, b.tangent, std::fma(a.tangent, b.value, c.tangent))};
}
float scaled(float a, double scale) { return static_cast<float>(scale) * a; }
double scaled(double a, double scale) { return scale * a; }
dual scaled(dual a, double scale) { return {scale * a.value, scale * a.tangent}; }
float plus(float a, float b) { return a + b; }
double plus(double a, double b) { return a + b; }
dual plus(dual a, dual b) { return {a.value + b.value, a.tangent + b.tangent}; }

// The place of element `index` (row-major) of a view.
template <class T, class Pointer>
T& element(const BasicView<Pointer>& v, Index index) {
  Index offset = 0;
  for (int axis = v.rank() - 1; axis >= 0; index /= v.shape()[axis--])
    offset += index % v.shape()[axis] * v.strides()[static_cast<std::size_t>(axis)];
  return static_cast<T*>(const_cast<void*>(static_cast<const void*>(v.data())))[offset];
}

template <class T>
void reference(const Out& out, ConstView a, ConstView b, double scale) {
  const kernels::DenormalMode mode(dtype_of<T>);
  const View& c = out.view;
  const Index rows = c.shape().last(1), columns = c.shape().last(), depth = a.shape().last();
  Shape shape_a = c.shape(), shape_b = c.shape();
  shape_a[c.rank() - 1] = shape_b[c.rank() - 2] = depth;
  a = a.expand(shape_a);
  b = b.expand(shape_b);
  const Index matrices = rows * columns == 0 ? 0 : c.count() / (rows * columns);
  for (Index matrix = 0; matrix < matrices; ++matrix) {
    const T* left = depth ? &element<T>(a, matrix * rows * depth) : nullptr;
    const T* right = depth ? &element<T>(b, matrix * depth * columns) : nullptr;
    T* to = &element<T>(c, matrix * rows * columns);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) {
        T& place = to[i * c.stride(-2) + j * c.stride(-1)];
        if (depth == 0 && !out.accumulate) place = T{};
        for (Index start = 0; start < depth; start += 384) {
          T sum{};
          for (Index k = start; k < std::min(depth, start + 384); ++k)
            sum = multiply_add(left[i * a.stride(-2) + k * a.stride(-1)],
                               right[k * b.stride(-2) + j * b.stride(-1)], sum);
          place = start == 0 && !out.accumulate ? scaled(sum, scale) : plus(place, scaled(sum, scale));
        }
      }
  }
}

// ---- Matrices in memory -----------------------------------------------------------------------------------

// How the last two axes lie in memory.
enum class Lay { dense, transposed, every_second, padded, padded_transposed, wide };
constexpr Lay kLays[] = {Lay::dense, Lay::transposed, Lay::every_second, Lay::padded, Lay::padded_transposed};

// A view of the given shape, and all the memory around it, which holds a value that occurs nowhere else.
template <class T>
struct Matrix {
  std::vector<T> memory;
  View view;

  explicit Matrix(const Shape& shape, Lay lay = Lay::dense) {
    Shape around = shape;
    const int last = shape.rank() - 1;
    const bool turned = lay == Lay::transposed || lay == Lay::padded_transposed;
    if (turned) std::swap(around[last], around[last - 1]);
    if (lay == Lay::every_second) around[last] *= 2;
    if (lay == Lay::padded || lay == Lay::padded_transposed) around[last] += 5;
    constexpr Index margin = 64;
    memory.assign(static_cast<std::size_t>(around.count() + 2 * margin), canary());
    view = View(memory.data() + margin, around, dtype_of<T>);
    if (lay == Lay::every_second) view = view.slice(-1, 0, around[last], 2);
    if (lay == Lay::padded || lay == Lay::padded_transposed) view = view.slice(-1, 0, around[last] - 5);
    if (turned) view = view.t();
  }
  static T canary() { return T{-77}; }

  // Numbers of every sign and of a few magnitudes, so that an order of summation shows.
  void fill(unsigned seed) {
    unsigned state = seed * 2654435761u + 12345u;
    const auto number = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<int>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 22);
    };
    for (Index i = 0; i < view.count(); ++i) {
      T& x = element<T>(view, i);
      if constexpr (std::is_same_v<T, dual>)
        x = {number(), number()};
      else
        x = static_cast<T>(number());
    }
  }
  void fill_with(T x) {
    for (Index i = 0; i < view.count(); ++i) element<T>(view, i) = x;
  }
  template <class Other>
  void take(const Matrix<Other>& from) {
    for (Index i = 0; i < view.count(); ++i) element<T>(view, i) = element<T>(from.view, i);
  }
};

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, dual>)
    return same(a.value, b.value) && same(a.tangent, b.tangent);
  else
    return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b));
}

template <class T>
bool same_memory(const Matrix<T>& a, const Matrix<T>& b) {
  return std::equal(a.memory.begin(), a.memory.end(), b.memory.begin(), b.memory.end(), same<T>);
}

// Runs f on every row of the table, and restores the choice.
template <class F>
void on_every_row(F&& f) {
  const std::string before(row());
  for (const auto& name : supported_rows()) {
    set_row(name);
    CAPTURE(name);
    f(name);
  }
  set_row(before);
}

struct Threads {
  explicit Threads(int n) : before(threads()) { set_threads(n); }
  ~Threads() { set_threads(before); }
  int before;
};

// One product: the operands, the output as it was, and as it must become, memory around it included.
template <class T>
struct Product {
  Matrix<T> a, b, before, expected;
  bool accumulate;
  double scale;

  Product(const Matrix<T>& left, const Matrix<T>& right, const Shape& out, bool adds, double factor,
          Lay lay = Lay::dense)
      : a(left), b(right), before(out, lay), expected(out, lay), accumulate(adds), scale(factor) {
    rebase(a, left);
    rebase(b, right);
    before.fill_with(adds ? T{0.5} : T{std::numeric_limits<float>::quiet_NaN()});
    expected = before;
    rebase(expected, before);
    reference<T>(Out(expected.view, adds), a.view, b.view, factor);
  }
  // A copy's view must look at the copy's own memory.
  static void rebase(Matrix<T>& copy, const Matrix<T>& original) {
    const auto offset = static_cast<const T*>(original.view.data()) - original.memory.data();
    copy.view = View(copy.memory.data() + offset, original.view.layout());
  }
  bool holds() const {
    Matrix<T> c = before;
    rebase(c, before);
    gemm(Out(c.view, accumulate), a.view, b.view, scale);
    return same_memory(c, expected);
  }
};

template <class T>
void check_product(Index m, Index n, Index k, Lay lay_a, Lay lay_b, Lay lay_c, bool accumulate,
                   double scale) {
  Matrix<T> a({m, k}, lay_a), b({k, n}, lay_b);
  a.fill(static_cast<unsigned>(m * 31 + k));
  b.fill(static_cast<unsigned>(n * 17 + k));
  const Product<T> product(a, b, {m, n}, accumulate, scale, lay_c);
  on_every_row([&](const std::string& name) {
    const bool ok = product.holds();
    if (!ok)
      FAIL_CHECK(name, " ", name_of(dtype_of<T>), " ", m, "x", n, "x", k, " layouts ",
                 static_cast<int>(lay_a), static_cast<int>(lay_b), static_cast<int>(lay_c), " accumulate ",
                 accumulate, " scale ", scale);
  });
}

// A rule that walks through all combinations of layouts, accumulation and scale as it is called again and
// again.
struct Variants {
  unsigned turn = 0;
  template <class T>
  void check(Index m, Index n, Index k) {
    constexpr double scales[] = {1, 0.3};
    const unsigned v = turn++;
    check_product<T>(m, n, k, kLays[v % 5], kLays[v / 5 % 5], kLays[v / 25 % 5], v / 125 % 2,
                     scales[v / 250 % 2]);
  }
};

}  // namespace

// ---- Bits -------------------------------------------------------------------------------------------------

// Every M, N, K of 1 ... 33 in f32; in f64 and dual those of a thinner set. The layouts of A, B and C,
// accumulation and scale change from one to the next, with a period (500) that shares no small factor
// with 33.
TEST_CASE("gemm: small sizes, bit for bit") {
  Variants variants;
  const Index step = attune::kSanitized ? 4 : 1;
  for (Index m = 1; m <= 33; m += step)
    for (Index n = 1; n <= 33; n += step)
      for (Index k = 1; k <= 33; k += step) variants.check<float>(m, n, k);
  for (Index m = 1; m <= 33; m += 2)
    for (Index n = 1; n <= 33; n += 2)
      for (Index k : {1, 2, 7, 16, 33}) {
        variants.check<double>(m, n, k);
        variants.check<double>(m, n + 1, k);
        if (m % 3 == 0) variants.check<dual>(m, n, k);
      }
}

TEST_CASE("gemm: sizes around the edges of blocks, bit for bit") {
  const Index edges[] = {47,  48,  49,  63,  64,  65,  95,  96,  97,  127, 128,
                         129, 255, 256, 257, 383, 384, 385, 767, 768, 769};
  const Index others[] = {1, 5, 14, 33, 67};
  Variants variants;
  for (int count : {1, 2, 3}) {
    const Threads with(count);
    for (Index edge : edges)
      for (int i = 0; i < 5; ++i) {
        const Index x = others[i], y = others[(i + 2) % 5];
        variants.check<float>(edge, x, y);
        variants.check<float>(x, edge, y);
        variants.check<float>(x, y, edge);
        if (i == count) {
          variants.check<double>(edge, x, y);
          variants.check<double>(x, edge, y);
          variants.check<double>(x, y, edge);
          variants.check<dual>(y, x, edge);
        }
      }
  }
}

TEST_CASE("gemm: every combination of layouts at sizes that are packed and threaded") {
  for (int count : {1, 2, 3}) {
    if (attune::kSanitized && count != 2) continue;
    const Threads with(count);
    for (Lay lay_a : kLays)
      for (Lay lay_b : kLays) {
        const Lay lay_c = kLays[(static_cast<int>(lay_a) + static_cast<int>(lay_b) + count) % 5];
        check_product<float>(131, 130, 129, lay_a, lay_b, lay_c, count == 2, 1);
        check_product<float>(70, 45, 400, lay_a, lay_b, lay_c, count == 1, 0.5);
        check_product<double>(66, 50, 390, lay_a, lay_b, lay_c, count == 3, 1);
      }
  }
}

namespace {

template <class T>
void check_batch(const ConstView& a, const ConstView& b, const Matrix<T>& c, bool accumulate) {
  Matrix<T> expected = c;
  Product<T>::rebase(expected, c);
  reference<T>(Out(expected.view, accumulate), a, b, 1);
  on_every_row([&](const std::string&) {
    Matrix<T> result = c;
    Product<T>::rebase(result, c);
    gemm(Out(result.view, accumulate), a, b);
    CHECK(same_memory(result, expected));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("gemm: batches, broadcast and permuted", T, float, double, dual) {
  const Index batch = 3, heads = 4, tokens = 21, width = 6;
  Matrix<T> qkv({batch, tokens, 3, heads, width}), weight({width, 10}),
      scores({batch, heads, tokens, tokens});
  qkv.fill(1);
  weight.fill(2);
  scores.fill(3);
  const auto head = [&](Index part) { return ConstView(qkv.view.select(2, part).permute({0, 2, 1, 3})); };
  for (bool accumulate : {false, true}) {
    // Scores of every head, in place in the projection's buffer; their product with the values, merged again.
    check_batch<T>(head(0), head(1).t(), scores, accumulate);
    Matrix<T> merged({batch, tokens, heads, width});
    merged.fill(4);
    merged.view = merged.view.permute({0, 2, 1, 3});
    check_batch<T>(scores.view, head(2), merged, accumulate);
    check_batch<T>(scores.view.t(), head(2), merged, accumulate);
    // One matrix for all, on either side; without its axes, with sizes of 1, expanded.
    Matrix<T> wide({batch, heads, tokens, 10}), tall({batch, heads, 10, tokens});
    wide.fill(5);
    tall.fill(6);
    check_batch<T>(head(0), weight.view, wide, accumulate);
    check_batch<T>(head(0), weight.view.reshape({1, 1, width, 10}), wide, accumulate);
    check_batch<T>(weight.view.t(), head(0).t(), tall, accumulate);
    check_batch<T>(weight.view.t().expand({batch, heads, 10, width}), head(0).t(), tall, accumulate);
  }
  // Tokens and batch are rows of one matrix here, and four axes of batch there.
  Matrix<T> x({5, 1, 30, width}), y({5, 1, 30, 10}), deep({2, 3, 1, 2, 4, width}), out({2, 3, 2, 2, 4, 10}),
      w({2, 1, width, 10});
  x.fill(7);
  y.fill(8);
  deep.fill(9);
  w.fill(10);
  check_batch<T>(x.view, weight.view, y, true);
  check_batch<T>(deep.view, w.view, out, false);
}

TEST_CASE("gemm: large products of a batch, each packed") {
  Matrix<float> a({2, 200, 130}), b({2, 90, 130}), c({2, 200, 90});
  a.fill(1);
  b.fill(2);
  for (int count : {1, 2, 3}) {
    const Threads with(count);
    check_batch<float>(a.view, b.view.t(), c, false);
  }
}

TEST_CASE("gemm: more than one packed block") {
  const auto check_blocks = [](Index m, Index n, Index k, bool transposed_b) {
    // A transposed, its columns more than a page apart, is packed too.
    Matrix<float> a({k, 1030}), b(transposed_b ? Shape{n, k} : Shape{k, n}), c({m, n});
    a.fill(1);
    b.fill(2);
    c.fill(3);
    check_batch<float>(a.view.slice(1, 0, m).t(), transposed_b ? b.view.t() : b.view, c, true);
  };
  for (int count : {1, 2}) {
    const Threads with(count);
    check_blocks(70, 700, 800, true);   // of columns and depth
    check_blocks(600, 64, 400, false);  // of rows
  }
  check_blocks(200, 700, 600, false);  // a dense B too large to be read in place
}

TEST_CASE("gemm: integers are exact") {
  const Index m = 61, n = 75, k = 800;
  Matrix<float> a({m, k}), b({k, n});
  for (Index i = 0; i < a.view.count(); ++i) element<float>(a.view, i) = static_cast<float>(i % 15 - 7);
  for (Index i = 0; i < b.view.count(); ++i) element<float>(b.view, i) = static_cast<float>(i % 11 - 5);
  on_every_row([&](const std::string&) {
    Matrix<float> c({m, n});
    gemm(c.view, a.view, b.view);
    bool exact = true;
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        Index sum = 0;
        for (Index x = 0; x < k; ++x) sum += ((i * k + x) % 15 - 7) * ((x * n + j) % 11 - 5);
        exact = exact && element<float>(c.view, i * n + j) == static_cast<float>(sum);
      }
    CHECK(exact);
  });
}

// ---- Memory -----------------------------------------------------------------------------------------------

namespace {

// Memory whose last byte lies before a page that nobody may touch.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t pages = (bytes + page - 1) / page;
    size_ = (pages + 1) * page;
    start_ =
        static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(start_ != MAP_FAILED);
    REQUIRE(mprotect(start_ + pages * page, page, PROT_NONE) == 0);
    data_ = start_ + pages * page - bytes;
  }
  ~Guarded() { munmap(start_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void* data() const { return data_; }

 private:
  char* start_;
  char* data_;
  std::size_t size_;
};

template <class T>
void run_guarded(Index m, Index n, Index k) {
  const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(T); };
  const Guarded a(bytes(m * k)), b(bytes(k * n)), c(bytes(m * n));
  const DType type = dtype_of<T>;
  for (bool a_turned : {false, true})
    for (bool b_turned : {false, true})
      for (bool c_turned : {false, true}) {
        const View left(a.data(), a_turned ? Shape{k, m} : Shape{m, k}, type);
        const View right(b.data(), b_turned ? Shape{n, k} : Shape{k, n}, type);
        const View out(c.data(), c_turned ? Shape{n, m} : Shape{m, n}, type);
        gemm(c_turned ? out.t() : out, a_turned ? left.t() : left, b_turned ? right.t() : right);
      }
}

}  // namespace

TEST_CASE("gemm: operands may end at the end of memory") {
  on_every_row([&](const std::string&) {
    for (Index m : {1, 3, 15})
      for (Index n : {1, 7, 16, 17, 31, 33})
        for (Index k : {1, 5, 16, 33}) {
          run_guarded<float>(m, n, k);
          run_guarded<double>(m, n, k);
          run_guarded<dual>(m, n, k);
        }
    run_guarded<float>(130, 77, 385);
  });
}

TEST_CASE("B31: operands that start anywhere, and strided views") {
  std::vector<float> a(300), b(300), c(300), expected;
  std::iota(a.begin(), a.end(), -30.f);
  std::iota(b.begin(), b.end(), 7.f);
  on_every_row([&](const std::string&) {
    for (std::size_t offset = 0; offset < 16; ++offset) {
      std::vector<float> shifted_a(offset), shifted_b(offset);
      shifted_a.insert(shifted_a.end(), a.begin(), a.begin() + 17 * 9);
      shifted_b.insert(shifted_b.end(), b.begin(), b.begin() + 9 * 11);
      const View out(c.data() + offset, {17, 11}, f32);
      gemm(out, View(shifted_a.data() + offset, {17, 9}, f32), View(shifted_b.data() + offset, {9, 11}, f32));
      const std::vector<float> result(c.data() + offset, c.data() + offset + 17 * 11);
      if (expected.empty()) expected = result;
      CHECK(result == expected);
    }
    std::vector<float> numbers(12), square(16), triple(9);
    std::iota(numbers.begin(), numbers.end(), 0.f);
    const View x(numbers.data(), {3, 4}, f32);
    gemm(View(square.data(), {4, 4}, f32), x.t(), x);
    CHECK(square ==
          std::vector<float>{80, 92, 104, 116, 92, 107, 122, 137, 104, 122, 140, 158, 116, 137, 158, 179});
    gemm(View(triple.data(), {3, 3}, f32), x.slice(1, 0, 4, 2), x.slice(1, 1, 4, 2).t());
    CHECK(triple == std::vector<float>{6, 14, 22, 22, 62, 102, 38, 110, 182});
  });
}

// ---- Cases ------------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("B27: empty sizes", T, float, double, dual) {
  const DType type = dtype_of<T>;
  on_every_row([&](const std::string&) {
    for (double scale : {1.0, -1.0}) {
      Matrix<T> c({2, 3}), adds({2, 3}), zeros({2, 3});
      zeros.fill_with(T{});
      c.fill_with(T{std::numeric_limits<float>::quiet_NaN()});
      gemm(c.view, View(nullptr, {2, 0}, type), View(nullptr, {0, 3}, type), scale);
      CHECK(same_memory(c, zeros));
      gemm(c.view.t(), View(nullptr, {3, 0}, type), View(nullptr, {0, 2}, type), scale);
      CHECK(same_memory(c, zeros));
      adds.fill(1);
      const Matrix<T> as_it_was = adds;
      gemm(Out(adds.view, true), View(nullptr, {2, 0}, type), View(nullptr, {0, 3}, type), scale);
      CHECK(same_memory(adds, as_it_was));
    }
    Matrix<T> some({3, 4});
    gemm(View(nullptr, {0, 4}, type), View(nullptr, {0, 3}, type), some.view);
    gemm(View(nullptr, {3, 0}, type), some.view, View(nullptr, {4, 0}, type));
    gemm(View(nullptr, {0, 3, 3}, type), View(nullptr, {0, 3, 4}, type), some.view.t());
    gemm(Out(), some.view, some.view);  // a gradient that nobody wants
  });
}

TEST_CASE("B28: what stood in the output does not come back") {
  const Index sizes[][3] = {{1, 1, 1}, {7, 5, 13}, {17, 3, 19}, {64, 64, 64}, {65, 31, 33}};
  on_every_row([&](const std::string&) {
    for (const auto& [m, k, n] : sizes) {
      Matrix<float> a({m, k}), b({k, n}), c({m, n});
      a.fill_with(1);
      b.fill_with(1);
      c.fill_with(std::numeric_limits<float>::quiet_NaN());
      gemm(c.view, a.view, b.view);
      bool all_k = true;
      for (Index i = 0; i < m * n; ++i) all_k = all_k && element<float>(c.view, i) == static_cast<float>(k);
      CHECK(all_k);
    }
  });
}

TEST_CASE("B28: an output that shares memory with an operand is refused, one beside it is not") {
  Matrix<float> buffer({6, 4, 6}), square({6, 6});
  buffer.fill(1);
  square.fill(2);
  const char* message = "matmul: [6, 6] x [6, 6]: the output shares memory with an operand";
  CHECK_THROWS_WITH_AS(gemm(square.view, square.view, square.view), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(gemm(square.view.t(), square.view, buffer.view.select(1, 0)), message,
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(gemm(square.view, buffer.view.select(1, 0), square.view), message,
                       std::invalid_argument);
  CHECK_THROWS_AS(gemm(buffer.view.slice(2, 0, 4).select(0, 1), buffer.view.slice(2, 3, 6).select(0, 1),
                       square.view.slice(0, 0, 3).slice(1, 0, 4)),
                  std::invalid_argument);
  // Columns 1 and 3 of the four are operands, column 2 takes the result: nothing overlaps.
  Matrix<float> expected({6, 6});
  reference<float>(Out(expected.view), buffer.view.select(1, 1), buffer.view.select(1, 3), 1);
  gemm(buffer.view.select(1, 2), buffer.view.select(1, 1), buffer.view.select(1, 3));
  bool equal = true;
  for (Index i = 0; i < 36; ++i)
    equal = equal && element<float>(buffer.view.select(1, 2), i) == element<float>(expected.view, i);
  CHECK(equal);
}

TEST_CASE("B34: the same bits every time, on any number of threads") {
  Matrix<float> a({300, 300}), b({300, 300}), expected({300, 300});
  a.fill(1);
  b.fill(2);
  reference<float>(Out(expected.view), a.view, b.view, 1);
  on_every_row([&](const std::string& name) {
    for (int count : {1, 2, 3, 4}) {
      const Threads with(count);
      for (int repeat = 0; repeat < (name == "scalar" ? 1 : 20); ++repeat) {
        Matrix<float> c({300, 300});
        gemm(c.view, a.view, b.view);
        CHECK(same_memory(c, expected));
      }
    }
  });
}

TEST_CASE("gemm: NaN and Inf reach the outputs that depend on them, and no others") {
  const Index m = 19, n = 37, k = 23;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  on_every_row([&](const std::string&) {
    for (float bad : {nan, inf})
      for (bool in_a : {true, false}) {
        const Index at = in_a ? 7 : 30;  // row 7 of A, or column 30 of B
        Matrix<float> a({m, k}), b({k, n}), c({m, n});
        a.fill_with(1);
        b.fill_with(2);
        element<float>(in_a ? a.view : b.view, in_a ? at * k + 11 : 11 * n + at) = bad;
        gemm(c.view, a.view, b.view);
        bool right = true;
        for (Index i = 0; i < m; ++i)
          for (Index j = 0; j < n; ++j)
            right = right && same(element<float>(c.view, i * n + j), (in_a ? i : j) == at ? bad : 46.f);
        CHECK(right);
        // 0 * Inf is NaN: zeros are not skipped.
        (in_a ? b : a).fill_with(0);
        gemm(c.view, a.view, b.view);
        CHECK(std::isnan(element<float>(c.view, in_a ? at * n : at)));
      }
  });
}

TEST_CASE("gemm: f32 flushes denormals whatever the caller's mode, f64 keeps them") {
  on_every_row([&](const std::string&) {
    Matrix<float> a({3, 3}), c({3, 3});
    a.fill_with(1e-25f);
    gemm(c.view, a.view, a.view);
    CHECK(element<float>(c.view, 4) == 0);
    Matrix<double> tiny({3, 3}), d({3, 3});
    tiny.fill_with(1e-160);
    {
      const kernels::DenormalMode flushing(f32);
      gemm(d.view, tiny.view, tiny.view);
    }
    CHECK(element<double>(d.view, 4) != 0);
  });
}

TEST_CASE("gemm: every refusal names what does not fit") {
  Matrix<float> a({3, 4}), b({1, 5}), c({3, 5}), square({4, 4}), line({4});
  Matrix<double> d({4, 5});
  const auto throws = [](const View& out, const View& left, const View& right, const char* message) {
    CHECK_THROWS_WITH_AS(gemm(out, left, right), message, std::invalid_argument);
  };
  throws(c.view, a.view, b.view, "matmul: [3, 4] x [1, 5]: inner sizes 4 and 1 differ");
  throws(c.view, a.view, d.view, "matmul: f32 x f64 into f32: the dtypes differ");
  throws(d.view, a.view, square.view, "matmul: f32 x f32 into f64: the dtypes differ");
  throws(c.view, a.view, square.view, "matmul: [3, 4] x [4, 4] does not fit an output of [3, 5]");
  throws(line.view, a.view, square.view, "matmul: [3, 4] x [4, 4] does not fit an output of [4]");
  throws(c.view, a.view, line.view, "matmul: [3, 4] x [4]: an operand needs two axes or more");
  std::vector<std::int32_t> ids(16);
  const View i(ids.data(), {4, 4}, i32);
  throws(i, i, i, "matmul: operands of i32; use f32, f64 or dual");
  Matrix<float> two({2, 3, 4}), three({3, 4, 4}), batch({2, 3, 4});
  throws(batch.view, two.view, three.view,
         "matmul: [2, 3, 4] x [3, 4, 4]: batch sizes 2 and 3 do not broadcast");
  throws(batch.view.slice(0, 0, 1), two.view, square.view,
         "matmul: [2, 3, 4] x [4, 4] does not fit an output of [1, 3, 4]");
  throws(batch.view.slice(0, 0, 1).expand({2, 3, 4}), two.view, square.view,
         "matmul: axis 0 of the output [2, 3, 4] is expanded: it has one place for 2");
}
