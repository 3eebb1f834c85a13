#include "attune/examples/studies/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attune/layers/names.h"
#include "attune/layers/saturation/monte_carlo.h"
#include "attune/layers/saturation/row_statistics.h"
#include "attune/layers/saturation/theory.h"
#include "attune/lib/math.h"

namespace attune::studies {
namespace {

constexpr Index kProbes = 256;

struct RuleName {
  Rule rule;
  const char *name, *title;
};
constexpr RuleName kRules[] = {
    {Rule::raw, "1", "unscaled"},
    {Rule::inverse_sqrt, "1/sqrt", "1/√d"},
    {Rule::inverse, "1/d", "1/d"},
    {Rule::eight_over, "8/d", "8/d"},
    {Rule::learned, "learned", "learned from 1/√d"},
    {Rule::learned_raw, "learned-raw", "learned from 1"},
    {Rule::qk_norm, "qknorm", "QK-norm, g₀ = √d"},
    {Rule::qk_norm_log, "qknorm-log", "QK-norm, g₀ = log₂(n²−n)"},
    {Rule::softcap_50, "softcap50", "1/√d, cap 50"},
    {Rule::softcap_15, "softcap15", "1/√d, cap 15"},
    {Rule::softcap_50_raw, "softcap50-raw", "unscaled, cap 50"},
    {Rule::softcap_10_raw, "softcap10-raw", "unscaled, cap 10"},
    {Rule::ssmax, "ssmax", "SSMax"},
};
constexpr const char* kNormalisers[] = {"softmax", "softmax1", "sigmoid", "sparsemax", "entmax15"};

double as_double(Index n) { return static_cast<double>(n); }

// What q·k is multiplied by at first, apart from what is trained, and the trained factor's start.
struct Scale {
  double fixed;
  double trained;  // exp(it) for a learned scale, it for QK-norm and SSMax
};

Scale scale_of(const LookupOptions& options) {
  const double d = as_double(options.width), root = std::sqrt(d);
  switch (options.rule) {
    case Rule::raw:
    case Rule::softcap_50_raw:
    case Rule::softcap_10_raw:
      return {1, 1};
    case Rule::inverse:
      return {1 / d, 1};
    case Rule::eight_over:
      return {8 / d, 1};
    case Rule::learned:
      return {1 / root, 0};
    case Rule::learned_raw:
      return {1 / root, math::log(root)};
    case Rule::qk_norm:
      return {1, root};
    case Rule::qk_norm_log:
      return {1, theory::henry_scale(options.keys)};
    case Rule::ssmax:
      return {1 / root, 0.43};
    case Rule::inverse_sqrt:
    case Rule::softcap_50:
    case Rule::softcap_15:
      break;
  }
  return {1 / root, 1};
}

double cap_of(Rule rule) {
  if (rule == Rule::softcap_50 || rule == Rule::softcap_50_raw) return 50;
  if (rule == Rule::softcap_15) return 15;
  return rule == Rule::softcap_10_raw ? 10 : 0;
}

bool is_learned(Rule rule) { return rule == Rule::learned || rule == Rule::learned_raw; }
bool is_qk_norm(Rule rule) { return rule == Rule::qk_norm || rule == Rule::qk_norm_log; }

struct Examples {
  Tensor queries, keys, values, targets;  // i32: [B], [B, n], [B, n], [B]
};

// Where the key that is asked for stands in the examples that are measured: 16 places in turn.
Index right_place(Index row, Index keys) { return row % kMapRows * keys / kMapRows; }

// Keys of one example are different symbols, values are any. The key that is asked for stands anywhere, or in
// order.
Examples draw_examples(const LookupOptions& options, Index count, Rng rng, bool in_order = false) {
  const Index n = options.keys, symbols = options.symbols();
  Examples drawn{Tensor({count}, i32), Tensor({count, n}, i32), Tensor({count, n}, i32),
                 Tensor({count}, i32)};
  const auto queries = drawn.queries.data<std::int32_t>(), keys = drawn.keys.data<std::int32_t>();
  const auto values = drawn.values.data<std::int32_t>(), targets = drawn.targets.data<std::int32_t>();
  std::vector<std::int32_t> deck(static_cast<std::size_t>(symbols));
  std::iota(deck.begin(), deck.end(), 0);
  for (Index row = 0; row < count; ++row) {
    for (Index j = 0; j < n; ++j) {
      std::swap(deck[static_cast<std::size_t>(j)],
                deck[static_cast<std::size_t>(j + rng.below(symbols - j))]);
      keys[static_cast<std::size_t>(row * n + j)] = deck[static_cast<std::size_t>(j)];
      values[static_cast<std::size_t>(row * n + j)] = static_cast<std::int32_t>(rng.below(symbols));
    }
    const Index drawn_place = rng.below(n), place = in_order ? right_place(row, n) : drawn_place;
    queries[static_cast<std::size_t>(row)] = keys[static_cast<std::size_t>(row * n + place)];
    targets[static_cast<std::size_t>(row)] = values[static_cast<std::size_t>(row * n + place)];
  }
  return drawn;
}

struct Pass {
  Var keys;     // [V, d], as they stand in the product
  Var dots;     // [B, n], scale q·k
  Var scores;   // what the normaliser sees
  Var weights;  // [B, n]
  Var logits;   // [B, V]
};

struct Model {
  explicit Model(const LookupOptions& from) : options(from), scale(scale_of(from)) {
    Rng rng = Rng(from.seed).split("parameters");
    const Index symbols = from.symbols(), d = from.width;
    const double deviation = 1 / std::sqrt(as_double(d));
    const auto draw = [&](Index rows, Index columns, double by) {
      Tensor numbers({rows, columns});
      fill_normal(numbers.view(), rng, 0, by);
      return Parameter(numbers);
    };
    query_table = draw(symbols, d, 1), key_table = draw(symbols, d, 1), value_table = draw(symbols, d, 1);
    wq = draw(d, d, from.gain * deviation), wk = draw(d, d, from.gain * deviation);
    wv = draw(d, d, deviation), unembedding = draw(d, symbols, deviation);
    if (is_learned(from.rule) || is_qk_norm(from.rule) || from.rule == Rule::ssmax)
      trained = Parameter(full({1}, scale.trained));
  }

