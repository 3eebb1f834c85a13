// Study "depth": what attention alone does to tokens, layer after layer. They become one and the same.
//
// Dong et al. 2021: without skip connections and MLPs the tokens' differences vanish doubly exponentially in
// depth (rank collapse). Giorlandino & Goldt 2025: saturation is the other side of it; heads that look at one
// key each mix little.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/attune.h"
#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/studies/study.h"
#include "attune/layers/names.h"
#include "attune/layers/saturation/monte_carlo.h"
#include "attune/layers/saturation/row_statistics.h"

namespace attune::studies {

const Study& depth();

namespace {

constexpr Index kTokens = 32, kWidth = 64, kHeads = 4, kLayers = 12;
constexpr Index kShown[] = {0, 1, 2, 3, 4, 6, 8, 12};

struct Variant {
  const char *name, *title;
  double scale;  // of q·k in a head of width 16
  bool norm, skip;
  double reference[std::size(kShown)];  // the residual at kShown; 0: not published
};
constexpr Variant kVariants[] = {
    {"pure", "attention alone", 0.25, false, false, {.985, .793, .024, 2e-7, 4e-16, 0, 0, 0}},
    {"norm", "with LayerNorm", 0.25, true, false, {.98, .79, .24, .008, 1e-6, 4e-16, 0, 0}},
    {"norm-raw", "unscaled", 1, true, false, {.98, .94, .87, .72, .50, .09, 4e-4, 4e-16}},
    {"norm-1/d", "scaled by 1/d", 1.0 / 16, true, false, {.99, .29, .002, 7e-9, 0, 0, 0, 0}},
    {"skip", "with skip connections", 0.25, true, true, {.98, .97, .95, .91, .86, .74, .62, .46}},
};

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant& variant : kVariants) names.emplace_back(variant.name);
  return names;
}

const Variant& variant_of(const std::string& name) {
  for (const Variant& variant : kVariants)
    if (name == variant.name) return variant;
  check(false, "study depth: '{}': {}", name, no_such("variant", name, variant_names()));
  return kVariants[0];
}

// ‖X - 1 mean‖_F / ‖X‖_F: 0 where all tokens are the same.
double residual(const ConstView& x) {
  double squares = 0, rest = 0;
  for (Index column = 0; column < x.size(1); ++column) {
    double mean = 0;
    for (Index row = 0; row < x.size(0); ++row) mean += x.at({row, column}) / static_cast<double>(x.size(0));
    for (Index row = 0; row < x.size(0); ++row) {
      const double number = x.at({row, column});
      squares += number * number, rest += (number - mean) * (number - mean);
    }
  }
  return std::sqrt(rest / squares);
}

double mean_entropy(const ConstView& weights) {
  double sum = 0;
  std::vector<double> row(static_cast<std::size_t>(weights.size(1)));
  for (Index i = 0; i < weights.size(0); ++i) {
    for (Index j = 0; j < weights.size(1); ++j) row[static_cast<std::size_t>(j)] = weights.at({i, j});
    sum += row_statistics_of_weights(row).normalized_entropy() / static_cast<double>(weights.size(0));
  }
  return sum;
}

Tensor matrix(Index rows, Index columns, double deviation, Rng& rng) {
  Tensor drawn({rows, columns}, f64);
  fill_normal(drawn.view(), rng, 0, deviation);
  return drawn;
}

struct Layer {
  Tensor output;
  double entropy;
};

