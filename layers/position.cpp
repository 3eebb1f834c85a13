#include "attune/layers/position.h"

#include <cmath>

#include "attune/lib/math.h"

namespace attune {
namespace {

Index number_of(DType dtype) { return static_cast<Index>(dtype); }

// A table in each of the element types that a model can be cast to.
std::shared_ptr<const Tensor[]> in_each_type(const Tensor& table) {
  std::shared_ptr<Tensor[]> tables(new Tensor[kFloatDTypes]);
  for (const DType dtype : {f32, f64, DType::dual}) tables[number_of(dtype)] = table.to(dtype);
  return tables;
}

struct Turns {
  Tensor cos, sin;  // f64 [positions, pairs]
};

Turns turns_of(std::span<const Index> positions, const RopeOptions& o) {
  const Index pairs = o.width / 2, count = static_cast<Index>(positions.size());
  Turns turns{Tensor({count, pairs}, f64), Tensor({count, pairs}, f64)};
  double *cosine = turns.cos.data<double>().data(), *sine = turns.sin.data<double>().data();
  for (const Index position : positions)
    for (Index pair = 0; pair < pairs; ++pair) {
      const double share = 2 * static_cast<double>(pair) / static_cast<double>(o.width);
      const double angle = static_cast<double>(position) * math::pow(o.base, -share);
      *cosine++ = math::cos(angle);
      *sine++ = math::sin(angle);
    }
  return turns;
}

std::vector<Index> first_positions(Index count) {
  std::vector<Index> positions(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) positions[static_cast<std::size_t>(i)] = i;
  return positions;
}

}  // namespace

Tensor sinusoidal_table(Index positions, Index width, DType dtype) {
  check(positions >= 0 && width >= 1, "sinusoidal: no table of {} positions and width {}", positions, width);
  Tensor table({positions, width}, f64);
  double* to = table.data<double>().data();
  for (Index position = 0; position < positions; ++position)
    for (Index column = 0; column < width; ++column) {
      const double share = static_cast<double>(column - column % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(position) * math::pow(10000.0, -share);
      *to++ = column % 2 == 0 ? math::sin(angle) : math::cos(angle);
    }
  return table.to(dtype);
}

SinusoidalPositions::SinusoidalPositions(Index context, Index width)
    : tables_(in_each_type(sinusoidal_table(context, width, f64))) {}

Var SinusoidalPositions::operator()(Var x, Index first) const {
  check(is_float(x.dtype()), "sinusoidal: it computes with f32, f64 or dual, and got {}", x.dtype());
  const Tensor& table = tables_[number_of(x.dtype())];
  check(x.rank() >= 2 && x.size(-1) == table.shape()[1], "sinusoidal: {} is not [..., time, {}]", x.shape(),
        table.shape()[1]);
  const Index end = first + x.size(-2);
  check(first >= 0 && end <= table.shape()[0], "sinusoidal: positions {} to {} are not below {}", first, end - 1,
        table.shape()[0]);
  const Var rows = slice(table, 0, first, end);
  return x + rows;
}

Rope::Rope(const RopeOptions& options) : options_(options) {
  check(options.width >= 2 && options.width % 2 == 0, "rope: a width of {} does not consist of pairs", options.width);
  check(options.context >= 0 && options.base > 0, "rope: context {} and base {} must be positive", options.context,
        options.base);
  const Turns turns = turns_of(first_positions(options.context), options);
  cos_ = in_each_type(turns.cos);
  sin_ = in_each_type(turns.sin);
}

void Rope::check_width(Var x) const {
  check(x.rank() >= 2 && x.size(-1) == options_.width, "rope: {} is not [..., time, {}]", x.shape(), options_.width);
  check(is_float(x.dtype()), "rope: it computes with f32, f64 or dual, and got {}", x.dtype());
}

Var Rope::operator()(Var x, Index first) const {
  check_width(x);
  const Index end = first + x.size(-2);
  check(first >= 0 && end <= options_.context, "rope: positions {} to {} are not below {}", first, end - 1,
        options_.context);
  const Index type = number_of(x.dtype());
  const Var cos = slice(cos_[type], 0, first, end);
  const Var sin = slice(sin_[type], 0, first, end);
  return rotate(x, cos, sin, options_.pairs);
}

Var Rope::operator()(Var x, std::span<const Index> positions) const {
  check_width(x);
  check(x.size(-2) == static_cast<Index>(positions.size()), "rope: {} positions for {}", positions.size(), x.shape());
  const Turns turns = turns_of(positions, options_);
  const Var cos = turns.cos.to(x.dtype());
  const Var sin = turns.sin.to(x.dtype());
  return rotate(x, cos, sin, options_.pairs);
}

std::vector<double> alibi_slopes(Index heads) {
  check(heads >= 1, "alibi: {} heads", heads);
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (Index h = 0; h < power; ++h) slopes.push_back(math::pow(2.0, -8 * static_cast<double>(h + 1) / static_cast<double>(power)));
  for (Index h = 0; static_cast<Index>(slopes.size()) < heads; h += 2)
    slopes.push_back(math::pow(2.0, -4 * static_cast<double>(h + 1) / static_cast<double>(power)));
  return slopes;
}

Tensor alibi_bias(Index heads, Index queries, Index keys, DType dtype) {
  const std::vector<double> slopes = alibi_slopes(heads);
  check(queries >= 0 && keys >= 0, "alibi: {} queries and {} keys", queries, keys);
  Tensor bias({heads, queries, keys}, f64);
  double* to = bias.data<double>().data();
  for (const double slope : slopes)
    for (Index i = 0; i < queries; ++i)
      for (Index j = 0; j < keys; ++j) *to++ = -slope * static_cast<double>(std::abs(i + keys - queries - j));
  return bias.to(dtype);
}

}  // namespace attune
