// The two forms of attention against the formula in double and against each other: every option, alone and with others,
// over sizes around the edges of blocks. ATTUNE_TABLE=1 prints the worst that was found, as a share of what is allowed.
#include "attune/layers/composed_attention.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "attention_reference.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_attention;

namespace {

double largest(const ConstView& x) {
  double most = 0;
  for (const double number : values(x))
    if (std::isfinite(number)) most = std::max(most, std::abs(number));
  return most;
}

double largest_difference(const ConstView& a, const std::vector<double>& b) {
  const std::vector<double> left = values(a);
  REQUIRE(left.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = left[i] == b[i] ? 0 : std::abs(left[i] - b[i]);
    if (!(difference <= most)) most = difference;  // NaN, too
  }
  return most;
}

std::map<std::string, double>& worst_shares() {
  static std::map<std::string, double> shares;
  return shares;
}

// `error` as a share of 64 units of the last place of (1 + largest score) magnitude.
void check_share(const std::string& what, DType dtype, double error, double magnitude, double largest_score) {
  const double unit = dtype == f32 ? 0x1p-24 : 0x1p-53;
  const double share = error / (64 * unit * (1 + largest_score) * magnitude + 1e-300);
  double& worst = worst_shares()[fmt::format("{:<34} {}", what, name_of(dtype))];
  if (!(share <= worst)) worst = share;
  CHECK_MESSAGE(share <= 1, what, " is off by ", error, ", ", share, " of what is allowed");
}

std::string name_of(const Setting& s) {
  return fmt::format("{} batch {} heads {}/{} L {} S {} d {} dv {} softcap {} bias {} sinks {} dropout {}", s.mask,
                     s.batch, s.heads, s.key_heads, s.queries, s.keys, s.width, s.value_width, s.softcap, s.bias,
                     s.sinks, s.dropout);
}

// Values of both forms against the formula (where nothing is dropped), and everything of one against the other.
void compare(const Setting& s, DType dtype) {
  INFO(name_of(s));
  const Inputs in = inputs_of(s, dtype);
  const Results fused = run(Form::fused, s, in), composed = run(Form::composed, s, in);
  const Reference expected = reference(s, in);
  const double score = expected.largest_score;
  const double value = s.dropout > 0 ? largest(in.v) / (1 - s.dropout) : largest(in.v);
  if (s.dropout == 0)
    for (const auto& [form, r] : {std::pair{"fused", &fused}, {"composed", &composed}}) {
      check_share(fmt::format("{} against the formula: y", form), dtype, largest_difference(r->y, expected.y), value,
                  score);
      check_share(fmt::format("{} against the formula: weights", form), dtype,
                  largest_difference(r->weights, expected.weights), 1, score);
      check_share(fmt::format("{} against the formula: lse", form), dtype,
                  largest_difference(r->log_sum_exp, expected.log_sum_exp), 1 + score, 0);
    }
  check_share("fused against composed: y", dtype, largest_difference(fused.y, values(composed.y)), value, score);
  for (std::size_t i = 0; i < fused.gradients().size(); ++i) {
    const auto [name, gradient] = fused.gradients()[i];
    const Tensor& other = *composed.gradients()[i].second;
    check_share(fmt::format("fused against composed: {}", name), dtype, largest_difference(*gradient, values(other)),
                largest(other) + value * largest(in.up), score);
  }
}

Tensor random_allow(const Shape& shape, std::uint64_t seed) {
  Tensor allowed(shape, i32);
  std::uint64_t state = seed;
  for (std::int32_t& number : allowed.data<std::int32_t>()) number = next_random(state) < 0.6;
  return allowed;
}

std::vector<Index> lengths_of(Index batch, Index keys) {
  std::vector<Index> lengths;
  for (Index b = 0; b < batch; ++b) lengths.push_back(b % 3 == 0 ? keys : b % 3 == 1 ? keys / 2 : 0);
  return lengths;
}

// Every kind of mask, and what they are together.
std::vector<Mask> masks(const Setting& s) {
  const Mask padding = Mask::padding(lengths_of(s.batch, s.keys));
  const Mask allow = Mask::allow(random_allow({s.batch, 1, s.queries, s.keys}, 3));
  const Mask by_head = Mask::allow(random_allow({s.heads, 1, s.keys}, 4));
  return {Mask(),
          Mask::causal(),
          Mask::causal(Align::top_left),
          Mask::window(1),
          Mask::window(5),
          Mask::window(70),
          Mask::window(9, Align::top_left),
          padding,
          allow,
          by_head,
          Mask::causal() & padding,
          Mask::window(6) & padding,
          Mask::causal() & allow,
          Mask::window(20) & padding & by_head};
}

constexpr Index kEdges[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 127, 128, 129};

}  // namespace

TEST_CASE("fused and composed attention: sizes from 1 to 70, sampled, under every mask") {
  std::uint64_t state = 5;
  const auto size = [&](Index most) { return 1 + static_cast<Index>(next_random(state) * static_cast<double>(most)); };
  for (int round = 0; round < 12; ++round) {
    Setting s{.batch = 3, .heads = 2, .key_heads = 1 + round % 2, .queries = size(70), .keys = size(70)};
    s.width = size(9);
    s.value_width = size(9);
    for (const Mask& mask : masks(s)) {
      s.mask = mask;
      compare(s, round % 3 == 0 ? f64 : f32);
    }
  }
}

TEST_CASE("fused and composed attention: around the edges of blocks") {
  int round = 0;
  for (const Index queries : kEdges)
    for (const Index keys : kEdges) {
      Setting s{
          .batch = 2, .heads = 1, .key_heads = 1, .queries = queries, .keys = keys, .width = 5, .value_width = 17};
      const std::vector<Mask> all = masks(s);
      s.mask = all[static_cast<std::size_t>(round++) % all.size()];
      compare(s, f32);
    }
}

