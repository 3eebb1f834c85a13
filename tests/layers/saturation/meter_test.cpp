// The meter against attention computed step by step, and that measuring changes nothing.
#include "attune/layers/saturation/meter.h"

#include <algorithm>

#include "../../lib/kernel_check.h"
#include "../../support/count_new.h"
#include "attune/autograd/checkpoint.h"
#include "attune/autograd/ops.h"
#include "attune/layers/composed_attention.h"
#include "attune/layers/gpt.h"
#include "attune/layers/optim.h"
#include "attune/layers/saturation/monte_carlo.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Gpt make_gpt(double deviation = 0.02) {
  return Gpt({.vocab = 11,
              .context = 12,
              .layers = 2,
              .heads = 2,
              .width = 16,
              .dropout = 0.1,
              .deviation = deviation},
             Rng(1));
}

// A few steps of training; the parameters' bits afterwards.
std::vector<double> train(int steps, AttentionMeter* (*make_meter)(Gpt&),
                          std::vector<HeadReading>* readings = nullptr) {
  Gpt model = make_gpt();
  const std::unique_ptr<AttentionMeter> meter(make_meter ? make_meter(model) : nullptr);
  AdamW optimizer(model, {.lr = 1e-2, .clip = 1});
  Rng random(5), data(6);
  for (int step = 0; step < steps; ++step) {
    Tensor tokens({3, 12}, i32), targets({3, 12}, i32);
    for (std::int32_t& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(data.below(11));
    for (std::int32_t& token : targets.data<std::int32_t>())
      token = static_cast<std::int32_t>(data.below(11));
    Tape tape({.random = &random});
    std::optional<AttentionMeter::Watch> watch;
    if (meter) watch.emplace(*meter, step);
    tape.backward(cross_entropy(model(tokens), targets));
    if (watch) watch->read();
    optimizer.step();
    if (meter && readings && meter->measures(step))
      readings->insert(readings->end(), meter->readings().begin(), meter->readings().end());
  }
  std::vector<double> all;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    const std::vector<double> numbers = values(p.value());
    all.insert(all.end(), numbers.begin(), numbers.end());
  });
  return all;
}

double norm(const ConstView& x) {
  double squares = 0;
  for (const double e : values(x)) squares += e * e;
  return std::sqrt(squares);
}

struct Setting {
  const char* name;
  AttentionOptions options;
  Index heads = 4, key_heads = 2, queries = 7, keys = 9;
};

