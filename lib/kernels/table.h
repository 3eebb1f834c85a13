// The kernel table: for each kernel and element type a body, one table per instruction set (a row), and the plain
// structs that carry the arguments. The public functions beside this file check, fill a struct and call run().
#pragma once

#include "attune/lib/number.h"
#include "attune/lib/philox.h"

namespace attune::kernels {

// A body works on the items begin .. end - 1 of what its arguments describe. How items are shared out among
// threads cannot change a bit: an item's result depends on the arguments alone.
using Body = void (*)(const void* arguments, Index begin, Index end);

// Bodies by element type: f32, f64, dual.
using Bodies = Body[3];

// y = f(a, b, c), element by element over a common shape, whose last axis is cut into blocks of kMapBlock.
// An item is one block. Strides are in elements; 0 repeats.
inline constexpr Index kMapBlock = 4096;
inline constexpr int kMapOperands = 4;  // the output first
struct MapArguments {
  int outer_rank;
  Index outer_sizes[kMaxRank];
  Index inner_size;
  void* data[kMapOperands];
  Index outer_strides[kMapOperands][kMaxRank];
  Index inner_strides[kMapOperands];
  bool accumulate;
  bool dense;  // all operands contiguous and of one shape: the inner axis is all there is
  double parameters[2];
};

// C = scale * A B, or C += scale * A B; see gemm.h. C is cut into tiles of panel_rows by as many columns as TileSize
// says. A's panels and B's slivers (a tile's share of each) lie in place or packed: `panel` and `sliver` lead from one
// to the next, and `block` to the next kGemmDepth steps of k. An item is a part of the rows and columns of one matrix.
inline constexpr Index kGemmDepth = 384;
inline constexpr int kGemmBatchRank = kMaxRank - 2;
struct GemmOperand {
  void* data;
  Index row, column, batch[kGemmBatchRank];
};
struct GemmArguments {
  Index rows, columns, depth;
  int batch_rank;
  Index batch[kGemmBatchRank];
  GemmOperand c, a, b;
  Index panel_rows, a_panel, a_block, b_sliver, b_block;
  Index row_parts, column_parts;
  double scale;
  bool accumulate;
  bool slivers_first;  // for small products: B lies in place, and each sliver of it is copied where it is used
};
// Copies an operand to tile order: [block of kGemmDepth][sliver of `width`][k][width]. `row` is its stride along k.
// An item is `steps` steps of k of `slivers` slivers.
struct GemmPackArguments {
  void* to;
  const void* from;
  Index depth, columns, row, column;
  Index width, sliver, block, steps, slivers;
};
struct TileSize {
  int rows, columns;
};

// The kernels below go row by row: a row is the last axis, whose elements stand side by side; the axes before it count
// the rows, the last of them fastest. An operand with one number a row is a row of one.
struct RowSpace {
  int rank;
  Index sizes[kMaxRank];
};
struct RowOperand {
  void* data;  // null: not wanted
  Index strides[kMaxRank];
};

// See reduce.h. Where the last axis is summed, `inner` is 1; where it is kept, each result is a row of `inner`.
// With `partials` an item is one chunk of one result (or of one block of a row), whose sum is left there, as
// [kept..., chunks, inner], for fold to add up; without, an item is a whole result (or block), which goes to y.
inline constexpr Index kSumChunk = 1024;    // elements, where the last axis is summed
inline constexpr Index kRowChunk = 64;      // rows, where it is kept
inline constexpr Index kInnerBlock = 1024;  // columns of such rows
struct SumArguments {
  RowSpace kept, summed;      // both without the inner axis
  RowOperand x, y;            // strides along the kept axes
  Index x_strides[kMaxRank];  // along the summed ones
  Index summed_count, chunks;
  Index inner, x_inner_stride, y_inner_stride;
  void* partials;
  bool accumulate;
  double divisor;
};
// y[j] = (sum over i of partials[i * stride + j]) / divisor, rounded once. An item is a block of kFoldBlock columns.
inline constexpr Index kFoldBlock = 128;
struct FoldArguments {
  const void* partials;
  Index chunks, stride, width;
  void* y;
  Index y_stride;
  bool accumulate;
  double divisor;
};
// An item is a chunk.
inline constexpr Index kSquareChunk = 4096;
struct SquareArguments {
  const void* x;
  Index count;
  double* partials;
};

// See softmax.h. An item is a row. Where not all is visible, row i of the last counting axis sees i + 1 + shift columns.
struct SoftmaxArguments {
  RowSpace rows;
  Index width;
  RowOperand y, x;    // softmax
  RowOperand dx, dy;  // softmax_backward, which also takes y
  bool accumulate;
  bool all;
  Index shift;
};

// What the kernels of extremes.h, log_softmax.h and cumsum.h take. An item is a row.
struct RowArguments {
  RowSpace rows;
  Index width;
  RowOperand y, x, statistics;
  RowOperand dx, dy;
  bool accumulate;
  bool backwards;  // cumsum: from the last element to the first
};

// See layer_norm.h and rms_norm.h. An item of the forward kernels is a row; one of the backward ones is a chunk of rows,
// whose sums of dy * n and, of layer_norm, of dy are left in `partials` (null: not wanted), side by side.
inline constexpr Index kNormChunk = 64;
struct LayerNormArguments {
  RowSpace rows;
  Index count, width;
  RowOperand y, statistics, x;
  RowOperand dx, dy;
  const void *weight, *bias;
  void* partials;
  bool accumulate;
  double epsilon;
};

// See cross_entropy.h. An item of the forward kernels is a chunk of rows, whose loss is left in `partials` (as double or
// dual); one of the backward ones is a row. `loss`, of each row, may be unwanted; the stride of dloss is 0 where all
// rows share one.
inline constexpr Index kLossChunk = 16;
struct CrossEntropyArguments {
  RowSpace rows;
  Index count, width;
  RowOperand logits, targets, statistics, loss;
  RowOperand dlogits, dloss;
  void* partials;
  bool accumulate;
  Index ignored;
  double smoothing, divisor;
};

// See embedding.h. An item of embedding is a row, one of embedding_backward a block of columns.
inline constexpr Index kEmbeddingBlock = 32;
struct EmbeddingArguments {
  RowSpace rows;
  Index count, width;
  RowOperand ids, vectors;
  Index vector_stride;
  void* table;
  Index table_row_stride, table_stride;
  bool accumulate;
};

// See optimizer_steps.h. An item is a block of elements; a piece's blocks start at its first_block.
inline constexpr Index kStepBlock = 16384;
struct StepPiece {
  void *parameter, *gradient, *slots[2];
  Index count, first_block;
  double gradient_scale, couple, keep, step, root_scale;
};
struct StepArguments {
  const StepPiece* pieces;
  Index count;
  double beta1, rest1, beta2, rest2, epsilon;
  bool nesterov;
};

// See dropout.h. An item is a block of elements.
inline constexpr Index kDropoutBlock = 4096;
struct DropoutMask {
  std::uint64_t seed, stream, position;
  std::uint64_t threshold;  // a word below it drops its element
  double factor;            // of what is kept
};
struct DropoutArguments {
  void* y;
  Index count;
  DropoutMask mask;
};

// See attention.h. Items of attention, attention_weights and attention_backward_queries are blocks of queries of one head;
// of attention_backward the heads of keys; of attention_backward_keys their blocks of keys. Numbers of an operand's rows
// stand side by side, except for bias and allow. `memory` is the thread's own.
inline constexpr Index kAttentionQueries = 32, kAttentionKeys = 64;  // of a block
inline constexpr int kAttentionBatchRank = kMaxRank - 3;
struct AttentionOperand {
  void* data;  // null: not there, or not wanted
  Index batch[kAttentionBatchRank], head, row, column;
};
struct AttentionArguments {
  int batch_rank;
  Index batch_sizes[kAttentionBatchRank];
  Index heads, key_heads, queries, keys, width, value_width;
  AttentionOperand q, k, v, y, bias, allow;
  const void* sinks;  // one number a head
  Index sink_stride;
  Index first, last;     // query i sees keys i + first ... i + last
  const Index* lengths;  // of the keys of each batch entry; null: all
  double scale, softcap;
  bool drops;
  DropoutMask dropout;
  void *maxima, *totals;  // [batch, heads, queries]
  AttentionOperand dy, dq, dk, dv, dscores;
  void *dots, *dsinks;  // [batch, heads, queries]
  bool adds_to_dq, adds_to_dk, adds_to_dv;
  void* memory;
};
// How many numbers `memory` holds.
constexpr Index attention_memory(Index width, Index value_width) {
  const Index wider = width < value_width ? value_width : width;
  return kAttentionQueries * (6 * kAttentionKeys + 4 + width + value_width + wider);
}

struct Table {
  const char* name;

