#include "attune/examples/studies/saturation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/examples/studies/lookup.h"
#include "attune/layers/saturation/monte_carlo.h"
#include "attune/layers/saturation/theory.h"
#include "attune/lib/math.h"

namespace attune::studies {
namespace {

using Words = std::vector<std::string>;

// ---- One run. Three kinds: rows drawn at random, gradients drawn at random, a head in training.

// Of draws that no other run sees.
std::uint64_t own_seed(const Run& run) {
  return Rng(saturation().seed(run)).split(run.key()).stream();
}

Record draw_rows_of(const Run& run) {
  const Study& study = saturation();
  const double sigma = study.number(run, "sigma");
  const auto keys = static_cast<Index>(study.number(run, "n"));
  const auto rows = draw_rows({.sigma = sigma,
                               .keys = keys,
                               .rows = static_cast<Index>(study.number(run, "rows")),
                               .seed = own_seed(run)});
  const Sample entropy(rows, &RowStatistics::normalized_entropy), squares(rows, &RowStatistics::sum_squares);
  const Sample trace(rows, &RowStatistics::trace), largest(rows, &RowStatistics::max_weight);
  const Sample jacobian(rows, &RowStatistics::frobenius), spectral(rows, &RowStatistics::spectral);
  Record record;
  record.outcomes.assign(saturation().outcomes.size(), NAN);
  const auto set = [&](const std::string& name, double value) {
    record.outcomes[static_cast<std::size_t>(std::find(study.outcomes.begin(), study.outcomes.end(), name) -
                                             study.outcomes.begin())] = value;
  };
  set("sigma0", sigma), set("entropy", entropy.mean()), set("sum_squares", squares.mean());
  set("max_weight", largest.mean()), set("spectral", spectral.mean()), set("dead", jacobian.below(1e-3));
  set("jacobian_mean", jacobian.mean()), set("jacobian_median", jacobian.median());
  set("jacobian_p10", jacobian.quantile(0.1));
  record.extras.emplace_back(
      "errors",
      std::vector<double>{entropy.standard_error(), squares.standard_error(), trace.standard_error(),
                          largest.standard_error(), jacobian.standard_error(), spectral.standard_error()});
  record.extras.emplace_back("trace", std::vector<double>{trace.mean()});
  return record;
}

double scale_of_rule(const std::string& rule, double width) {
  if (rule == "1") return 1;
  if (rule == "1/sqrt") return 1 / std::sqrt(width);
  check(rule == "1/d", "study saturation: kind=gradient has the rules 1, 1/sqrt and 1/d, not {}", rule);
  return 1 / width;
}

Record draw_gradients_of(const Run& run) {
  const Study& study = saturation();
  const double width = study.number(run, "d");
  const Sample norms = draw_query_gradients({.width = static_cast<Index>(width),
                                             .scale = scale_of_rule(study.setting(run, "rule"), width),
                                             .keys = static_cast<Index>(study.number(run, "n")),
                                             .rows = static_cast<Index>(study.number(run, "rows")),
                                             .seed = own_seed(run)});
  Record record;
  record.outcomes.assign(study.outcomes.size(), NAN);
  const auto first = static_cast<std::size_t>(
      std::find(study.outcomes.begin(), study.outcomes.end(), "gradient_mean") - study.outcomes.begin());
  const double values[] = {norms.mean(), norms.root_mean_square(), norms.median(), norms.quantile(0.1),
                           norms.quantile(0.9)};
  std::copy(std::begin(values), std::end(values),
            record.outcomes.begin() + static_cast<std::ptrdiff_t>(first));
  record.extras.emplace_back("errors", std::vector<double>{norms.standard_error()});
  // The median's and the 10th percentile's standard errors, of their logarithms, as if 2000 rows had been
  // drawn.
  const auto spread = [&](double q) {
    const double step = std::sqrt(q * (1 - q) / 2000);
    return (math::log(norms.quantile(q + step)) - math::log(norms.quantile(q - step))) / 2;
  };
  record.extras.emplace_back("spread", std::vector<double>{spread(0.5), spread(0.1)});
  const double squared = theory::expected_query_gradient_squared(
      static_cast<Index>(width), static_cast<Index>(width), scale_of_rule(study.setting(run, "rule"), width),
      static_cast<Index>(study.number(run, "n")));
  record.extras.emplace_back("exact_rms", std::vector<double>{std::sqrt(squared)});
  return record;
}

LookupOptions options_of(const Run& run) {
  const Study& study = saturation();
  const std::string lr = study.setting(run, "lr");
  const bool adam = study.setting(run, "optimizer") == "adam";
  return {.width = static_cast<Index>(study.number(run, "d")),
          .rule = rule_of(study.setting(run, "rule")),
          .gain = study.number(run, "gain"),
          .normaliser = normaliser_of(study.setting(run, "normaliser")),
          .keys = static_cast<Index>(study.number(run, "n")),
          .adam = adam,
          .lr = lr == "auto" ? (adam ? 1e-3 : 1.0) : study.number(run, "lr"),
          .steps = static_cast<Index>(study.number(run, "steps")),
          .seed = study.seed(run),
          .keep_maps = study.setting(run, "maps") == "yes"};
}

Record train(const Run& run, const std::function<void(double)>& progress) {
  const LookupOptions options = options_of(run);
  const LookupRun made = run_lookup(options, progress);
  Record record;
  for (const LookupMeasurement& m : made.measurements)
    record.rows.push_back({static_cast<double>(m.step),
                           m.loss,
                           m.accuracy,
                           m.running_accuracy,
                           m.right_weight,
                           m.dead,
                           m.stuck,
                           m.entropy.p10,
                           m.entropy.median,
                           m.entropy.p90,
                           m.max_weight.p10,
                           m.max_weight.median,
                           m.max_weight.p90,
                           m.jacobian.p10,
                           m.jacobian.median,
                           m.jacobian.p90,
                           m.query_gradient.p10,
                           m.query_gradient.median,
                           m.query_gradient.p90,
                           m.query_gradient.mean,
                           m.max_logit,
                           m.logit_deviation,
                           m.scale,
                           m.gradient_q,
                           m.gradient_k,
                           m.update_q});
  const LookupMeasurement &first = made.measurements.front(), &last = made.measurements.back();
  record.outcomes = {made.reached < 0 ? NAN : static_cast<double>(made.reached),
                     made.last_accuracy,
                     static_cast<double>(last.step),
                     options.sigma(),
                     first.entropy.mean,
                     first.dead,
                     first.jacobian.mean,
                     first.jacobian.median,
                     first.jacobian.p10,
                     NAN,
                     first.max_weight.mean,
                     NAN,
                     first.query_gradient.mean,
                     NAN,
                     first.query_gradient.median,
                     first.query_gradient.p10,
                     first.query_gradient.p90,
                     last.entropy.mean,
                     last.dead,
                     last.stuck,
                     last.max_logit,
                     last.loss};
  for (const LookupMap& map : made.maps) {
    std::vector<double> numbers = {static_cast<double>(map.step)};
    for (const double w : map.weights) numbers.push_back(std::round(w * 1e4) / 1e4);
    record.extras.emplace_back("map", numbers);
  }
  return record;
}

Record make(const Run& run, const std::function<void(double)>& progress) {
  const std::string kind = saturation().setting(run, "kind");
  if (kind == "rows") return draw_rows_of(run);
  if (kind == "gradient") return draw_gradients_of(run);
  return train(run, progress);
}

// ---- The plan

// Seconds on one core. Of a training run, its steps until it has learned (about; all of them where it
// cannot), and the 26 measurements in f64.
double estimate(const Run& run) {
  const Study& study = saturation();
  const std::string kind = study.setting(run, "kind");
  const double n = study.number(run, "n"), rows = study.number(run, "rows");
  if (kind == "rows") return 1e-3 + rows * n * 5e-8;
  if (kind == "gradient") return 0.15 + rows * n * 6e-8;
  const LookupOptions options = options_of(run);
  const double d = study.number(run, "d"), sigma = options.sigma(),
               steps = static_cast<double>(options.steps);
  const double learned = std::min(steps, options.adam ? 11000 / d * (sigma > 1.4 ? 1.6 : 1) : 4500 / d + 60);
  const bool all = options.keep_maps || sigma > 3 || options.rule == Rule::softcap_10_raw;
  const double per_step = 2.2e-4 + 2.2e-6 * d + 1.2e-8 * d * d + 3e-6 * n, per_measurement = 4 * per_step;
  return (all ? steps : learned) * per_step + 30 * (all ? 1 : learned / steps) * per_measurement;
}

void add(std::vector<Run>& runs, const AxisValues& values) {
  for (Run& run : product(values)) runs.push_back(std::move(run));
}

Words seeds(int count) {
  Words list;
  for (int seed = 1; seed <= count; ++seed) list.push_back(std::to_string(seed));
  return list;
}

// The exact theory, and our draws beside it.
void add_theory(std::vector<Run>& runs, Size size) {
  const bool quick = size == Size::quick;
  const Words sigmas = quick ? Words{"0.5", "1", "2", "4", "8", "16", "32"}
                             : Words{"0.5", "1", "1.4142", "2", "2.8284", "4", "5.6569", "8", "16", "32"};
  add(runs, {{"kind", {"rows"}},
             {"n", quick ? Words{"8", "32", "128"} : Words{"2", "8", "32", "128", "1024"}},
             {"sigma", sigmas},
             {"rows", {quick ? "2000" : "10000"}}});
  add(runs, {{"kind", {"gradient"}},
             {"rule", {"1", "1/sqrt", "1/d"}},
             {"d", {"4", "16", "64", "256", "1024"}},
             {"rows",
              {size == Size::full ? "100000"
               : quick            ? "4000"
                                  : "20000"}}});
}

// The gain that gives scores the deviation sigma.
std::string gain_for(double sigma, const std::string& width, const std::string& rule) {
  const double d = std::stod(width);
  return fmt::format("{:.6g}", std::sqrt(sigma / (scale_of_rule(rule, d) * std::sqrt(d))));
}

// Everything that gives scores the same deviation at first, whatever the rule and the width.
void add_collapse(std::vector<Run>& runs, Size size) {
  const bool quick = size == Size::quick;
  const std::vector<double> sigmas = quick ? std::vector<double>{.3, 1, 2, 2.63, 3.5, 8}
                                           : std::vector<double>{.1, .3, 1, 2, 2.63, 3.5, 5, 8, 12};
  for (const std::string width : {"32", "128"})
    for (const std::string rule : {"1/sqrt", "1"})
      for (const double sigma : sigmas) {
        const std::string gain = gain_for(sigma, width, rule);
        if (gain != "1")
          add(runs, {{"d", {width}},
                     {"rule", {rule}},
                     {"gain", {gain}},
                     {"seed", seeds(quick                ? 1
                                    : size == Size::full ? 10
                                                         : 3)}});
      }
}

void add_training(std::vector<Run>& runs, Size size) {
  if (size == Size::quick) {
    const AxisValues rest = {
        {"rule", {"1", "1/sqrt", "1/d", "qknorm"}}, {"optimizer", {"adam", "sgd"}}, {"seed", seeds(3)}};
    for (const auto& [d, steps] : {std::pair("8", "1500"), std::pair("32", "600"), std::pair("128", "600")}) {
      AxisValues values = {{"d", {d}}, {"steps", {steps}}};
      values.insert(values.end(), rest.begin(), rest.end());
      add(runs, values);
    }
  } else {
    const bool full = size == Size::full;
    const Words few = {"1", "1/sqrt", "1/d", "qknorm"};
    // Narrow heads need more steps, wide ones have longer steps.
    const auto sweep = [&](const std::string& d, const std::string& steps) {
      AxisValues values = {{"d", {d}}, {"rule", rule_names()}, {"seed", seeds(full ? 10 : 5)}};
      if (steps != "600") values.emplace_back("steps", Words{steps});
      add(runs, values);
      values[1].second = full ? rule_names() : few;
      values.insert(values.begin() + 2, {"optimizer", {"sgd"}});
      add(runs, values);
    };
    for (const std::string d : {"4", "8", "16"})
      if (full || d != "4") sweep(d, "1500");
    sweep("32", "600"), sweep("64", "600"), sweep("128", "600"), sweep("256", full ? "600" : "300");
    if (full) sweep("512", "200");
  }
  add(runs, {{"d", {"128"}}, {"rule", {"1", "1/sqrt"}}, {"maps", {"yes"}}});
}

void add_rest(std::vector<Run>& runs, Size size) {
  if (size == Size::quick) return;
  const int count = size == Size::full ? 10 : 5;
  add(runs, {{"normaliser", {"softmax1", "sigmoid", "sparsemax", "entmax15"}},
             {"rule", {"1", "1/sqrt"}},
             {"seed", seeds(count)}});
  for (const double sigma : {1.0, 2.0, 4.0, 8.0})  // with n = 32 at sigma = 1 as above
    for (const std::string n : {"4", "16", "32", "128"})
      if (n != "32" || sigma > 1) {
        if (n == "32" && (sigma == 2 || sigma == 8)) continue;  // part of the collapse
        AxisValues values = {{"rule", {"1/sqrt"}}, {"n", {n}}, {"seed", seeds(size == Size::full ? 10 : 3)}};
        if (sigma > 1) values.insert(values.begin() + 1, {"gain", {gain_for(sigma, "128", "1/sqrt")}});
        if (n == "32") values.erase(values.begin() + 2);
        add(runs, values);
      }
  if (size == Size::full)
    add(runs, {{"d", {"32"}},
               {"rule", {"1", "1/sqrt", "1/d", "8/d", "qknorm", "softcap15"}},
               {"lr", {"0.003", "0.01", "0.03", "0.1", "0.3"}},
               {"seed", seeds(5)}});
}

// Without the settings that are as usual, so that a run has one name, whichever sweep it is part of.
Run plain(const Run& run) {
  Run plain{{}, run.seconds};
  for (const Axis& axis : saturation().axes)
    if (const std::string value = saturation().setting(run, axis.name); value != axis.usual)
      plain.settings.emplace_back(axis.name, value);
  return plain;
}

// Before the first run, not in the middle of them.
void refuse_what_there_is_not(const Run& run) {
  const std::string kind = saturation().setting(run, "kind");
  if (kind == "training") options_of(run);
  if (kind == "gradient") scale_of_rule(saturation().setting(run, "rule"), 1);
}

std::vector<Run> plan(const Request& request) {
  std::vector<Run> wanted, runs;
  const auto names_kind = [](const auto& axis) { return axis.first == "kind"; };
  if (std::none_of(request.axes.begin(), request.axes.end(), names_kind)) add_theory(wanted, request.size);
  if (request.axes.empty()) {
    add_training(wanted, request.size);
    add_collapse(wanted, request.size);
    add_rest(wanted, request.size);
  } else {
    add(wanted, request.axes);
  }
  for (const Run& run : wanted) {
    Run one = plain(run);
    refuse_what_there_is_not(one);
    one.seconds = estimate(one);
    const auto same = [&](const Run& other) { return other.settings == one.settings; };
    if (std::none_of(runs.begin(), runs.end(), same)) runs.push_back(std::move(one));
  }
  return runs;
}

}  // namespace

const Study& saturation() {
  static const Study study{
      .name = "saturation",
      .question =
          "When does softmax let no gradient through, and what does dividing by √d have to do with it?",
      .axes = {{"kind",
                "rows: of random scores; gradient: at random queries; training: of a head on the lookup task",
                "training", Numbers::none, {"rows", "gradient", "training"}},
               {"d", "width of queries and keys", "128", Numbers::whole},
               {"rule", "what is done to q·k", "1/sqrt", Numbers::none, rule_names()},
               {"gain", "of the initial W_Q and W_K", "1", Numbers::positive},
               {"n", "keys of an example", "32", Numbers::whole, {}, 2},
               {"normaliser", "what makes weights of scores", "softmax", Numbers::none, normaliser_names()},
               {"optimizer", "adam, or sgd without momentum", "adam", Numbers::none, {"adam", "sgd"}},
               {"lr", "its rate; auto: 0.001 for adam, 1 for sgd", "auto", Numbers::positive, {"auto"}},
               {"steps", "at most", "600", Numbers::whole},
               {"maps", "whether attention is kept to be drawn, and training goes to the last step", "no",
                Numbers::none, {"yes", "no"}},
               {"sigma", "deviation of the scores, of kind=rows", "1", Numbers::positive},
               {"rows", "drawn, of the kinds rows and gradient", "10000", Numbers::whole},
               {"seed", "of everything random", "1", Numbers::seed}},
      .columns = {"step",
                  "loss",
                  "accuracy",
                  "running_accuracy",
                  "right_weight",
                  "dead",
                  "stuck",
                  "entropy_p10",
                  "entropy_median",
                  "entropy_p90",
                  "max_weight_p10",
                  "max_weight_median",
                  "max_weight_p90",
                  "jacobian_p10",
                  "jacobian_median",
                  "jacobian_p90",
                  "gradient_p10",
                  "gradient_median",
                  "gradient_p90",
                  "gradient_mean",
                  "max_logit",
                  "logit_deviation",
                  "scale",
                  "gradient_wq",
                  "gradient_wk",
                  "update_wq"},
      .outcomes = {"t90",           "accuracy",        "steps_made",
                   "sigma0",        "entropy",         "dead",
                   "jacobian_mean", "jacobian_median", "jacobian_p10",
                   "sum_squares",   "max_weight",      "spectral",
                   "gradient_mean", "gradient_rms",    "gradient_median",
                   "gradient_p10",  "gradient_p90",    "entropy_last",
                   "dead_last",     "stuck_last",      "max_logit_last",
                   "loss_last"},
      .plan = plan,
      .make = make,
      .draw = saturation_report,
  };
  return study;
}

}  // namespace attune::studies