// What each head should read, from the composed form, whose weights and scores are there.
void compare(const Setting& s, DType type) {
  CAPTURE(s.name);
  const Tensor q = random({2, s.heads, s.queries, 5}, type, 1, -3, 3),
               k = random({2, s.key_heads, s.keys, 5}, type, 2, -2, 2);
  const Tensor v = random({2, s.key_heads, s.keys, 3}, type, 3),
               dy = random({2, s.heads, s.queries, 3}, type, 4);
  AttentionMeter meter({.every = 1});
  {
    Rng draws(9);
    Tape tape({.random = &draws});
    AttentionMeter::Watch watch(meter, 3);
    const Var y = attention(variable(q), variable(k), variable(v), s.options);
    tape.backward(y, dy);
    watch.read();
  }
  REQUIRE(meter.readings().size() == static_cast<std::size_t>(s.heads));
  Rng draws(9);
  Tape tape({.random = &draws});
  const Var qs = variable(q), ks = variable(k), vs = variable(v);
  const detail::AttentionCall call = detail::prepare_attention(qs, ks, vs, s.options);
  const Var scores = detail::attention_scores(call), masked = detail::masked_scores(call, scores);
  const Var weights = detail::attention_weights(call, masked), y = detail::weigh(call, weights, masked);
  keep_grad(weights), keep_grad(masked);
  tape.backward(y, dy);
  const double tolerance = type == f32 ? 2e-5 : 1e-10;
  for (Index head = 0; head < s.heads; ++head) {
    const HeadReading& r = meter.readings()[static_cast<std::size_t>(head)];
    CHECK(r.step == 3);
    CHECK(r.head == head);
    std::vector<double> entropies, frobenius, dead, query_norms;
    double sink = 0;
    Index sink_rows = 0;
    double weight_squares = 0, score_squares = 0, query_squares = 0;
    for (Index entry = 0; entry < 2; ++entry)
      for (Index i = 0; i < s.queries; ++i) {
        std::vector<double> p;
        for (Index j = 0; j < masked.size(-1); ++j)
          if (masked.value().at({entry, head, i, j}) > -kInf)
            p.push_back(std::exp(masked.value().at({entry, head, i, j})));
        double sum = 0, p2 = 0, p3 = 0, entropy = 0;
        for (const double x : p) sum += x;
        for (double& x : p) x /= sum, p2 += x * x, p3 += x * x * x, entropy -= x * std::log(x);
        if (i >= 4) ++sink_rows, sink += weights.value().at({entry, head, i, 0});
        double row = 0;
        for (Index c = 0; c < 5; ++c) row += std::pow(qs.grad().at({entry, head, i, c}), 2);
        query_squares += row;
        for (Index j = 0; j < s.keys; ++j)
          if (masked.value().at({entry, head, i, j}) > -kInf) {
            weight_squares += std::pow(weights.grad().at({entry, head, i, j}), 2);
          }
        for (Index j = 0; j < masked.size(-1); ++j)
          score_squares += std::pow(masked.grad().at({entry, head, i, j}), 2);
        if (p.size() < 2) continue;
        query_norms.push_back(std::sqrt(row));
        entropies.push_back(entropy / std::log(static_cast<double>(p.size())));
        frobenius.push_back(std::sqrt(p2 - 2 * p3 + p2 * p2));
        dead.push_back(frobenius.back() < 1e-3);
      }
    const auto check_spread = [&](const Spread& spread, const std::vector<double>& numbers) {
      const Sample sample(numbers);
      CHECK(spread.mean == doctest::Approx(sample.mean()).epsilon(tolerance));
      CHECK(spread.median == doctest::Approx(sample.median()).epsilon(tolerance));
      CHECK(spread.p10 == doctest::Approx(sample.quantile(0.1)).epsilon(tolerance));
      CHECK(spread.p90 == doctest::Approx(sample.quantile(0.9)).epsilon(tolerance));
    };
    CHECK(r.rows == static_cast<Index>(entropies.size()));
    check_spread(r.entropy, entropies);
    check_spread(r.frobenius, frobenius);
    check_spread(r.row_query_gradient, query_norms);
    CHECK(r.dead == doctest::Approx(Sample(dead).mean()));
    CHECK(r.sink_mass == doctest::Approx(sink / static_cast<double>(sink_rows)).epsilon(tolerance));
    CHECK(r.weights_gradient == doctest::Approx(std::sqrt(weight_squares)).epsilon(tolerance));
    CHECK(r.scores_gradient == doctest::Approx(std::sqrt(score_squares)).epsilon(tolerance));
    CHECK(r.query_gradient == doctest::Approx(std::sqrt(query_squares)).epsilon(tolerance));
    CHECK(r.output_gradient == doctest::Approx(norm(dy.view().select(1, head))).epsilon(tolerance));
    CHECK(r.key_gradient ==
          doctest::Approx(norm(ks.grad().select(1, head / (s.heads / s.key_heads)))).epsilon(tolerance));
  }
}

}  // namespace

TEST_CASE("meter: reads what attention computes step by step, whatever the mask, the heads and the options") {
  for (const DType type : {f32, f64}) {
    compare({"plain", {}}, type);
    compare({"one head for all", {.scale = Scale::none()}, 4, 1}, type);
    compare({"causal", {.mask = Mask::causal()}, 2, 2, 9, 9}, type);
    compare({"window and padding", {.mask = Mask::window(3) & Mask::padding({9, 5})}, 4, 2, 9, 9}, type);
    const Tensor allowed = tensor({{1, 0, 1, 1, 0, 1, 1, 0, 1}}, i32);
    compare({"allowed", {.mask = Mask::allow(allowed)}}, type);
    compare({"softcap", {.softcap = 2}}, type);
    compare({"dropout", {.dropout = 0.3}}, type);
    compare({"ssmax", {.mask = Mask::causal(), .ssmax = true}}, type);
    const Tensor bias = random({4, 7, 9}, type, 8), sinks = random({4}, type, 9);
    const NoGrad outer;  // the constants outlive the tapes inside
    compare({"bias and sinks", {.bias = Var(bias), .sinks = Var(sinks)}}, type);
  }
}