  Pass operator()(const Examples& examples) const {
    Var queries = matmul(query_table, wq), keys = matmul(key_table, wk);
    double factor = scale.fixed;
    if (is_qk_norm(options.rule)) {  // rms_norm leaves vectors of norm sqrt(d)
      queries = rms_norm(queries), keys = rms_norm(keys);
      factor = 1 / as_double(options.width);
    }
    Var table = matmul(queries, t(keys), factor);
    if (is_learned(options.rule)) table = table * exp(Var(trained));
    if (is_qk_norm(options.rule)) table = table * trained;
    const Var dots = gather(embedding(table, examples.queries), examples.keys, -1);
    const Var scores = scored(dots), weights = normalised(scores);
    const Var places = scatter_add(zeros({scores.size(0), options.symbols()}, scores.dtype()),
                                   examples.values, weights, -1);  // weights by value instead of by key
    return {keys, dots, scores, weights, matmul(places, matmul(matmul(value_table, wv), unembedding))};
  }

  // What stands between the scaled product and the normaliser.
  Var scored(Var dots) const {
    if (const double cap = cap_of(options.rule); cap > 0) return tanh(dots * (1 / cap)) * cap;
    if (options.rule == Rule::ssmax) return dots * math::log(as_double(options.keys)) * trained;
    return dots;
  }

  Var normalised(Var scores) const {
    const double n = as_double(options.keys);
    if (options.normaliser == Normaliser::sigmoid) return sigmoid(scores + -math::log(n));
    if (options.normaliser == Normaliser::softmax) return softmax(scores);
    if (options.normaliser == Normaliser::sparsemax) return sparsemax(scores);
    if (options.normaliser == Normaliser::entmax15) return entmax15(scores);
    const Var sink =
        zeros({scores.size(0), 1}, scores.dtype());  // one more score of 0, and what it gets is lost
    return slice(softmax(concat({scores, sink}, 1)), 1, 0, options.keys);
  }

  // What q·k, as keys() and queries stand in it, is multiplied by now.
  double current_scale() const {
    if (is_learned(options.rule)) return scale.fixed * math::exp(trained.value().at({0}));
    if (is_qk_norm(options.rule)) return trained.value().at({0}) / as_double(options.width);
    return scale.fixed;
  }

  void each(auto&& visit) {
    visit("query_table", query_table), visit("key_table", key_table);
    visit("value_table", value_table), visit("wq", wq), visit("wk", wk), visit("wv", wv);
    visit("unembedding", unembedding), visit("trained", trained);
  }

