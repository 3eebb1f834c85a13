#include "attune/lib/kernels/gemm.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/run.h"
#include "attune/lib/memory.h"

namespace attune::kernels {
namespace {

// ---- Checks -----------------------------------------------------------------------------------------------

void check_operands(const View& c, const ConstView& a, const ConstView& b) {
  const Shape &in_a = a.shape(), &in_b = b.shape(), &in_c = c.shape();
  check(a.dtype() == b.dtype() && a.dtype() == c.dtype(), "matmul: {} x {} into {}: the dtypes differ",
        a.dtype(), b.dtype(), c.dtype());
  check(is_float(a.dtype()), "matmul: operands of {}; use f32, f64 or dual", a.dtype());
  check(in_a.rank() >= 2 && in_b.rank() >= 2, "matmul: {} x {}: an operand needs two axes or more", in_a,
        in_b);
  check(in_a.last() == in_b.last(1), "matmul: {} x {}: inner sizes {} and {} differ", in_a, in_b, in_a.last(),
        in_b.last(1));

  const int rank = std::max(in_a.rank(), in_b.rank());
  bool fits = in_c.rank() == rank && in_c.last(1) == in_a.last(1) && in_c.last() == in_b.last();
  for (int back = 2; back < rank; ++back) {
    const Index size_a = back < in_a.rank() ? in_a.last(back) : 1,
                size_b = back < in_b.rank() ? in_b.last(back) : 1;
    check(size_a == size_b || size_a == 1 || size_b == 1,
          "matmul: {} x {}: batch sizes {} and {} do not broadcast", in_a, in_b, size_a, size_b);
    fits = fits && in_c.last(back) == (size_a == 1 ? size_b : size_a);
  }
  check(fits, "matmul: {} x {} does not fit an output of {}", in_a, in_b, in_c);

  if (in_c.count() == 0) return;
  for (int axis = 0; axis < rank; ++axis)
    check(in_c[axis] == 1 || c.strides()[static_cast<std::size_t>(axis)] != 0,
          "matmul: axis {} of the output {} is expanded: it has one place for {}", axis, in_c, in_c[axis]);
  check(!overlap(c, a) && !overlap(c, b), "matmul: {} x {}: the output shares memory with an operand", in_a,
        in_b);
}

// ---- Lowering ---------------------------------------------------------------------------------------------

void set_operand(GemmOperand& m, void* data, const ConstView& v, int batch_rank) {
  const auto stride = [&v](int axis) { return v.strides()[static_cast<std::size_t>(axis)]; };
  const int own_batch_rank = v.rank() - 2;
  m.data = data;
  m.row = stride(own_batch_rank);
  m.column = stride(own_batch_rank + 1);
  for (int axis = 0; axis < batch_rank; ++axis) {
    const int own = axis - (batch_rank - own_batch_rank);
    m.batch[axis] = own < 0 || v.shape()[own] == 1 ? 0 : stride(own);
  }
}

void transpose(GemmOperand& m) { std::swap(m.row, m.column); }

// C = A B as C^T = B^T A^T, which has the same bits: a product does not care for the order of its factors.
void transpose(GemmArguments& g) {
  std::swap(g.a, g.b);
  std::swap(g.rows, g.columns);
  for (GemmOperand* m : {&g.c, &g.a, &g.b}) transpose(*m);
}

// Takes the axes of size 1 out of the batch, joins neighbours that are one axis in memory, and the last of
// them with the rows where all its matrices meet the same B.
void simplify_batch(GemmArguments& g) {
  GemmOperand* const all[] = {&g.c, &g.a, &g.b};
  int rank = 0;
  for (int axis = 0; axis < g.batch_rank; ++axis) {
    const Index size = g.batch[axis];
    if (size == 1) continue;
    const bool joins = rank > 0 && std::all_of(std::begin(all), std::end(all), [&](const GemmOperand* m) {
                         return m->batch[rank - 1] == m->batch[axis] * size;
                       });
    if (!joins) ++rank;
    g.batch[rank - 1] = joins ? g.batch[rank - 1] * size : size;
    for (GemmOperand* m : all) m->batch[rank - 1] = m->batch[axis];
  }
  if (rank > 0 && g.b.batch[rank - 1] == 0 && g.a.batch[rank - 1] == g.rows * g.a.row &&
      g.c.batch[rank - 1] == g.rows * g.c.row)
    g.rows *= g.batch[--rank];
  g.batch_rank = rank;
}

// The arguments are filled in place, field by field: copying structs of fresh integers would cost a small
// product dear.
void lower(GemmArguments& g, const Out& c, const ConstView& a, const ConstView& b, double scale) {
  const Shape& out = c.view.shape();
  g.rows = out.last(1);
  g.columns = out.last();
  g.depth = a.shape().last();
  g.batch_rank = out.rank() - 2;
  for (int axis = 0; axis < g.batch_rank; ++axis) g.batch[axis] = out[axis];
  set_operand(g.c, c.view.data(), c.view, g.batch_rank);
  set_operand(g.a, const_cast<void*>(a.data()), a, g.batch_rank);
  set_operand(g.b, const_cast<void*>(b.data()), b, g.batch_rank);
  g.scale = scale;
  g.accumulate = c.accumulate;
  if (g.depth == 0) {  // C = 0 * 0, whatever the scale; A and B have no address to step from
    g.scale = 0;
    g.a = g.b = {};
  }

  // A stride along an axis of one element is never used: let it be the one that a dense row has.
  if (g.columns == 1) g.c.column = g.b.column = 1;
  const bool column_major = g.c.column != 1 && g.c.row == 1;
  const bool column_of_columns = g.columns == 1 && g.c.row == 1 && g.a.row == 1;
  if (a.dtype() != DType::dual && (column_major || column_of_columns)) transpose(g);
  if (g.columns == 1) g.c.column = g.b.column = 1;
  if (g.batch_rank > 0) simplify_batch(g);
}

// ---- How the work is cut. Nothing below can change a bit. -------------------------------------------------

// A packed block of B, and one of A: each has its place in a core's second-level cache.
constexpr Index kPackedBytes = 768 << 10;
constexpr Index kPackedColumns = 512;

// Below so many multiply-adds nothing is worth a pass of its own.
constexpr Index kLargeProduct = 1 << 20;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

Index batch_count(const GemmArguments& g) {
  Index count = 1;
  for (int axis = 0; axis < g.batch_rank; ++axis) count *= g.batch[axis];
  return count;
}

// visit(one) for each matrix of the batch, as a product without a batch.
template <class Visit>
void for_each_matrix(const GemmArguments& g, Index size, Visit&& visit) {
  const Index count = batch_count(g);
  for (Index matrix = 0; matrix < count; ++matrix) {
    GemmArguments one = g;
    one.batch_rank = 0;
    Index rest = matrix;
    for (int axis = g.batch_rank - 1; axis >= 0; rest /= g.batch[axis--])
      for (GemmOperand* m : {&one.c, &one.a, &one.b})
        m->data = static_cast<char*>(m->data) + rest % g.batch[axis] * m->batch[axis] * size;
    visit(one);
  }
}

// What a product needs to know besides its arguments.
struct Kernel {
  Body multiply, pack;
  TileSize tile;
  DType type;

