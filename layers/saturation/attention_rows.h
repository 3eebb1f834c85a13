// Attention's scores, and the gradients at its weights, computed again from what it was called with: a few
// rows at a time, as doubles. What the meter reads.
#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "attune/lib/kernels/attention.h"

namespace attune::detail {

// The scores as they were, or as they would be.
struct ScoreChange {
  double factor = 1;  // on scale q·k
  bool unit_vectors =
      false;  // sqrt(d) cos(q, k) in place of scale q·k: QK-norm whose factor starts at sqrt(d)
};

// One head of one batch entry (the axes before the heads, counted row by row).
struct HeadPlace {
  Index entry = 0, head = 0;
};

Index entries_of(const kernels::Attention& a);
Index heads_of(const kernels::Attention& a);
// Of x [..., H, L, width] the [L, width] of that head; the key heads of groups are shared.
ConstView matrix_of(const ConstView& x, HeadPlace place, Index query_heads);

// One query's row. Spans live until the next.
struct AttentionRow {
  Index query;
  std::span<const double> scores;  // [S], as the softmax sees them: -inf where hidden; the sink's behind them
  std::span<const double> weight_slopes;  // dL/dweights = v dy, by key (0 for the sink); empty without dy
};
// What is done with each: any function, which is called where it stands (a std::function would copy it).
class VisitRow {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, VisitRow>)
  VisitRow(F&& visit)  // NOLINT(bugprone-forwarding-reference-overload): the line above keeps copies out
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(visit)))),
        call_([](void* object, const AttentionRow& row) { (*static_cast<std::remove_reference_t<F>*>(object))(row); }) {
  }
  void operator()(const AttentionRow& row) const { call_(object_, row); }

 private:
  void* object_;
  void (*call_)(void*, const AttentionRow&);
};

// How many rows are computed at once: rows_per_block(S) * S numbers are all the memory that it takes.
Index rows_per_block(Index keys);

// The rows of queries begin ... end - 1. dy is of y's shape.
void each_attention_row(const kernels::Attention& a, HeadPlace place, Index begin, Index end,
                        const ConstView* dy, const ScoreChange& change, const VisitRow& visit);

}  // namespace attune::detail