// softmax(scale Q Kᵀ) V W_O over four heads, of weights that were just drawn.
Layer attend(const Tensor& x, const Variant& variant, double gain, Rng& rng) {
  const NoGrad scope;
  constexpr Index head = kWidth / kHeads;
  const double deviation = 1 / std::sqrt(static_cast<double>(kWidth));
  const Tensor wq = matrix(kWidth, kWidth, gain * deviation, rng),
               wk = matrix(kWidth, kWidth, gain * deviation, rng);
  const Tensor wv = matrix(kWidth, kWidth, deviation, rng), wo = matrix(kWidth, kWidth, deviation, rng);
  Var in = x;
  if (variant.norm) in = layer_norm(in, ones({kWidth}, f64), zeros({kWidth}, f64));
  const Var queries = matmul(in, wq), keys = matmul(in, wk), values = matmul(in, wv);
  std::vector<Var> mixed;
  double entropy = 0;
  for (Index h = 0; h < kHeads; ++h) {
    const auto part = [&](Var all) { return slice(all, 1, h * head, (h + 1) * head); };
    const Var weights = softmax(matmul(part(queries), t(part(keys)), variant.scale));
    entropy += mean_entropy(weights.value()) / static_cast<double>(kHeads);
    mixed.push_back(matmul(weights, part(values)));
  }
  Var out = matmul(concat(mixed, 1), wo);
  if (variant.skip) out = out + x;
  return {Tensor::copy_of(out.value()), entropy};
}

Record make(const Run& run, const std::function<void(double)>&) {
  const Study& study = depth();
  const Variant& variant = variant_of(study.setting(run, "variant"));
  Rng rng = Rng(study.seed(run)).split("depth");
  Tensor x = matrix(kTokens, kWidth, 1, rng);
  Record record;
  record.rows.push_back({0, residual(x), NAN});
  double first = NAN;
  for (Index layer = 1; layer <= kLayers; ++layer) {
    Layer next = attend(x, variant, study.number(run, "gain"), rng);
    x = std::move(next.output);
    record.rows.push_back({static_cast<double>(layer), residual(x), next.entropy});
    if (std::isnan(first) && record.rows.back()[1] < 1e-3) first = static_cast<double>(layer);
  }
  record.outcomes = {record.rows[4][1], record.rows[kLayers][1], first, record.rows[1][2]};
  return record;
}

std::vector<Run> plan(const Request& request) {
  const bool quick = request.size == Size::quick;
  std::vector<std::string> seeds, gains = {"0.25", "0.5", "0.71", "1", "1.41", "2", "2.83", "4"};
  for (int seed = 1; seed <= (quick ? 5 : request.size == Size::usual ? 20 : 100); ++seed)
    seeds.push_back(std::to_string(seed));
  std::vector<Run> runs;
  if (!request.axes.empty()) {
    runs = product(request.axes);
    for (const Run& run : runs) variant_of(depth().setting(run, "variant"));
  } else {
    runs = product({{"variant", variant_names()}, {"seed", seeds}});
    seeds.resize(std::min<std::size_t>(seeds.size(), 10));
    for (const Run& run : product({{"variant", {"norm"}}, {"gain", gains}, {"seed", seeds}}))
      if (depth().setting(run, "gain") != "1") runs.push_back(run);
  }
  for (Run& run : runs) run.seconds = 0.02;
  return runs;
}

// The geometric mean over seeds of the residual at a layer, of runs of that variant and gain; NaN where there
// are none.
double typical(const std::vector<Result>& results, const std::string& variant, const std::string& gain,
               Index layer) {
  double sum = 0;
  int count = 0;
  for (const Result& result : results) {
    if (depth().setting(result.run, "variant") != variant || depth().setting(result.run, "gain") != gain)
      continue;
    sum += math::log(std::max(1e-300, result.record.rows[static_cast<std::size_t>(layer)][1]));
    ++count;
  }
  return count > 0 ? math::exp(sum / count) : NAN;
}

// The least and the largest residual at a layer, of runs of that variant.
std::pair<double, double> range_of(const std::vector<Result>& results, const std::string& variant,
                                   Index layer) {
  double least = HUGE_VAL, most = 0;
  for (const Result& result : results) {
    if (depth().setting(result.run, "variant") != variant || depth().setting(result.run, "gain") != "1")
      continue;
    least = std::min(least, result.record.rows[static_cast<std::size_t>(layer)][1]);
    most = std::max(most, result.record.rows[static_cast<std::size_t>(layer)][1]);
  }
  return {least, most};
}

