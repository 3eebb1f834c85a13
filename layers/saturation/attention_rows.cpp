#include "attune/layers/saturation/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attune/lib/kernels/dropout.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/gemm.h"
#include "attune/lib/kernels/masked.h"

namespace attune::detail {
namespace {

constexpr Index kBlock = 1 << 15;  // numbers in a block of rows

double value_of(float x) { return x; }
double value_of(double x) { return x; }
double value_of(dual x) { return x.value; }

// Memory of this thread, that stays for the next a.
enum Use { kScores, kSlopes, kFactors, kUses };
View block(Use use, const Shape& shape, DType dtype) {
  thread_local std::vector<double> memory[kUses];
  std::vector<double>& place = memory[use];
  const auto needed = static_cast<std::size_t>(shape.count() * size_of(dtype)) / sizeof(double) + 1;
  if (place.size() < needed) place.resize(needed);
  return View(place.data(), shape, dtype);
}

// Of x [..., H, L, S] or what stretches to it, rows begin ... end - 1 of one head: [rows, S].
ConstView rows_of(const ConstView& x, const Shape& scores, HeadPlace place, Index begin, Index end) {
  return matrix_of(x.expand(scores), place, scores.rank() >= 3 ? scores.last(2) : 1).slice(0, begin, end);
}

Shape shape_of_scores(const kernels::Attention& a) {
  Shape shape = a.q.shape();
  shape[shape.rank() - 1] = a.k.size(-2);
  return shape;
}

// The call, cut down to these queries.
struct Part {
  kernels::Attention attention;
  Index length;  // what mask.lengths shows
};

Part part_of(const kernels::Attention& a, HeadPlace place, Index begin, Index end) {
  const Shape scores = shape_of_scores(a);
  const Index heads = heads_of(a);
  Part part{.attention = {.q = matrix_of(a.q, place, heads).slice(0, begin, end),
                          .k = matrix_of(a.k, place, heads),
                          .v = matrix_of(a.v, place, heads),
                          .scale = a.scale,
                          .softcap = a.softcap,
                          .bias = {},
                          .sinks = {},
                          .mask = {.first = a.mask.first + begin, .last = a.mask.last + begin},
                          .dropout = {}},
            .length = scores.last()};
  if (!a.mask.lengths.empty()) part.length = a.mask.lengths[static_cast<std::size_t>(place.entry)];
  if (a.mask.allow) part.attention.mask.allow = rows_of(*a.mask.allow, scores, place, begin, end);
  if (a.bias) part.attention.bias = rows_of(*a.bias, scores, place, begin, end);
  return part;
}

double norm_of_row(const ConstView& x, Index row) {
  double squares = 0;
  for (Index i = 0; i < x.size(1); ++i) squares += x.at({row, i}) * x.at({row, i});
  return std::sqrt(squares);
}

void divide_by_norms(const View& scores, const kernels::Attention& a) {
  thread_local std::vector<double> key_norms;
  key_norms.clear();
  for (Index j = 0; j < a.k.size(0); ++j) key_norms.push_back(norm_of_row(a.k, j));
  visit(scores.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>)
      for (Index i = 0; i < a.q.size(0); ++i) {
        const double norm = norm_of_row(a.q, i);
        for (std::size_t j = 0; j < key_norms.size(); ++j) {
          T& score = scores.as<T>()[i * scores.size(1) + static_cast<Index>(j)];
          const double product = norm * key_norms[j];
          score = T(static_cast<std::conditional_t<std::is_same_v<T, float>, float, double>>(
              product > 0 ? value_of(score) / product : 0));
        }
      }
  });
}

void compute_scores(const View& scores, const Part& part, const ScoreChange& change) {
  const kernels::Attention& a = part.attention;
  const double root = std::sqrt(static_cast<double>(a.q.size(-1)));
  kernels::gemm(scores, a.q, a.k.t(), change.factor * (change.unit_vectors ? root : a.scale));
  if (change.unit_vectors) divide_by_norms(scores, a);
  if (a.softcap > 0) {  // c tanh(s / c)
    kernels::scale(scores, scores, 1 / a.softcap);
    kernels::tanh(scores, scores);
    kernels::scale(scores, scores, a.softcap);
  }
  kernels::Attention seen = a;
  seen.mask.lengths = std::span(&part.length, 1);
  kernels::masked_scores(scores, scores, seen);
}

