// What the initial sigma decides, what the number of keys changes, other normalisers, other learning rates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/studies/lookup.h"
#include "attune/examples/studies/saturation_figures.h"
#include "attune/examples/studies/saturation_reference.h"
#include "attune/examples/studies/saturation_results.h"
#include "attune/layers/saturation/theory.h"

namespace attune::studies {
namespace {

using namespace saturation_results;
using show::Mark;
using show::Series;

// ---- 4. Collapse onto sigma

struct Case {
  int width;
  const char *rule, *name;
};
constexpr Case kCases[] = {{32, "1/sqrt", "d = 32, 1/√d"},
                           {32, "1", "d = 32, unscaled"},
                           {128, "1/sqrt", "d = 128, 1/√d"},
                           {128, "1", "d = 128, unscaled"}};

std::map<double, std::vector<const Result*>> results_by_sigma(const Results& results, const Case& which) {
  std::map<double, std::vector<const Result*>> by_sigma;
  for (const Result* result :
       select(results, {{"d", std::to_string(which.width)}, {"rule", which.rule}}, {"seed", "gain"}))
    by_sigma[std::round(outcome(*result, "sigma0") * 1e3) / 1e3].push_back(result);
  return by_sigma;
}

// Ours and the reference, line by line.
ReportTable collapse_table(const Results& results) {
  ReportTable table{
      .title = "Steps of Adam to 0.9 within 600, by initial σ: ours (median), and the reference below (one seed)"};
  table.columns = {"", "0.1", "0.3", "1", "2", "2.63", "3.5", "5", "8", "12"};
  for (std::size_t k = 0; k < std::size(kCases); ++k) {
    const auto by_sigma = results_by_sigma(results, kCases[k]);
    std::vector<ReportCell> ours = {kCases[k].name}, theirs = {"reference"};
    for (std::size_t i = 0; i < std::size(reference::kCollapseSigmas); ++i) {
      const auto found = by_sigma.find(reference::kCollapseSigmas[i]);
      const double t90 = found == by_sigma.end() ? NAN : steps_to_learn(found->second),
                   reference = reference::kCollapse[k].steps[i];
      theirs.push_back(reference >= reference::kNever ? "–" : steps_text(reference));
      if (std::isnan(t90)) {
        ours.push_back("");
        continue;
      }
      // Near the cliff, where steps approach the limit of 600, whether a seed gets there is chance.
      const bool edge = reference > 400 && (t90 > 400 || !std::isfinite(t90));
      const bool missed = !edge && (std::isfinite(t90) != (reference < reference::kNever) ||
                                 (std::isfinite(t90) && std::abs(t90 / reference - 1) > 0.25));
      ours.push_back({std::isfinite(t90) ? steps_text(t90)
                                         : fmt::format("– ({:.2f})", median_outcome(found->second, "accuracy")),
                      missed});
    }
    table.rows.push_back(ours), table.rows.push_back(theirs);
  }
  return table;
}

}  // namespace

Figure collapse_figure(const Results& results) {
  Figure figure{.id = "collapse", .title = "Not the rule, not the width: the initial σ, and the length of a step"};
  std::vector<Series> steps, accuracies;
  for (std::size_t k = 0; k < std::size(kCases); ++k) {
    Series line{.name = kCases[k].name, .color = static_cast<int>(k)},
        dots{.mark = Mark::dots, .color = static_cast<int>(k)};
    Series end{.name = kCases[k].name, .color = static_cast<int>(k)};
    const auto by_sigma = results_by_sigma(results, kCases[k]);
    for (const auto& [sigma, chosen] : by_sigma) {
      if (sigma > 15) continue;
      const double t90 = steps_to_learn(chosen);
      line.x.push_back(sigma), line.y.push_back(std::isfinite(t90) ? t90 : NAN);
      for (const Result* result : chosen) dots.x.push_back(sigma), dots.y.push_back(outcome(*result, "t90"));
      end.x.push_back(sigma), end.y.push_back(median_outcome(chosen, "accuracy"));
    }
    if (!line.y.empty()) steps.push_back(line), steps.push_back(dots), accuracies.push_back(end);
  }
  if (steps.empty()) return figure;
  const std::vector<show::Guide> guide = {{theory::freezing_point(32), "σc = √(2 ln 32)"}};
  figure.panels.push_back({show::svg_line_plot(steps, {.title = "Steps to 0.9",
                                                       .x_label = "initial σ = gain² · scale · √d",
                                                       .y_label = "steps",
                                                       .log_x = true,
                                                       .log_y = true,
                                                       .svg_width = 290,
                                                       .svg_height = 250,
                                                       .end_labels = true,
                                                       .y_range = {30, 600},
                                                       .guides = guide,
                                                       .x_ticks = {0.1, 0.3, 1, 2, 4, 8}}),
                           "Steps to 0.9 by initial sigma", ""});
  figure.panels.push_back({show::svg_line_plot(accuracies, {.title = "Accuracy at the end",
                                                            .x_label = "initial σ",
                                                            .y_label = "accuracy after 600 steps",
                                                            .log_x = true,
                                                            .svg_width = 290,
                                                            .svg_height = 250,
                                                            .end_labels = true,
                                                            .y_range = {0, 1},
                                                            .guides = guide,
                                                            .x_ticks = {0.1, 0.3, 1, 2, 4, 8}}),
                           "Accuracy at the end by initial sigma", ""});
  figure.caption =
      "The same heads with other initial gains, by the deviation that their scores have at first. Scaled and "
      "unscaled heads fall off the same cliff; below it “unscaled” trains even a little faster than 1/√d, "
      "for its steps are longer. So the factor matters through the initial σ and the size of a step, and "
      "through nothing else. A line ends where 600 steps are not enough; dots are seeds.";
  figure.references = {std::string(kReference) +
                       " The dotted line is where a random row freezes. That the cliff stands near it at n = "
                       "32 is no law: with 4 keys training works far above σc, with 128 it fails below."};
  ReportTable table = collapse_table(results);
  if (const std::size_t missed = table.missed(); missed > 0)
    figure.misses.push_back(fmt::format("{} medians, in red, differ from the reference by more than a quarter.", missed));
  figure.tables.push_back(std::move(table));
  return figure;
}

// ---- 6. Number of keys; normalisers; rates

Figure keys_figure(const Results& results) {
  Figure figure{.id = "keys", .title = "What the freezing point does not predict"};
  std::map<double, std::map<double, std::vector<const Result*>>> cells;  // n, sigma
  for (const Result* result : select(results, {{"rule", "1/sqrt"}}, {"n", "gain", "seed", "steps"}))
    cells[number(*result, "n")][std::round(outcome(*result, "sigma0") * 100) / 100].push_back(result);
  if (cells.size() < 2) return figure;
  const std::vector<double> sigmas = {1, 2, 4, 8};
  Tensor steps({static_cast<Index>(cells.size()), 4}, f64);
  std::vector<std::string> texts;
  std::vector<char> never, there;
  show::HeatMapOptions map{
      .title = "Steps to 0.9", .column_label = "initial σ", .low = -3, .high = -1.2, .legend = false};
  Index row = 0;
  for (const auto& [n, by_sigma] : cells) {
    map.rows.push_back(fmt::format("n = {:.0f}, σc = {:.2f}", n, theory::freezing_point(static_cast<Index>(n))));
    for (Index column = 0; column < 4; ++column) {
      const auto found = by_sigma.find(sigmas[static_cast<std::size_t>(column)]);
      const double t90 = found == by_sigma.end() ? NAN : steps_to_learn(found->second);
      there.push_back(found != by_sigma.end()), never.push_back(!std::isnan(t90) && !std::isfinite(t90));
      texts.push_back(std::isnan(t90)      ? ""
                      : std::isfinite(t90) ? steps_text(t90)
                                           : fmt::format("{:.2f}", median_outcome(found->second, "accuracy")));
      steps.set({row, column}, std::isfinite(t90) ? -std::log10(std::max(1.0, t90)) : -3);
    }
    ++row;
  }
  const auto at = [](Index r, Index c) { return static_cast<std::size_t>(r * 4 + c); };
  map.columns = {"1", "2", "4", "8"};
  map.text = [&](Index r, Index c) { return texts[at(r, c)]; };
  map.hatched = [&](Index r, Index c) { return never[at(r, c)] != 0; };
  map.shown = [&](Index r, Index c) { return there[at(r, c)] != 0; };
  figure.panels.push_back({show::svg_heat_map(steps, map), "Steps to 0.9 by number of keys and initial sigma", ""});
  figure.caption =
      "It is tempting to say that training fails beyond σc = √(2 ln n), where random rows freeze. It does "
      "not: with 4 keys it still works far above σc, for a wrong guess among four is soon unlearned. σc "
      "describes a row before training, not what becomes of it. (With more than 32 keys there are 2n symbols "
      "instead of 64.)";
  return figure;
}

Figure normaliser_figure(const Results& results) {
  Figure figure{.id = "normalisers", .title = "Other normalisers"};
  if (values_of(results, "training", "normaliser").size() < 2) return figure;
  ReportTable table{.title = "Steps to 0.9, each seed (– never, with the accuracy at the end), and rows at the start"};
  table.columns = {"normaliser", "rule", "steps", "entropy at first", "median ‖J‖F at first", "stuck at the end"};
  for (const std::string rule : {"1/sqrt", "1"}) {
    std::vector<Series> lines;
    int color = 0;
    for (const std::string& normaliser : normaliser_names()) {
      const auto chosen = select(results, {{"normaliser", normaliser}, {"rule", rule}});
      if (chosen.empty()) continue;
      add_courses(lines, chosen, "accuracy", normaliser, color++);
      table.rows.push_back({normaliser, rule_title(rule), steps_of_seeds(chosen),
                            fmt::format("{:.3f}", median_outcome(chosen, "entropy")),
                            fmt::format("{:.3g}", median_outcome(chosen, "jacobian_median")),
                            fmt::format("{:.2f}", median_outcome(chosen, "stuck_last"))});
    }
    figure.panels.push_back({show::svg_line_plot(lines, {.title = rule_title(rule) + ", Adam, d = 128",
                                                         .x_label = "steps",
                                                         .y_label = "accuracy",
                                                         .log_x = true,
                                                         .svg_width = 300,
                                                         .svg_height = 230,
                                                         .end_labels = true,
                                                         .x_range = {1, 600},
                                                         .y_range = {0, 1},
                                                         .x_ticks = {1, 10, 100, 600}}),
                             "Accuracy by normaliser, " + rule_title(rule), ""});
  }
  figure.caption =
      "softmax1 adds one score of 0 whose weight is lost; sigmoid gates each key for itself, with a bias of "
      "−ln n. Sparsemax and entmax give keys a weight of exactly 0, and a row that has one key left has a "
      "gradient of exactly 0: they saturate harder than softmax, at scores of deviation 1 already.";
  figure.references = {
      "Miller 2023; Ramapuram et al. 2024, arXiv:2409.04431; Martins & Astudillo 2016, arXiv:1602.02068; "
      "Peters et al. 2019, arXiv:1905.05702."};
  figure.tables.push_back(std::move(table));
  return figure;
}

Figure rates_figure(const Results& results) {
  Figure figure{.id = "rates", .title = "Learning rates"};
  std::vector<Series> lines;
  int color = 0;
  for (const std::string& rule : rule_names()) {
    std::map<double, std::vector<double>> losses;
    for (const Result* result : select(results, {{"d", "32"}, {"rule", rule}}, {"lr", "seed"})) {
      const std::string lr = setting(*result, "lr");
      losses[lr == "auto" ? 1e-3 : std::stod(lr)].push_back(outcome(*result, "loss_last"));
    }
    if (losses.size() < 3) continue;
    Series line{.name = rule_title(rule), .color = color++};
    for (const auto& [lr, its] : losses) line.x.push_back(lr), line.y.push_back(std::max(1e-6, median(its)));
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return figure;
  figure.panels.push_back({show::svg_line_plot(lines, {.title = "Loss at the end, d = 32",
                                                       .x_label = "learning rate of Adam",
                                                       .y_label = "loss",
                                                       .log_x = true,
                                                       .log_y = true,
                                                       .svg_width = 420,
                                                       .svg_height = 260,
                                                       .end_labels = true}),
                           "Loss at the end by learning rate", ""});
  figure.caption =
      "A rule is robust where its line stays low over many rates. Normalised queries and keys bear ten times "
      "the rate that others do.";
  figure.references = {"Wortsman et al. 2023, arXiv:2309.14322."};
  return figure;
}

}  // namespace attune::studies