Figure collapse(const std::vector<Result>& results) {
  Figure figure{.id = "collapse", .title = "Tokens become one"};
  std::vector<show::Series> lines;
  ReportTable table{
      .title = "‖X − 1x̄‖ / ‖X‖ by depth: ours, the geometric mean over seeds, and the reference below"};
  table.columns = {"", "0", "1", "2", "3", "4", "6", "8", "12"};
  for (std::size_t v = 0; v < std::size(kVariants); ++v) {
    const Variant& variant = kVariants[v];
    for (const Result& result : results) {
      if (depth().setting(result.run, "variant") != variant.name ||
          depth().setting(result.run, "gain") != "1")
        continue;
      show::Series seed{.mark = show::Mark::thin, .color = static_cast<int>(v)};
      for (const auto& row : result.record.rows) seed.y.push_back(std::max(row[1], 1e-17));
      if (lines.size() < 60) lines.push_back(seed);
    }
    show::Series mean{.name = variant.title, .color = static_cast<int>(v)};
    for (Index layer = 0; layer <= kLayers; ++layer)
      if (const double r = typical(results, variant.name, "1", layer); !std::isnan(r))
        mean.y.push_back(std::max(r, 1e-17));
    if (mean.y.empty()) continue;
    lines.push_back(mean);
    std::vector<ReportCell> ours = {variant.title}, theirs = {"reference"};
    bool any_missed = false;
    for (std::size_t i = 0; i < std::size(kShown); ++i) {
      const double mine = typical(results, variant.name, "1", kShown[i]), reference = variant.reference[i];
      const auto range = range_of(results, variant.name, kShown[i]);
      theirs.push_back(reference > 0 ? fmt::format("{:.2g}", reference) : "");
      // A draw's course differs much from another's: the reference, one draw, should lie among ours.
      const bool missed = reference > 1e-3 && (reference > 1.1 * range.second || reference < range.first / 1.1);
      ours.push_back({fmt::format("{:.2g}", mine), missed}), any_missed |= missed;
    }
    if (any_missed)
      figure.misses.push_back(
          fmt::format("{}: the reference lies outside of our draws, where it is above 10⁻³.", variant.title));
    table.rows.push_back(ours), table.rows.push_back(theirs);
  }
  const show::PlotOptions options{.title = "Difference between tokens",
                                  .x_label = "layers",
                                  .y_label = "‖X − 1x̄‖ / ‖X‖",
                                  .log_y = true,
                                  .svg_width = 290,
                                  .svg_height = 260,
                                  .end_labels = true};
  figure.panels.push_back({show::svg_line_plot(lines, options), "Difference between tokens by depth", ""});
  figure.caption =
      "Attention alone makes all tokens the same within four layers, and each layer about cubes what is "
      "left: on this logarithmic axis the curve falls ever more steeply, down to the rounding of 64-bit "
      "numbers near 10⁻¹⁶. Unscaled scores, which are saturated, mix less and collapse later. Skip "
      "connections keep the tokens apart. Thin: single draws.";
  figure.references = {
      "Dong, Cordonnier & Loukas 2021, arXiv:2103.03404. Reference figures: an independent computation in "
      "another framework, one draw each."};
  figure.tables.push_back(table);
  return figure;
}