  Bodies copy, scale, add, subtract, multiply, divide, divide_backward;
  Bodies exp, log, erf, sin, cos, tanh, square_root, gelu, gelu_backward;
  Bodies log1p, expm1, sigmoid, sigmoid_backward, softplus, swish, swish_backward;
  Bodies power, power_backward, power_exponent_backward;
  Bodies relu, leaky_relu, absolute, sign, clamp, clamp_backward, where_positive;
  Bodies maximum, minimum, maximum_backward;
  Bodies divergence, divergence_backward, binary_entropy, binary_entropy_backward;

  Bodies gemm, gemm_pack;
  TileSize gemm_tile[3];
  Bodies sum_last, sum_first, fold, squares;
  Bodies max, min, extreme_backward, argmax, argmin, cumsum;
  Bodies softmax, softmax_backward, logsumexp, logsumexp_backward, log_softmax, log_softmax_backward;
  Bodies layer_norm, layer_norm_backward, rms_norm, rms_norm_backward;
  Bodies cross_entropy, cross_entropy_backward, nll, nll_backward;
  Bodies embedding, embedding_backward, dropout_factors;
  Bodies attention, attention_weights, attention_backward, attention_backward_queries, attention_backward_keys;
  Bodies sgd, sgd_momentum, adam, lion;  // f32 and f64
};

extern const Table kScalar, kAvx2, kAvx512;

}  // namespace attune::kernels