  LookupOptions options;
  Scale scale;
  Parameter query_table, key_table, value_table, wq, wk, wv, unembedding, trained;
};

Index count_right(const ConstView& logits, const Tensor& targets) {
  return visit(logits.dtype(), [&]<class T>() {
    Index right = 0;
    const Index columns = logits.size(1);
    if constexpr (std::is_floating_point_v<T>)
      for (Index row = 0; row < logits.size(0); ++row) {
        const T* first = logits.as<T>() + row * columns;
        const auto best = std::max_element(first, first + columns) - first;
        right += best == targets.data<std::int32_t>()[static_cast<std::size_t>(row)];
      }
    return right;
  });
}

double norm(const ConstView& x) {
  const Tensor copy = Tensor::copy_of(x).to(f64);
  double squares = 0;
  for (const double number : copy.data<double>()) squares += number * number;
  return std::sqrt(squares);
}

double distance(const Tensor& a, const ConstView& b) {
  const auto x = a.data<float>();
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double apart = static_cast<double>(x[i]) - static_cast<double>(b.as<float>()[i]);
    squares += apart * apart;
  }
  return std::sqrt(squares);
}

Spread spread(std::vector<double> numbers) {
  const Sample sample(std::move(numbers));
  return {sample.quantile(0.1), sample.median(), sample.quantile(0.9), sample.mean()};
}

// A row's weights as shares of their sum, which is 1 for softmax alone.
double normalised_entropy(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0)) return 0;
  double entropy = 0;
  for (const double w : weights)
    if (w > 0) entropy -= w / sum * math::log(w / sum);
  return entropy / math::log(as_double(static_cast<Index>(weights.size())));
}

// ‖dL/dq‖ = c ‖sum over j of ds_j k_j‖ for each row; ds is the gradient of c q·k.
std::vector<double> query_gradients(const ConstView& slopes, const ConstView& keys, const Tensor& ids,
                                    double scale) {
  const Index n = slopes.size(1), d = keys.size(1);
  std::vector<double> norms, sum(static_cast<std::size_t>(d));
  for (Index row = 0; row < slopes.size(0); ++row) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (Index j = 0; j < n; ++j) {
      const double slope = slopes.as<double>()[row * n + j];
      const double* key =
          keys.as<double>() + ids.data<std::int32_t>()[static_cast<std::size_t>(row * n + j)] * d;
      for (Index i = 0; i < d; ++i) sum[static_cast<std::size_t>(i)] += slope * key[i];
    }
    norms.push_back(std::abs(scale) *
                    std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0)));
  }
  return norms;
}

void measure_rows(const Pass& pass, Normaliser normaliser, LookupMeasurement& seen) {
  const Tensor scores = Tensor::copy_of(pass.scores.value()), weights = Tensor::copy_of(pass.weights.value());
  const auto n = static_cast<std::size_t>(scores.size(1));
  std::vector<double> entropies, jacobians, largest;
  double dead = 0, stuck = 0;
  Index number = 0;
  for (std::size_t first = 0; first < scores.data<double>().size(); first += n) {
    const auto row = scores.data<double>().subspan(first, n),
               shares = weights.data<double>().subspan(first, n);
    double entropy = 0, jacobian = 0;
    if (normaliser == Normaliser::softmax) {
      const RowStatistics statistics = row_statistics(row);
      entropy = statistics.normalized_entropy(), jacobian = statistics.frobenius;
      seen.logit_deviation += statistics.logit_deviation;
    } else {
      entropy = normalised_entropy(shares), jacobian = jacobian_norm(normaliser, row, shares);
      seen.logit_deviation += row_statistics(row).logit_deviation;
    }
    for (const double s : row) seen.max_logit = std::max(seen.max_logit, std::abs(s));
    entropies.push_back(entropy), jacobians.push_back(jacobian);
    largest.push_back(*std::max_element(shares.begin(), shares.end()));
    dead += jacobian < 1e-3;
    const auto heaviest = std::max_element(shares.begin(), shares.end()) - shares.begin();
    stuck += jacobian < 1e-3 && heaviest != right_place(number, scores.size(1));
    ++number;
  }
  const double rows = as_double(scores.size(0));
  seen.dead = dead / rows, seen.stuck = stuck / rows, seen.logit_deviation /= rows;
  seen.entropy = spread(std::move(entropies)), seen.jacobian = spread(std::move(jacobians));
  seen.max_weight = spread(std::move(largest));
}

