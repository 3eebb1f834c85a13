// Where a token stands: sinusoidal tables, rotary embeddings, and ALiBi's biases. (Learned positions are an Embedding.)
#pragma once

#include <memory>

#include "attune/autograd/ops.h"

namespace attune {

// [positions, width], with sin(p / 10000^(2i/width)) in column 2i and the cosine in 2i + 1 (Vaswani et al. 2017, section
// 3.5). Where the width is odd the last column is a sine.
Tensor sinusoidal_table(Index positions, Index width, DType dtype = f32);

// Adds such a table to x.
class SinusoidalPositions {
 public:
  SinusoidalPositions(Index context, Index width);
  // x [..., T, width] -> the same, plus rows first ... first + T - 1 of the table; those must exist (else an error).
  Var operator()(Var x, Index first = 0) const;

  void each(auto&&) const {}

 private:
  std::shared_ptr<const Tensor[]> tables_;  // f32, f64, dual
};

struct RopeOptions {
  Index width = 0;    // d, of a head: even
  Index context = 0;  // positions 0 ... context - 1 are prepared
  double base = 10000;
  RotaryPairs pairs = RotaryPairs::half_split;
};

// Rotary position embeddings (Su et al. 2021): pair i of a query or key at position p turns by p * base^(-2i/d), so that
// q·k depends on the distance alone. Copies share their tables.
class Rope {
 public:
  explicit Rope(const RopeOptions& options);

  // x [..., T, d] -> the same, at positions first ... first + T - 1, which must be prepared.
  Var operator()(Var x, Index first = 0) const;
  // At any positions, T of them, negative ones and those beyond the context included.
  Var operator()(Var x, std::span<const Index> positions) const;

 private:
  void check_width(Var x) const;
  RopeOptions options_;
  std::shared_ptr<const Tensor[]> cos_, sin_;  // f32, f64, dual: [context, d / 2]
};

// A head's slope (Press et al. 2022): 2^(-8 (h + 1) / H) for H a power of two; else those for the power below it, and
// then every other one for the power above.
std::vector<double> alibi_slopes(Index heads);
// -slope * |i + S - L - j| for query i and key j, [H, L, S]: the bias of attention.
Tensor alibi_bias(Index heads, Index queries, Index keys, DType dtype = f32);

}  // namespace attune
