// matmul: the product over the last two axes, with leading axes that broadcast.
#include "attune/autograd/ops/matmul.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/add.h"
#include "attune/autograd/ops/permute.h"
#include "attune/autograd/ops/slice.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// The batch that `x` contributes to batch number `batch` of a result whose leading axes are those of `full`.
std::size_t batch_of(const Shape& x, const Shape& full, Index batch) {
  Index place = 0, step = 1;
  for (int back = 2; back < full.rank(); ++back) {
    const Index at = batch % full.last(back);
    batch /= full.last(back);
    if (back >= x.rank()) continue;
    if (x.last(back) != 1) place += at * step;
    step *= x.last(back);
  }
  return static_cast<std::size_t>(place);
}

// y[i][j] += a[i][k] * b[k][j], in three loops.
Plain product(const Plain& a, const Plain& b, double scale) {
  const auto m = static_cast<std::size_t>(a.shape.last(1)), inner = static_cast<std::size_t>(a.shape.last()),
             n = static_cast<std::size_t>(b.shape.last());
  Shape full = a.shape.rank() >= b.shape.rank() ? a.shape : b.shape;
  for (int back = 2; back < std::min(a.shape.rank(), b.shape.rank()); ++back)
    full[full.rank() - 1 - back] = a.shape.last(back) == 1 ? b.shape.last(back) : a.shape.last(back);
  full[full.rank() - 2] = a.shape.last(1);
  full[full.rank() - 1] = b.shape.last();
  Plain y(full);
  for (std::size_t batch = 0; m * n > 0 && batch < y.numbers.size() / (m * n); ++batch) {
    const double* from_a = a.numbers.data() + batch_of(a.shape, full, static_cast<Index>(batch)) * m * inner;
    const double* from_b = b.numbers.data() + batch_of(b.shape, full, static_cast<Index>(batch)) * inner * n;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < inner; ++k)
          y.numbers[(batch * m + i) * n + j] += scale * from_a[i * inner + k] * from_b[k * n + j];
  }
  return y;
}

Inputs pair(const Shape& a, const Shape& b) { return {real(a), real(b)}; }

void check_matmul(const std::string& name, const std::vector<Inputs>& inputs) {
  check_op({.name = name,
            .f = [](Var a, Var b) { return matmul(a, b); },
            .reference = [](const Plain& a, const Plain& b) { return product(a, b, 1); },
            .inputs = inputs});
}

}  // namespace