LookupMeasurement measure(Model& model, const Examples& probes, Index step) {
  const Cast precise(model, f64);
  LookupMeasurement seen;
  seen.step = step;
  Tape tape;
  const Pass pass = model(probes);
  keep_grad(pass.dots);
  const Var loss = cross_entropy(pass.logits, probes.targets);
  tape.backward(loss);
  const Index rows = probes.queries.count();
  seen.loss = loss.item();
  seen.accuracy = as_double(count_right(pass.logits.value(), probes.targets)) / as_double(rows);
  measure_rows(pass, model.options.normaliser, seen);
  for (Index row = 0; row < rows; ++row)
    seen.right_weight +=
        pass.weights.value().at({row, right_place(row, model.options.keys)}) / as_double(rows);
  seen.scale = model.current_scale();
  std::vector<double> norms = query_gradients(pass.dots.grad(), pass.keys.value(), probes.keys, seen.scale);
  for (double& x : norms) x *= as_double(rows);  // the loss is the rows' mean
  seen.query_gradient = spread(std::move(norms));
  seen.gradient_q = norm(model.wq.grad()), seen.gradient_k = norm(model.wk.grad());
  return seen;
}

LookupMap draw_map(const Model& model, const Examples& probes, Index step) {
  const NoGrad scope;
  const Tensor weights = Tensor::copy_of(model(probes).weights.value().slice(0, 0, kMapRows)).to(f64);
  return {step, {weights.data<double>().begin(), weights.data<double>().end()}};
}

// J is diagonal: p (1 - p), of p = sigmoid(s - ln n).
double norm_of_gates(std::span<const double> scores) {
  double squares = 0;
  const double shift = math::log(static_cast<double>(scores.size()));
  for (const double s : scores) {
    const double small = math::exp(-std::abs(s - shift)), slope = small / ((1 + small) * (1 + small));
    squares += slope * slope;
  }
  return std::sqrt(squares);
}

// Of softmax with one more score of 0: its Jacobian without the last row and column.
double norm_without_sink(std::span<const double> scores) {
  double most = 0, sum = 0, p2 = 0, squares = 0;
  for (const double s : scores) most = std::max(most, s);
  for (const double s : scores) sum += math::exp(s - most);
  const double sink = math::exp(-most), whole = sum + sink;
  for (const double s : scores) p2 += math::exp(2 * (s - most)) / (whole * whole);
  for (const double s : scores) {  // p² (1 - p)² on the diagonal, and p² (sum of the others' p²) beside it
    const double p = math::exp(s - most) / whole, others = (sum - math::exp(s - most) + sink) / whole;
    squares += p * p * (others * others + std::max(0.0, p2 - p * p));
  }
  return std::sqrt(squares);
}

// Whether step, of so many, is one of about `logged` in equal proportions.
bool is_logged(Index step, Index steps, Index logged) {
  if (step == 0) return true;
  const auto place = [&](Index at) {
    return std::floor(as_double(logged) * math::log(as_double(at + 1)) / math::log(as_double(steps + 1)));
  };
  return place(step) > place(step - 1);
}

std::unique_ptr<Optimizer> optimizer_of(Model& model) {
  if (model.options.adam) return std::make_unique<Adam>(model, AdamOptions{.lr = model.options.lr});
  return std::make_unique<Sgd>(model, SgdOptions{.lr = model.options.lr});
}

// One run while it goes on.
struct Trainer {
  explicit Trainer(const LookupOptions& from)
      : options(from),
        model(from),
        optimizer(optimizer_of(model)),
        data(Rng(from.seed).split("batches")),
        probes(draw_examples(from, kProbes, Rng(from.seed).split("probes"), true)) {}

  // Nothing happens any more.
  bool has_learned() const {
    return run.reached >= 0 && run.last_accuracy >= 0.999 && steps_made > run.reached + 20 &&
           !options.keep_maps;
  }

  void step(Index number) {
    const bool measured = is_logged(number, options.steps, options.logged);
    Tensor before;
    if (measured) measure_at(number), before = Tensor::copy_of(model.wq.value());
    descend(draw_examples(options, options.batch, data.split(static_cast<std::uint64_t>(number))));
    if (measured) run.measurements.back().update_q = distance(before, model.wq.value()) / norm(before);
    if (run.reached < 0 && run.last_accuracy >= 0.9) run.reached = number;
  }