  Kernel(const Table& t, DType dtype)
      : multiply(body_of(t.gemm, dtype)),
        pack(body_of(t.gemm_pack, dtype)),
        tile(t.gemm_tile[static_cast<int>(dtype)]),
        type(dtype) {}
};

// Rows are cut into equal panels, the last of them a little lower, rather than into full ones and a rest.
Index panel_rows(Index rows, TileSize tile) { return ceil_div(rows, ceil_div(rows, tile.rows)); }

void read_a_in_place(GemmArguments& g) {
  g.a_panel = g.panel_rows * g.a.row;
  g.a_block = kGemmDepth * g.a.column;
}

void read_b_in_place(GemmArguments& g, TileSize tile) {
  g.b_sliver = tile.columns * g.b.column;
  g.b_block = kGemmDepth * g.b.row;
}

// As many parts of each matrix as give every thread one: of its rows if it has enough, or else of its columns
// too.
void cut(GemmArguments& g, TileSize tile, Index matrices) {
  g.row_parts = g.column_parts = 1;
  const Index wanted = ceil_div(threads(), matrices);
  if (wanted == 1 || g.rows * g.columns * g.depth * matrices < kParallelCost) return;
  const Index panels = ceil_div(g.rows, g.panel_rows), slivers = ceil_div(g.columns, tile.columns);
  if (g.slivers_first || panels < 3 * wanted) {
    g.column_parts = std::min(wanted, slivers);
    g.row_parts = std::min(ceil_div(wanted, g.column_parts), panels);
  } else {
    g.row_parts = wanted;
  }
}

void multiply(GemmArguments& g, const Kernel& kernel) {
  const Index matrices = batch_count(g);
  cut(g, kernel.tile, matrices);
  const Index parts = g.row_parts * g.column_parts;
  run(kernel.multiply, kernel.type, &g, matrices * parts, g.rows * g.columns * g.depth / parts + 1);
}

// Memory for packed blocks, which each thread that calls gemm keeps.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { free(); }

  void* of(Index bytes) {
    if (bytes > bytes_) {
      free();
      block_ = detail::allocate_block(static_cast<std::size_t>(bytes));
      bytes_ = bytes;
    }
    return block_;
  }

 private:
  void free() {
    if (block_) detail::free_block(block_, static_cast<std::size_t>(bytes_));
    block_ = nullptr;
    bytes_ = 0;
  }