TEST_CASE("meter: changes no bit of the training, and reads the same on any number of threads") {
  const std::vector<double> unwatched = train(6, nullptr);
  std::vector<HeadReading> readings, alone;
  const auto make = [](Gpt& model) { return new AttentionMeter(model, {.every = 2}); };
  CHECK(train(6, make, &readings) == unwatched);
  CHECK(readings.size() == 3 * 2 * 2);
  const int before = threads();
  set_threads(before == 1 ? 3 : 1);
  CHECK(train(6, make, &alone) == unwatched);
  set_threads(before);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    CHECK(attention_csv_row(readings[i]) == attention_csv_row(alone[i]));
    CHECK(readings[i].step == static_cast<Index>(i / 4) * 2);
    CHECK(readings[i].path == (i % 4 < 2 ? "blocks.0.attention" : "blocks.1.attention"));
    CHECK(readings[i].head == static_cast<Index>(i % 2));
  }
}

TEST_CASE("meter: from its second measurement on it allocates nothing, be heads saturated or not") {
  for (const double deviation : {0.02, 2.0}) {
    Gpt model = make_gpt(deviation);
    AttentionMeter meter(model, {.every = 2, .alarm = 0});
    AdamW optimizer(model, {.lr = 1e-3, .clip = 1});
    Rng random(5);
    Tensor tokens({3, 12}, i32);
    for (std::int32_t& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(random.below(11));
    const auto step = [&](Index number) {
      Tape tape({.random = &random});
      AttentionMeter::Watch watch(meter, number);
      tape.backward(cross_entropy(model(tokens), tokens));
      watch.read();
      optimizer.step();
    };
    for (Index number = 0; number < 4; ++number) step(number);
    const MemoryUse before = memory_use();
    const std::uint64_t news_before = calls_of_new();
    for (Index number = 4; number < 9; ++number) step(number);
    CHECK(calls_of_new() == news_before);
    CHECK(memory_use().allocations == before.allocations);
    CHECK(meter.measured_steps() == 5);
    REQUIRE(meter.readings().size() == 4);
    for (const HeadReading& r : meter.readings()) CHECK(r.is_saturated() == (deviation > 1));
  }
}

TEST_CASE("meter: gradients and the spectral norm of W_Q and W_K, head by head") {
  Rng rng(3);
  for (const bool crossing : {false, true}) {
    MultiHeadAttention layer({.width = 6,
                              .memory_width = crossing ? 6 : 0,
                              .heads = 4,
                              .kv_heads = 2,
                              .key_width = 3,
                              .value_width = 2},
                             rng);
    AttentionMeter meter(layer, {.every = 1});
    const Tensor x = random({2, 5, 6}, f32, 1), memory = random({2, 7, 6}, f32, 2);
    Tape tape;
    AttentionMeter::Watch watch(meter, 0);
    tape.backward(sum(pow(crossing ? layer(x, memory) : layer(x), 2)));
    watch.read();
    const Parameter& queries = crossing ? layer.query.weight : layer.qkv.weight;
    const Parameter& keys = crossing ? layer.key_value.weight : layer.qkv.weight;
    for (Index head = 0; head < 4; ++head) {
      const HeadReading& r = meter.readings()[static_cast<std::size_t>(head)];
      const Index q = 3 * head, k = (crossing ? 0 : 12) + 3 * (head / 2);
      CHECK(r.path.empty());
      CHECK(r.w_q_gradient == doctest::Approx(norm(queries.grad().slice(1, q, q + 3))).epsilon(1e-6));
      CHECK(r.w_k_gradient == doctest::Approx(norm(keys.grad().slice(1, k, k + 3))).epsilon(1e-6));
      // The largest |x' W_Q W_K' y| / (|x| |y|), by many alternating steps.
      std::vector<double> y(6, 1);
      double sigma = 0;
      for (int step = 0; step < 500; ++step) {
        for (const bool forward : {true, false}) {
          std::vector<double> z(6), middle(3);
          const ConstView from =
              (forward ? keys : queries).value().slice(1, forward ? k : q, (forward ? k : q) + 3);
          const ConstView to =
              (forward ? queries : keys).value().slice(1, forward ? q : k, (forward ? q : k) + 3);
          for (Index i = 0; i < 6; ++i)
            for (Index c = 0; c < 3; ++c)
              middle[static_cast<std::size_t>(c)] += from.at({i, c}) * y[static_cast<std::size_t>(i)];
          double squares = 0;
          for (Index i = 0; i < 6; ++i)
            for (Index c = 0; c < 3; ++c)
              z[static_cast<std::size_t>(i)] += to.at({i, c}) * middle[static_cast<std::size_t>(c)];
          for (const double e : z) squares += e * e;
          sigma = std::sqrt(squares);
          for (double& e : z) e /= sigma;
          y = z;
        }
      }
      CHECK(r.w_qk_norm == doctest::Approx(sigma).epsilon(1e-6));
    }
  }
}

TEST_CASE("meter: a saturated head is an alarm that says what would help, measured on the same batch") {
  const Tensor q = random({1, 2, 64, 16}, f64, 1, -4, 4), k = random({1, 2, 64, 16}, f64, 2, -4, 4),
               v = random({1, 2, 64, 4}, f64, 3);
  AttentionMeter meter({.every = 1, .alarm = 0.2});
  const NoGrad scope;
  {
    AttentionMeter::Watch watch(meter, 0);
    const Within blocks("blocks", 2), place("attention");
    attention(q, k, v, {.scale = Scale::none()});
    watch.read();
    watch.read();  // the second time it does nothing
  }
  REQUIRE(meter.readings().size() == 2);
  const HeadReading& r = meter.readings()[1];
  CHECK(r.is_saturated());
  CHECK(r.freezing_point() == doctest::Approx(std::sqrt(2 * std::log(64.0))));
  CHECK(r.deviation.median > 15);
  CHECK(r.gain == doctest::Approx(1 / std::sqrt(r.deviation.median)));
  CHECK(r.with_gain->deviation == doctest::Approx(1).epsilon(1e-9));
  CHECK(r.with_gain->dead == 0);
  CHECK(r.with_gain->entropy > 0.8);
  CHECK(r.with_qk_norm->deviation == doctest::Approx(1).epsilon(0.1));
  CHECK(r.with_qk_norm->entropy > 0.8);
  CHECK(std::isnan(r.query_gradient));  // there was no backward
  REQUIRE(meter.alarms().size() == 2);
  const std::string alarm = describe(r);
  CAPTURE(alarm);
  CHECK(alarm.starts_with("layer 2 head 1: entropy collapsed, "));
  CHECK(alarm.find("% of rows dead; sigma is ") != std::string::npos);
  CHECK(alarm.find("freezing starts at 2.9; on this batch QK-norm would bring it to 1.0 (entropy 0.") !=
        std::string::npos);
  MESSAGE(alarm);
  {
    AttentionMeter::Watch watch(meter, 1);
    attention(q, k, v, {.scale = 0.01});
    watch.read();
  }
  CHECK(meter.alarms().empty());
  CHECK(describe(meter.readings()[0]).starts_with("attention head 0: entropy 0.9"));
}

TEST_CASE("meter: other normalizers are measured as what they are") {
  const Tensor x = random({1, 6, 4}, f64, 1, -3, 3), dy = random({1, 6, 4}, f64, 2);
  for (const Normalizer normalizer :
       {Normalizer::softmax1, Normalizer::sigmoid, Normalizer::sparsemax, Normalizer::entmax15}) {
    CAPTURE(name_of(normalizer));
    AttentionMeter meter({.every = 1});
    Tape tape;
    AttentionMeter::Watch watch(meter, 0);
    const Var q = variable(x);
    tape.backward(attention(q, x, x, {.normalizer = normalizer}), dy);
    watch.read();
    const HeadReading& r = meter.readings().at(0);
    Tape again;
    const Var leaf = variable(x);
    const detail::AttentionCall call = detail::prepare_attention(leaf, x, x, {.normalizer = normalizer});
    const Var scores = detail::attention_scores(call), masked = detail::masked_scores(call, scores);
    const Var weights = detail::attention_weights(call, masked);
    keep_grad(scores), keep_grad(weights);
    again.backward(detail::weigh(call, weights, masked), dy);
    CHECK(r.scores_gradient ==
          doctest::Approx(norm(scores.grad())).epsilon(normalizer == Normalizer::softmax1 ? 0.1 : 1e-12));
    CHECK(r.weights_gradient == doctest::Approx(norm(weights.grad())).epsilon(1e-12));
    CHECK(r.query_gradient == doctest::Approx(norm(leaf.grad())).epsilon(1e-12));
    double sink = 0;
    for (const Index i : {4, 5}) sink += weights.value().at({0, i, 0}) / 2;
    CHECK(r.sink_mass == doctest::Approx(sink).epsilon(1e-12));
  }
}

TEST_CASE("B26: meter: rows that see nothing, or one key, are left out and are never NaN") {
  const Tensor q = random({2, 3, 4}, f32, 1);
  AttentionMeter meter({.every = 1});
  const NoGrad scope;
  AttentionMeter::Watch watch(meter, 0);
  attention(
      q, q, q,
      {.mask = Mask::causal(Align::top_left) & Mask::allow(tensor({{0, 0, 0}, {1, 0, 0}, {1, 1, 0}}, i32))});
  watch.read();
  for (const HeadReading& r : meter.readings()) {
    CHECK(r.rows == 1);
    CHECK(r.keys == 2);
    CHECK(r.entropy.mean > 0);
    CHECK(r.entropy.mean < 1);
    CHECK(r.entropy.mean == r.entropy.p90);
  }
}

TEST_CASE("meter: calls in a checkpoint are measured once, by what forward shows") {
  const Tensor numbers = random({2, 5, 4}, f32, 1);
  AttentionMeter meter({.every = 1});
  Tape tape;
  AttentionMeter::Watch watch(meter, 0);
  const Var y = checkpoint([](Var x) { return attention(x, x, x); }, variable(numbers));
  tape.backward(sum(y));
  watch.read();
  REQUIRE(meter.readings().size() == 2);
  CHECK(meter.readings()[0].entropy.mean > 0);
  CHECK(std::isnan(meter.readings()[0].query_gradient));
}

TEST_CASE("meter: steps that are not its turn cost nothing and leave the readings") {
  const Tensor x = random({3, 4}, f32, 1);
  AttentionMeter meter({.every = 2});
  const NoGrad scope;
  for (const Index step : {2, 3}) {
    AttentionMeter::Watch watch(meter, step);
    CHECK(watch.measures() == (step == 2));
    for (int call = 0; call < 2; ++call) attention(x, x, x);
    watch.read();
  }
  REQUIRE(meter.readings().size() == 2);
  CHECK(meter.readings()[1].step == 2);
  CHECK(meter.readings()[1].call == 1);
  CHECK(meter.measured_steps() == 1);
  CHECK(meter.seconds() > 0);
  CHECK_FALSE(AttentionMeter({.every = 0, .last = 0}).measures(0));
  CHECK(AttentionMeter({.every = 2, .last = 3}).measures(3));
}

TEST_CASE("meter: a table has a name for each column, and nothing where nothing was measured") {
  const HeadReading empty{.step = 7, .path = "blocks.0.attention", .head = 3, .dead = 0.25};
  const std::string header = attention_csv_header(), row = attention_csv_row(empty);
  CHECK(header.starts_with(
      "step,path,call,head,rows,keys,entropy_mean,entropy_median,entropy_p10,entropy_p90,"));
  CHECK(header.ends_with(",query_gradient,key_gradient,w_q_gradient,w_k_gradient,w_qk_norm"));
  CHECK(std::count(header.begin(), header.end(), ',') == std::count(row.begin(), row.end(), ','));
  CHECK(row.starts_with("7,blocks.0.attention,0,3,0,0,0,"));
  CHECK(row.ends_with(",0.25,0,,,,,,,,"));
}