  void measure_at(Index number) {
    run.measurements.push_back(measure(model, probes, number));
    run.measurements.back().running_accuracy = run.last_accuracy;
    const Index moments[] = {0, options.steps / 20, options.steps / 6, options.steps};
    if (options.keep_maps && run.maps.size() < 4 && number >= moments[run.maps.size()])
      run.maps.push_back(draw_map(model, probes, number));
  }

  void descend(const Examples& examples) {
    {
      Tape tape;
      const Pass pass = model(examples);
      tape.backward(cross_entropy(pass.logits, examples.targets));
      const double share =
          as_double(count_right(pass.logits.value(), examples.targets)) / as_double(options.batch);
      run.last_accuracy = steps_made == 0 ? share : kAverage * run.last_accuracy + (1 - kAverage) * share;
    }
    optimizer->step();
    ++steps_made;
  }

  LookupOptions options;
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  Rng data;
  Examples probes;
  Index steps_made = 0;
  LookupRun run;
};

}  // namespace

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const RuleName& rule : kRules) list.emplace_back(rule.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& normaliser_names() {
  static const std::vector<std::string> names(std::begin(kNormalisers), std::end(kNormalisers));
  return names;
}

Rule rule_of(const std::string& name) {
  for (const RuleName& rule : kRules)
    if (name == rule.name) return rule.rule;
  check(false, "lookup: '{}': {}", name, no_such("rule", name, rule_names()));
  return Rule::raw;
}

Normaliser normaliser_of(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kNormalisers); ++i)
    if (name == kNormalisers[i]) return static_cast<Normaliser>(i);
  check(false, "lookup: '{}': {}", name, no_such("normaliser", name, normaliser_names()));
  return Normaliser::softmax;
}

std::string title_of(Rule rule) {
  for (const RuleName& one : kRules)
    if (one.rule == rule) return one.title;
  return "";
}

double LookupOptions::sigma() const {
  const Scale scale = scale_of(*this);
  const double root = std::sqrt(as_double(width)), dots = gain * gain * root;  // deviation of q·k
  if (is_qk_norm(rule)) return scale.trained / root;
  if (is_learned(rule)) return scale.fixed * math::exp(scale.trained) * dots;
  if (rule == Rule::ssmax) return scale.fixed * scale.trained * math::log(as_double(keys)) * dots;
  return scale.fixed * dots;
}

double jacobian_norm(Normaliser normaliser, std::span<const double> scores, std::span<const double> weights) {
  switch (normaliser) {
    case Normaliser::softmax:
      return row_statistics(scores).frobenius;
    case Normaliser::softmax1:
      return norm_without_sink(scores);
    case Normaliser::sigmoid:
      return norm_of_gates(scores);
    case Normaliser::sparsemax: {  // J = diag(1) - 1 1ᵀ/|S| over the support S
      const auto support = std::count_if(weights.begin(), weights.end(), [](double p) { return p > 0; });
      return std::sqrt(static_cast<double>(std::max<std::ptrdiff_t>(0, support - 1)));
    }
    case Normaliser::entmax15:
      break;
  }
  // J = diag(g) - g gᵀ / G, g = sqrt(p), G its sum: sum over i of g_i² (1 - g_i / G)², and of g_i² g_j² / G²
  // beside it.
  double whole = 0, squares = 0, all = 0;
  for (const double p : weights) whole += std::sqrt(p), all += p;
  for (const double p : weights) {
    const double rest = (whole - std::sqrt(p)) / whole;
    squares += p * rest * rest + p * (all - p) / (whole * whole);
  }
  return std::sqrt(squares);
}

LookupRun run_lookup(const LookupOptions& options, const std::function<void(double)>& progress) {
  check(options.width >= 1 && options.keys >= 2 && options.steps >= 1 && options.batch >= 1 &&
            options.logged >= 1,
        "lookup: width {}, keys {}, steps {}, batch {} and logged {} are too small", options.width,
        options.keys, options.steps, options.batch, options.logged);
  Trainer trainer(options);
  Index step = 0;
  while (step < options.steps && !trainer.has_learned()) {
    trainer.step(step++);
    if (progress) progress(as_double(step) / as_double(options.steps));
  }
  trainer.measure_at(step);
  return std::move(trainer.run);
}

}  // namespace attune::studies