  void* block_ = nullptr;
  Index bytes_ = 0;
};

// `depth` x `columns` elements from `from` on (strides `row` and `column`) to tile order, in slivers of
// `width`. Returns where they are; `sliver` and `block` tell how they lie.
void* pack(Scratch& scratch, const Kernel& kernel, const void* from, Index depth, Index columns, Index row,
           Index column, Index width, Index& sliver, Index& block) {
  GemmPackArguments p{nullptr, from, depth, columns, row, column, width, 0, 0, 0, 0};
  const Index slivers = ceil_div(columns, width);
  // A few lines of padding: slivers a multiple of 4096 bytes apart would crowd a few sets of the cache.
  sliver = p.sliver = std::min(depth, kGemmDepth) * width + 256 / size_of(kernel.type);
  block = p.block = slivers * sliver;
  p.to = scratch.of(ceil_div(depth, kGemmDepth) * block * size_of(kernel.type));
  // Memory is read as it lies: a few whole rows at a time, or along the columns.
  p.steps = column == 1 ? 16 : kGemmDepth;
  p.slivers = column == 1 ? slivers : 1;
  run(kernel.pack, kernel.type, &p, ceil_div(slivers, p.slivers) * ceil_div(depth, p.steps),
      std::min(depth, p.steps) * p.slivers * width);
  return p.to;
}

// Cuts the product into blocks of which what is packed stays in a second-level cache.
void multiply_packed(const GemmArguments& whole, const Kernel& kernel, bool packs_a, bool packs_b) {
  thread_local Scratch for_a, for_b;
  const Index width = kernel.tile.columns, size = size_of(kernel.type), budget = kPackedBytes / size;
  const Index narrow = std::min<Index>(packs_b ? whole.columns : whole.panel_rows, kPackedColumns);
  const Index depth = std::min(whole.depth, std::max<Index>(1, budget / kGemmDepth / narrow) * kGemmDepth);
  const auto equal_blocks = [](Index total, Index most, Index unit) {
    return ceil_div(ceil_div(total, ceil_div(total, std::max(most, unit))), unit) * unit;
  };
  const Index columns = packs_b ? equal_blocks(whole.columns, budget / depth, width) : whole.columns;
  const Index rows = packs_a ? equal_blocks(whole.rows, budget / depth, whole.panel_rows) : whole.rows;
  const auto at = [size](const GemmOperand& m, Index row, Index column) -> void* {
    return static_cast<char*>(m.data) + (row * m.row + column * m.column) * size;
  };

  for (Index j = 0; j < whole.columns; j += columns)
    for (Index k = 0; k < whole.depth; k += depth) {
      GemmArguments g = whole;
      g.columns = std::min(columns, whole.columns - j);
      g.depth = std::min(depth, whole.depth - k);
      g.accumulate = whole.accumulate || k > 0;
      g.b.data = at(whole.b, k, j);
      if (packs_b) {
        g.b.data = pack(for_b, kernel, g.b.data, g.depth, g.columns, g.b.row, g.b.column, width, g.b_sliver,
                        g.b_block);
        g.b.row = width;
        g.b.column = 1;
      }
      for (Index i = 0; i < whole.rows; i += rows) {
        g.rows = std::min(rows, whole.rows - i);
        g.c.data = at(whole.c, i, j);
        g.a.data = at(whole.a, i, k);
        if (packs_a) {
          g.a.data = pack(for_a, kernel, g.a.data, g.depth, g.rows, whole.a.column, whole.a.row, g.panel_rows,
                          g.a_panel, g.a_block);
          g.a.row = 1;
          g.a.column = g.panel_rows;
        }
        multiply(g, kernel);
      }
    }
}

// Whether a pass that packs A pays: where its columns lie far apart, each step of k comes from another page.
bool packs_a(const GemmArguments& g, Index size) {
  return g.a.row == 1 && g.a.column * size >= 4096 && g.rows > 1 && g.columns >= 64 && g.depth >= 64;
}

// Whether one that packs B does: where it is not dense, or too large to stay in the cache while row after row
// meets it.
bool packs_b(const GemmArguments& g, Index size) {
  if (g.b.column != 1) return g.rows >= 64;
  return g.rows >= 192 && g.columns * g.depth * size > 2 * kPackedBytes;
}

}  // namespace

void gemm(const Out& c, const ConstView& a, const ConstView& b, double scale) {
  if (!c) return;
  check_operands(c.view, a, b);
  if (c.view.count() == 0) return;
  if (a.shape().last() == 0) return c.accumulate ? void() : fill(c, 0);  // a sum of no products
  const Kernel kernel(table(), a.dtype());
  const Index size = size_of(a.dtype());
  GemmArguments g;
  lower(g, c, a, b, scale);
  g.panel_rows = panel_rows(g.rows, kernel.tile);
  read_a_in_place(g);
  read_b_in_place(g, kernel.tile);
  const bool large = g.rows * g.columns * g.depth >= kLargeProduct;
  const bool a_packed = large && packs_a(g, size), b_packed = large && packs_b(g, size);
  g.slivers_first = g.b.column != 1 && !b_packed;
  if ((a_packed && !g.slivers_first) || b_packed)
    for_each_matrix(g, size,
                    [&](const GemmArguments& one) { multiply_packed(one, kernel, a_packed, b_packed); });
  else
    multiply(g, kernel);
}

}  // namespace attune::kernels