TEST_CASE("fused and composed attention: widths that fill no register, and more than one block of a product") {
  for (const DType dtype : {f32, f64})
    for (const auto& [width, value_width] : {std::pair<Index, Index>{1, 1}, {3, 50}, {65, 1}, {33, 31}, {385, 400}}) {
      Setting s{.queries = 35, .keys = 67, .width = width, .value_width = value_width, .mask = Mask::causal()};
      s.scale = 1 / std::sqrt(static_cast<double>(width));
      compare(s, dtype);
    }
}

TEST_CASE("fused and composed attention: grouped heads") {
  for (const auto& [heads, key_heads] : {std::pair<Index, Index>{4, 2}, {6, 1}, {6, 3}, {3, 3}})
    for (const DType dtype : {f32, f64})
      compare({.heads = heads, .key_heads = key_heads, .queries = 40, .keys = 70, .mask = Mask::causal()}, dtype);
}

TEST_CASE("fused and composed attention: a bias stretched along every axis, hiding here and there") {
  const Index batch = 2, heads = 4, queries = 35, keys = 66;
  for (const Shape& shape :
       {Shape{keys}, Shape{queries, 1}, Shape{queries, keys}, Shape{heads, 1, 1}, Shape{heads, 1, keys},
        Shape{batch, 1, 1, keys}, Shape{batch, heads, queries, keys}, Shape{batch, 1, queries, 1}, Shape{1, 1, 1, 1}})
    for (const bool hides : {false, true})
      for (const Mask& mask : {Mask(), Mask::causal() & Mask::padding({keys, 40})})
        compare({.batch = batch,
                 .heads = heads,
                 .key_heads = 2,
                 .queries = queries,
                 .keys = keys,
                 .mask = mask,
                 .bias = shape,
                 .bias_hides = hides},
                shape.rank() == 2 ? f64 : f32);
}

TEST_CASE("fused and composed attention: softcap, sinks, dropout, and everything together") {
  for (const DType dtype : {f32, f64})
    for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(20) & Mask::padding({70, 0})}) {
      const Setting plain{.heads = 4, .key_heads = 2, .queries = 40, .keys = 70, .mask = mask};
      Setting s = plain;
      s.softcap = 1.5;
      compare(s, dtype);
      s = plain;
      s.sinks = true;
      compare(s, dtype);
      s = plain;
      s.dropout = 0.3;
      compare(s, dtype);
      s.softcap = 3;
      s.sinks = true;
      s.bias = {4, 40, 70};
      s.bias_hides = true;
      compare(s, dtype);
    }
}

TEST_CASE("fused and composed attention: large scores") {
  for (const double spread : {10.0, 100.0, 1000.0})
    compare({.queries = 40, .keys = 70, .mask = Mask::causal(), .spread = spread}, f32);
}

TEST_CASE("fused and composed attention: tangents of values and gradients agree in dual") {
  const Setting everything{.heads = 4,
                           .key_heads = 2,
                           .queries = 35,
                           .keys = 66,
                           .mask = Mask::causal() & Mask::padding({66, 50}),
                           .softcap = 3,
                           .dropout = 0.25,
                           .bias = {4, 35, 66},
                           .sinks = true};
  for (const Setting& s : {Setting{.queries = 33, .keys = 65, .mask = Mask::causal()}, everything}) {
    const Inputs in = inputs_of(s, DType::dual);
    const Results fused = run(Form::fused, s, in), composed = run(Form::composed, s, in);
    const auto same_tangents = [](const Tensor& a, const Tensor& b) {
      const std::vector<double> left = tangents(a), right = tangents(b);
      double error = 0, most = 0;
      for (std::size_t i = 0; i < left.size(); ++i) {
        error = std::max(error, std::abs(left[i] - right[i]));
        most = std::max(most, std::abs(right[i]));
      }
      CHECK(error <= 1e-13 * (1 + most));
      CHECK(most > 0);
    };
    same_tangents(fused.y, composed.y);
    for (std::size_t i = 0; i < fused.gradients().size(); ++i)
      same_tangents(*fused.gradients()[i].second, *composed.gradients()[i].second);
  }
}

TEST_CASE("composed attention: gradients of every option") {
  const Setting s{.heads = 4,
                  .key_heads = 2,
                  .queries = 3,
                  .keys = 5,
                  .mask = Mask::causal(),
                  .softcap = 2,
                  .bias = {4, 1, 5},
                  .sinks = true};
  Inputs in = inputs_of(s, f64);
  const GradcheckReport report = gradcheck(
      [&](Var q, Var k, Var v, Var bias, Var sinks) {
        AttentionOptions options = options_of(s);
        options.bias = bias;
        options.sinks = sinks;
        return detail::composed_attention(detail::prepare_attention(q, k, v, options)).y;
      },
      in.q, in.k, in.v, in.bias, in.sinks);
  CHECK_MESSAGE(report.passed(), report.text());
}

TEST_CASE("composed attention: the same bits on every row and for any number of threads") {
  const Setting s{.heads = 4,
                  .key_heads = 2,
                  .queries = 35,
                  .keys = 66,
                  .mask = Mask::causal() & Mask::padding({66, 50}),
                  .softcap = 3,
                  .dropout = 0.25,
                  .bias = {4, 35, 66},
                  .sinks = true};
  const Inputs in = inputs_of(s, f32);
  on_every_row([&] { return run(Form::composed, s, in).all(); });
}

TEST_CASE("fused and composed attention: the worst of all comparisons") {
  if (std::getenv("ATTUNE_TABLE"))
    for (const auto& [what, share] : worst_shares()) fmt::print("{:<40} {:.2f} of what is allowed\n", what, share);
}