// dL/dweights = dy vᵀ, times what dropout made of the weights.
void compute_slopes(const View& slopes, const kernels::Attention& a, const Part& part, HeadPlace place,
                    Index begin, const ConstView& dy) {
  kernels::gemm(slopes, dy, part.attention.v.t());
  if (!a.dropout) return;
  const Index keys = slopes.size(1);
  const Index first = ((place.entry * heads_of(a) + place.head) * a.q.size(-2) + begin) * keys;
  kernels::DropoutMask mask = *a.dropout;
  mask.position += static_cast<std::uint64_t>(first / 4);  // four factors stand at a position
  const Index before = first % 4, count = slopes.count();
  const View factors = block(kFactors, {before + count}, slopes.dtype());
  kernels::dropout_factors(factors, mask);
  kernels::multiply(slopes, slopes, factors.slice(0, before, before + count).reshape(slopes.shape()));
}

}  // namespace

Index heads_of(const kernels::Attention& a) { return a.q.rank() >= 3 ? a.q.size(-3) : 1; }

Index entries_of(const kernels::Attention& a) {
  Index count = 1;
  for (int axis = 0; axis < a.q.rank() - 3; ++axis) count *= a.q.shape()[axis];
  return count;
}

ConstView matrix_of(const ConstView& x, HeadPlace place, Index query_heads) {
  ConstView part = x;
  if (part.rank() >= 3) part = part.select(-3, place.head / (query_heads / part.size(-3)));
  while (part.rank() > 2) {
    const Index size = part.size(-3);
    part = part.select(-3, place.entry % size);
    place.entry /= size;
  }
  return part;
}

Index rows_per_block(Index keys) { return std::max<Index>(1, kBlock / std::max<Index>(1, keys)); }

void each_attention_row(const kernels::Attention& a, HeadPlace place, Index begin, Index end,
                        const ConstView* dy, const ScoreChange& change, const VisitRow& visit_row) {
  const Index keys = a.k.size(-2), step = rows_per_block(keys);
  const double sink = a.sinks ? a.sinks->at({place.head}) : 0;
  thread_local std::vector<double> scores, slopes;
  scores.resize(static_cast<std::size_t>(keys) + 1);
  slopes.resize(static_cast<std::size_t>(keys) + 1);
  for (Index first = begin; first < end; first += step) {
    const Index last = std::min(end, first + step);
    const Part part = part_of(a, place, first, last);
    const View score_block = block(kScores, {last - first, keys}, a.q.dtype());
    compute_scores(score_block, part, change);
    const View slope_block = dy ? block(kSlopes, {last - first, keys}, a.q.dtype()) : View();
    if (dy)
      compute_slopes(slope_block, a, part, place, first,
                     matrix_of(*dy, place, heads_of(a)).slice(0, first, last));
    visit(a.q.dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, std::int32_t>)
        for (Index row = 0; row < last - first; ++row) {
          bool sees = false;
          for (std::size_t j = 0; j < static_cast<std::size_t>(keys); ++j) {
            const Index at = row * keys + static_cast<Index>(j);
            scores[j] = value_of(score_block.as<T>()[at]);
            sees |= scores[j] != -std::numeric_limits<double>::infinity();
            if (dy) slopes[j] = value_of(slope_block.as<T>()[at]);
          }
          const bool has_sink = a.sinks && sees;
          scores.back() = sink;
          slopes.back() = 0;
          const std::size_t size = static_cast<std::size_t>(keys) + (has_sink ? 1 : 0);
          visit_row({first + row, std::span(scores).first(size), std::span(slopes).first(dy ? size : 0)});
        }
    });
  }
}

}  // namespace attune::detail