Figure phases(const std::vector<Result>& results) {
  Figure figure{.id = "phases", .title = "Too little, and too much"};
  std::vector<std::string> gains;
  for (const Result& result : results)
    if (const std::string gain = depth().setting(result.run, "gain");
        depth().setting(result.run, "variant") == "norm" &&
        std::find(gains.begin(), gains.end(), gain) == gains.end())
      gains.push_back(gain);
  std::sort(gains.begin(), gains.end(),
            [](const auto& a, const auto& b) { return std::stod(a) < std::stod(b); });
  if (gains.size() < 2) return figure;
  const auto rows = static_cast<Index>(gains.size());
  Tensor residuals({rows, kLayers + 1}, f64);
  show::Series entropy{.name = "entropy / ln n"}, kept{.name = "difference after 4 layers"};
  for (Index row = 0; row < rows; ++row) {
    const std::string& gain = gains[static_cast<std::size_t>(row)];
    for (Index layer = 0; layer <= kLayers; ++layer)
      residuals.set({row, layer}, std::max(-16.0, std::log10(typical(results, "norm", gain, layer))));
    double sum = 0;
    int count = 0;
    for (const Result& result : results)
      if (depth().setting(result.run, "variant") == "norm" && depth().setting(result.run, "gain") == gain)
        sum += result.record.rows[1][2], ++count;
    const double sigma = std::stod(gain) * std::stod(gain);
    entropy.x.push_back(sigma), entropy.y.push_back(sum / count);
    kept.x.push_back(sigma), kept.y.push_back(typical(results, "norm", gain, 4));
  }
  show::HeatMapOptions map{.title = "log₁₀ of the difference between tokens",
                           .row_label = "initial σ of the scores",
                           .column_label = "layers",
                           .low = -16,
                           .high = 0};
  for (const std::string& gain : gains)
    map.rows.push_back(fmt::format("{:.2g}", std::stod(gain) * std::stod(gain)));
  for (Index layer = 0; layer <= kLayers; ++layer) map.columns.push_back(std::to_string(layer));
  map.text = [&](Index row, Index layer) {
    const double x = residuals.at({row, layer});
    return x > -0.05 ? std::string("0") : fmt::format("{:.1f}", x);
  };
  figure.panels.push_back(
      {show::svg_heat_map(residuals, map), "Difference between tokens by depth and gain", ""});
  const std::vector<show::Series> lines = {entropy, kept};
  figure.panels.push_back({show::svg_line_plot(lines, {.title = "The trade",
                                                       .x_label = "initial σ of the scores",
                                                       .log_x = true,
                                                       .svg_width = 300,
                                                       .svg_height = 220,
                                                       .end_labels = true,
                                                       .y_range = {0, 1}}),
                           "Entropy and difference by sigma", ""});
  figure.caption =
      "Small scores average all tokens, which are then the same: rank collapse. Large ones look at a single "
      "key each, whose gradient vanishes: entropy collapse. No initial scale avoids both in a deep stack "
      "without skip connections.";
  figure.references = {
      "Giorlandino & Goldt 2025, arXiv:2505.24333: the two failures as phases of one model."};
  return figure;
}

Report report(const Request&, const std::vector<Result>& results) {
  Report page{.title = "Depth: what attention alone does to tokens", .question = depth().question};
  const double pure = typical(results, "pure", "1", 3), skip = typical(results, "skip", "1", 12);
  if (!std::isnan(pure) && !std::isnan(skip))
    page.headline = fmt::format(
        "After three layers of attention alone the tokens differ by {:.0e} of their size; with skip "
        "connections, by {:.2f} after twelve.",
        pure, skip);
  else
    page.headline = fmt::format("{} run{}; see the figures.", results.size(), results.size() == 1 ? "" : "s");
  page.figures.push_back(collapse(results));
  if (Figure second = phases(results); !second.panels.empty()) page.figures.push_back(std::move(second));
  page.method = fmt::format(
      "{} tokens of width {}, {} heads; all weights N(0, 1/width) but W_Q and W_K, which the gain "
      "multiplies, so that the scores' initial deviation σ is gain². Forward only, in 64-bit numbers.",
      kTokens, kWidth, kHeads);
  return page;
}

}  // namespace

const Study& depth() {
  static const Study study{
      .name = "depth",
      .question = "What does attention do to tokens, layer after layer?",
      .axes = {{"variant", "pure, norm, norm-raw, norm-1/d or skip", "norm", Numbers::none, variant_names()},
               {"gain", "of W_Q and W_K", "1", Numbers::positive},
               {"seed", "of the weights and the tokens", "1", Numbers::seed}},
      .columns = {"layer", "residual", "entropy"},
      .outcomes = {"residual_4", "residual_12", "collapsed_at", "entropy_1"},
      .plan = plan,
      .make = make,
      .draw = report,
  };
  return study;
}

}  // namespace attune::studies