TEST_CASE("matmul: of two matrices") {
  check_op({.name = "matmul",
            .f = [](Var a, Var b) { return matmul(a, b); },
            .reference = [](const Plain& a, const Plain& b) { return product(a, b, 1); },
            .inputs = {pair({3, 4}, {4, 5}), pair({1, 1}, {1, 1}), pair({1, 17}, {17, 1}),
                       pair({15, 16}, {16, 17}), pair({33, 7}, {7, 31}), pair({5, 5}, {5, 5}),
                       pair({65, 400}, {400, 50})},
            .f32_bound = 1e-6,  // of products with 400 terms
            .errors = {{[] {
                          matmul(zeros({3, 4}), zeros({1, 5}));
                        },
                        "matmul: [3, 4] x [1, 5]: inner sizes 4 and 1 differ"},
                       {[] {
                          matmul(zeros({3}), zeros({4, 5}));
                        },
                        "matmul: [3] x [4, 5]: inner sizes 3 and 4 differ"},
                       {[] {
                          matmul(zeros({4, 5}), zeros({4}));
                        },
                        "matmul: [4, 5] x [4]: inner sizes 5 and 4 differ"},
                       {[] {
                          matmul(zeros({3}), zeros({4}));
                        },
                        "matmul: [3] x [4]: inner sizes 3 and 4 differ"},
                       {[] {
                          matmul(zeros({4, 5}), zeros({}));
                        },
                        "matmul: [4, 5] x []: a scalar has no axis to sum over"},
                       {[] {
                          matmul(zeros({2, 3, 4}), zeros({3, 4, 5}));
                        },
                        "matmul: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
}

TEST_CASE("matmul: sizes of zero") {
  check_matmul("matmul, nothing",
               {pair({2, 0}, {0, 3}), pair({0, 2}, {2, 3}), pair({2, 3}, {3, 0}), pair({0, 0}, {0, 0}),
                pair({2, 0, 3}, {3, 4}), pair({0, 2, 3}, {3, 4}), pair({2, 3, 0}, {0, 4}),
                pair({0, 2, 3}, {0, 3, 4}), pair({2, 2, 0}, {2, 0, 3})});
}

TEST_CASE("matmul: batches") {
  check_matmul("matmul, a matrix on the right", {pair({2, 3, 4}, {4, 5}), pair({1, 2, 3, 4}, {4, 5}),
                                                 pair({3, 1, 17}, {17, 9}), pair({4, 37, 60}, {60, 33})});
  check_matmul("matmul, two batches", {pair({2, 3, 4}, {2, 4, 5}), pair({2, 3, 4, 5}, {2, 3, 5, 4}),
                                       pair({1, 3, 3}, {1, 3, 3}), pair({6, 33, 65}, {6, 65, 17})});
  check_matmul(
      "matmul, batches that stretch",
      {pair({3, 4}, {2, 4, 5}), pair({1, 3, 4}, {2, 4, 5}), pair({2, 3, 4}, {1, 4, 5}),
       pair({2, 1, 3, 4}, {1, 3, 4, 5}), pair({3, 3, 4}, {2, 1, 4, 5}), pair({2, 1, 4}, {3, 1, 4, 1})});
}

TEST_CASE("matmul: with vectors, as NumPy has it") {
  // A vector is a matrix of one row, or of one column, which the result lacks.
  const auto with_vectors = [](const Plain& a, const Plain& b) {
    Plain left = a, right = b;
    if (a.shape.rank() == 1) left.shape = {1, a.shape[0]};
    if (b.shape.rank() == 1) right.shape = {b.shape[0], 1};
    Plain y = product(left, right, 1);
    Shape shape(std::span(y.shape.begin(), y.shape.end() - 2));
    if (a.shape.rank() > 1) shape.append(y.shape.last(1));
    if (b.shape.rank() > 1) shape.append(y.shape.last());
    y.shape = shape;
    return y;
  };
  check_op({.name = "matmul, vectors",
            .f = [](Var a, Var b) { return matmul(a, b); },
            .reference = with_vectors,
            .inputs = {pair({4}, {4, 5}), pair({3, 4}, {4}), pair({4}, {4}), pair({1}, {1}), pair({2, 3, 4}, {4}),
                       pair({4}, {2, 4, 5}), pair({33}, {33, 17}), pair({70, 400}, {400}), pair({0}, {0}),
                       pair({0}, {0, 3})},
            .f32_bound = 1e-6});  // of products with 400 terms
  const NoGrad scope;
  CHECK(matmul(tensor({1, 2, 3}), tensor({4, 5, 6})).item() == 32);
  CHECK(matmul(tensor({1, 2}), tensor({3, 4}), 0.5).item() == 5.5);
}

TEST_CASE("matmul: scaled") {
  check_op({.name = "matmul, scaled",
            .f = [](Var a, Var b) { return matmul(a, b, 0.125); },
            .reference = [](const Plain& a, const Plain& b) { return product(a, b, 0.125); },
            .inputs = {pair({3, 4}, {4, 5}), pair({2, 3, 4}, {4, 5}), pair({2, 3, 4}, {2, 4, 5}),
                       pair({3, 4}, {2, 4, 5})}});
}

TEST_CASE("matmul: B27, an inner size of zero") {
  for (DType dtype : {f32, f64}) {
    {
      const NoGrad scope;  // what stood in memory before must not show
      kernels::fill(saved({4096}, dtype), std::numeric_limits<double>::quiet_NaN());
    }
    const Tensor a({2, 0}, dtype), b({0, 3}, dtype);
    Tape tape;
    const Var x = variable(a), y = variable(b), z = matmul(x, y);
    CHECK(z.shape() == Shape{2, 3});
    CHECK(Plain(z.value()).numbers == std::vector<double>(6, 0));
    tape.backward(z, ones({2, 3}, dtype));
    CHECK(x.grad().shape() == Shape{2, 0});
    CHECK(y.grad().shape() == Shape{0, 3});
  }
}

TEST_CASE("matmul: B27, a layer with no inputs gives its bias, whose gradient sums the columns") {
  const Tensor a({2, 0}, f64), b({0, 3}, f64), c = tensor({1, 2, 3}, f64),
                                               seed = tensor({{1, 2, 3}, {10, 20, 30}}, f64);
  Tape tape;
  const Var x = variable(a), weight = variable(b), bias = variable(c), y = matmul(x, weight) + bias;
  CHECK(Plain(y.value()).numbers == std::vector<double>{1, 2, 3, 1, 2, 3});
  tape.backward(y, seed);
  CHECK(Plain(bias.grad()).numbers == std::vector<double>{11, 22, 33});
  CHECK(x.grad().shape() == Shape{2, 0});
  CHECK(weight.grad().shape() == Shape{0, 3});
}

TEST_CASE("matmul: B27, an inner size of zero adds nothing to a gradient") {
  const Tensor a = tensor({{1, 2}, {3, 4}}, f64), nothing({2, 0}, f64);
  Tape tape;
  const Var x = variable(a), empty = variable(nothing);
  const Var first = sum(matmul(x, empty)), second = sum(matmul(t(x), empty));  // dx += dy Bᵀ, over no columns
  const Var loss = first + second;
  tape.backward(loss + sum(x));
  CHECK(Plain(x.grad()).numbers == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("matmul: B31, a transposed view and strided ones") {
  const Tensor numbers = arange(12, f64);
  Tape tape;
  const Var a = view_of("as 3 x 4", variable(numbers), [](const View& v) { return v.reshape({3, 4}); });
  const Var product = matmul(t(a), a);
  CHECK(Plain(product.value()).numbers ==
        std::vector<double>{80, 92, 104, 116, 92, 107, 122, 137, 104, 122, 140, 158, 116, 137, 158, 179});
  const Var even = slice(a, 1, 0, 4, 2), odd = slice(a, 1, 1, 4, 2), strided = matmul(even, t(odd));
  CHECK(Plain(strided.value()).numbers == std::vector<double>{6, 14, 22, 22, 62, 102, 38, 110, 182});
  tape.backward(sum(product));  // d sum(AᵀA) / dA: every element of row i gets twice the sum of row i
  CHECK(Plain(a.grad()).numbers == std::vector<double>{12, 12, 12, 12, 44, 44, 44, 44, 76, 76, 76, 76});
}

TEST_CASE("matmul: B31, the transpose of a Var with itself") {
  check_op({.name = "matmul, AᵀA",
            .f = [](Var a) { return matmul(t(a), a); },
            .reference =
                [](const Plain& a) {
                  Plain y({a.shape[1], a.shape[1]});
                  for (Index i = 0; i < a.shape[1]; ++i)
                    for (Index j = 0; j < a.shape[1]; ++j)
                      for (Index k = 0; k < a.shape[0]; ++k) y(i, j) += a(k, i) * a(k, j);
                  return y;
                },
            .inputs = {{real({3, 4})}, {real({1, 5})}, {real({17, 3})}, {real({70, 66})}},
            .composed = true});
}
