// A head that learns to look up, or does not: its accuracy, its steps by width and rule, what happens inside of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/studies/lookup.h"
#include "attune/examples/studies/saturation_figures.h"
#include "attune/examples/studies/saturation_reference.h"
#include "attune/examples/studies/saturation_results.h"

namespace attune::studies {
namespace {

using namespace saturation_results;
using show::Mark;
using show::Series;

// ---- Accuracy

}  // namespace

Figure accuracy_figure(const Results& results) {
  const std::string d = main_width(results);
  Figure figure{.id = "learning", .title = "One head learns to look up, or does not"};
  figure.lead =
      "The task: given 32 keys, each with a value, and one of the keys as a query, say its value. One head "
      "of attention has to find the key; all that it learns goes through one softmax.";
  for (const std::string optimizer : {"adam", "sgd"}) {
    std::vector<Series> lines;
    double longest = 0;
    int color = 0;
    for (const std::string rule : {"1/sqrt", "1", "1/d", "qknorm"}) {
      const auto chosen = select(results, {{"d", d}, {"rule", rule}, {"optimizer", optimizer}});
      if (!chosen.empty()) add_courses(lines, chosen, "accuracy", rule_title(rule), color);
      ++color;
      for (const Result* result : chosen) longest = std::max(longest, outcome(*result, "steps_made"));
    }
    if (lines.empty()) continue;
    // On a logarithmic axis fast and slow rules are both seen; the first measurement, before step 0, is
    // left of it.
    figure.panels.push_back(
        {show::svg_line_plot(lines, {.title = fmt::format("{}, d = {}", optimizer_title(optimizer), d),
                                     .x_label = "steps",
                                     .y_label = "accuracy on examples not trained on",
                                     .log_x = true,
                                     .svg_width = 300,
                                     .svg_height = 240,
                                     .end_labels = true,
                                     .x_range = {1, longest},
                                     .y_range = {0, 1},
                                     .x_ticks = {1, 10, 100, longest}}),
         "Accuracy by step, " + optimizer, ""});
  }
  const auto scaled = select(results, {{"d", d}, {"rule", "1/sqrt"}}), raw = select(results, {{"d", d}, {"rule", "1"}});
  if (!scaled.empty() && !raw.empty())
    figure.caption = fmt::format(
        "Thin: seeds; thick: their median. With Adam 1/√d needs {} steps to an accuracy of 0.9 and unscaled "
        "scores {} (accuracy at the end {:.2f}). A line that ends early has learned all there is.",
        steps_text(steps_to_learn(scaled)),
        std::isfinite(steps_to_learn(raw)) ? "need " + steps_text(steps_to_learn(raw)) : "never get there",
        median_outcome(raw, "accuracy"));
  figure.references = {"Steps are compared with the reference in the table below the next figure."};
  return figure;
}

namespace {

// ---- Steps, by width and rule

// Width by rule; each cell leads to its curves.
Panel steps_map(const Results& results, const Words& widths, const std::string& optimizer) {
  Words rules;
  for (const std::string& rule : rule_names())
    if (std::any_of(widths.begin(), widths.end(), [&](const auto& d) {
          return !select(results, {{"d", d}, {"rule", rule}, {"optimizer", optimizer}}).empty();
        }))
      rules.push_back(rule);
  Tensor steps({static_cast<Index>(rules.size()), static_cast<Index>(widths.size())}, f64);
  std::vector<std::string> texts;
  std::vector<char> there, never;
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const auto chosen = select(results, {{"d", widths[c]}, {"rule", rules[r]}, {"optimizer", optimizer}});
      const double t90 = chosen.empty() ? NAN : steps_to_learn(chosen);
      there.push_back(!chosen.empty()), never.push_back(!chosen.empty() && !std::isfinite(t90));
      texts.push_back(chosen.empty()       ? ""
                      : std::isfinite(t90) ? steps_text(t90)
                                           : fmt::format("{:.2f}", median_outcome(chosen, "accuracy")));
      // Fast is bright.
      steps.set({static_cast<Index>(r), static_cast<Index>(c)},
                std::isfinite(t90) ? -std::log10(std::max(t90, 1.0)) : -3.2);
    }
  const auto at = [&, columns = widths.size()](Index row, Index column) {
    return static_cast<std::size_t>(row) * columns + static_cast<std::size_t>(column);
  };
  show::HeatMapOptions map{.title = optimizer_title(optimizer),
                           .column_label = "d, width of queries and keys",
                           .low = -3.2,
                           .high = -1.2,
                           .legend = false};
  for (const std::string& rule : rules) map.rows.push_back(rule_title(rule));
  map.columns = widths;
  map.shown = [&](Index row, Index column) { return there[at(row, column)] != 0; };
  map.hatched = [&](Index row, Index column) { return never[at(row, column)] != 0; };
  map.text = [&](Index row, Index column) { return texts[at(row, column)]; };
  map.link = [&](Index row, Index column) {
    return there[at(row, column)]
               ? "#" + anchor(optimizer, widths[static_cast<std::size_t>(column)], rules[static_cast<std::size_t>(row)])
               : std::string();
  };
  return {show::svg_heat_map(steps, map), "Steps to an accuracy of 0.9, " + optimizer, "steps-" + optimizer};
}

ReportTable steps_table(const Results& results) {
  ReportTable table{.title = "Steps to 0.9, ours / reference (– never, with the accuracy at the end)"};
  table.columns = {"optimizer", "rule", "d", "ours, each seed", "median", "reference"};
  for (const reference::Steps& row : reference::kSteps) {
    const auto chosen =
        select(results, {{"d", std::to_string(row.width)}, {"rule", row.rule}, {"optimizer", row.optimizer}});
    if (chosen.empty()) continue;
    const double ours = steps_to_learn(chosen);
    // Seeds differ by a tenth of the steps, and so may two medians of few.
    const bool good = row.low >= reference::kNever
                          ? !std::isfinite(ours)
                          : ours > 0.8 * row.low && (row.high >= reference::kNever || ours < 1.2 * row.high);
    const std::string theirs =
        row.low >= reference::kNever ? "never"
        : row.low == row.high
            ? steps_text(row.low)
            : fmt::format("{:.0f} … {}", row.low, row.high >= reference::kNever ? "never" : steps_text(row.high));
    table.rows.push_back({optimizer_title(row.optimizer), rule_title(row.rule), std::to_string(row.width),
                          steps_of_seeds(chosen), {steps_text(ours), !good}, theirs});
  }
  return table;
}

}  // namespace

Figure heat_figure(const Results& results) {
  Figure figure{.id = "steps", .title = "Steps to learn, by width and rule"};
  const Words widths = by_number(values_of(results, "training", "d"));
  for (const std::string optimizer : {"adam", "sgd"}) {
    if (std::any_of(results.begin(), results.end(), [&](const Result& result) {
          return setting(result, "kind") == "training" && setting(result, "optimizer") == optimizer;
        }))
      figure.panels.push_back(steps_map(results, widths, optimizer));
  }
  figure.caption =
      "Each number: steps until the running accuracy is 0.9, the median over seeds; brighter is faster. "
      "Hatched: never, with the accuracy at the end instead. A click on a cell leads to its curves.";

  ReportTable table = steps_table(results);
  figure.references = {std::string(kReference) +
                       " Both count the first step at which an exponential average (0.9) of the batches' "
                       "accuracy reaches 0.9."};
  if (const std::size_t missed = table.missed(); missed > 0)
    figure.misses.push_back(
        fmt::format("{} of {} medians (red in the table) lie more than a fifth outside of the reference's range.",
                    missed, table.rows.size()));
  figure.tables.push_back(std::move(table));
  return figure;
}

// ---- Inside

Figure inside_figure(const Results& results) {
  const std::string d = main_width(results);
  Figure figure{.id = "inside", .title = "What happens inside: dead rows, and stuck ones"};
  struct Quantity {
    const char *column, *title, *label;
    bool logarithmic;
  };
  constexpr Quantity quantities[] = {{"entropy_median", "Entropy of the median row", "H / ln n", false},
                                     {"stuck", "Rows stuck on a wrong key", "share of rows", false},
                                     {"gradient_median", "Gradient at the median query", "‖dL/dq‖", true}};
  for (const Quantity& quantity : quantities) {
    std::vector<Series> lines;
    int color = 0;
    for (const std::string rule : {"1/sqrt", "1", "1/d"}) {
      const auto chosen = select(results, {{"d", d}, {"rule", rule}});
      if (!chosen.empty()) add_courses(lines, chosen, quantity.column, rule_title(rule), color);
      ++color;
    }
    if (lines.empty()) continue;
    if (quantity.logarithmic)
      for (Series& line : lines)
        for (double& y : line.y) y = std::max(y, 1e-16);
    figure.panels.push_back({show::svg_line_plot(lines, {.title = quantity.title,
                                                         .x_label = fmt::format("steps of Adam, d = {}", d),
                                                         .y_label = quantity.label,
                                                         .log_x = true,
                                                         .log_y = quantity.logarithmic,
                                                         .svg_width = 200,
                                                         .svg_height = 210,
                                                         .end_labels = true,
                                                         .x_range = {1, 600},
                                                         .y_range = quantity.logarithmic ? std::vector<double>{}
                                                                                         : std::vector<double>{0, 1},
                                                         .x_ticks = {1, 10, 100, 600}}),
                             quantity.title, ""});
  }
  figure.caption =
      "A row whose Jacobian is below 10⁻³ is dead; dead and on the key that was asked for is how success "
      "looks, too. What cannot be mended is a row that is dead while it looks at a wrong key: stuck. "
      "(Gradients below 10⁻¹⁶ are drawn there.)";
  return figure;
}

Figure strips_figure(const Results& results) {
  Figure figure{.id = "strips", .title = "Sixteen rows of attention, at four moments", .small_panels = true};
  for (const std::string rule : {"1/sqrt", "1"})
    for (const Result* result : select(results, {{"d", main_width(results)}, {"rule", rule}, {"maps", "yes"}}))
      for (const auto& [name, numbers] : result->record.extras) {
        if (name != "map" || setting(*result, "seed") != "1") continue;
        const Index columns = static_cast<Index>(numbers.size() - 1) / kMapRows;
        Tensor map({kMapRows, columns}, f64);
        std::copy(numbers.begin() + 1, numbers.end(), map.data<double>().begin());
        figure.panels.push_back({show::svg_heat_map(map, {.title = fmt::format("step {:.0f}", numbers.front()),
                                                          .low = 0,
                                                          .high = 1,
                                                          .power = 0.5,
                                                          .legend = false,
                                                          .cell = 6.3}),
                                 fmt::format("Attention of rule {} at step {:.0f}", rule, numbers.front()), "",
                                 rule_title(rule)});
      }
  figure.caption =
      "Each line of a picture is one example's attention to its keys, from left to right; bright is where it "
      "looks. The examples are ordered so that the key that is asked for lies on the diagonal. With 1/√d every row "
      "starts even, and finds its key. Unscaled rows start decided, most of them on a wrong key, and most stay there.";
  return figure;
}

// Where the heat map leads.
Figure curves_figure(const Results& results) {
  Figure figure{.id = "curves", .title = "Every curve", .small_panels = true};
  for (const std::string optimizer : {"adam", "sgd"})
    for (const std::string& rule : rule_names())
      for (const std::string& d : by_number(values_of(results, "training", "d"))) {
        const auto chosen = select(results, {{"d", d}, {"rule", rule}, {"optimizer", optimizer}});
        if (chosen.empty()) continue;
        std::vector<Series> lines;
        const double t90 = steps_to_learn(chosen);
        add_courses(lines, chosen, "accuracy", "", std::isfinite(t90) ? 0 : 1);
        for (Series& line : lines) line.name.clear();
        figure.panels.push_back(
            {show::svg_line_plot(
                 lines,
                 {.title = "d = " + d, .svg_width = 104, .svg_height = 64, .end_labels = true, .y_range = {0, 1}}),
             fmt::format("{}, d = {}, {}: {}", rule_title(rule), d, optimizer,
                         std::isfinite(t90) ? "0.9 at step " + steps_text(t90) : "never"),
             anchor(optimizer, d, rule), fmt::format("{}, {}", rule_title(rule), optimizer_title(optimizer))});
      }
  figure.lead =
      "Accuracy by step: all seeds thin, their median thick; blue where it reaches 0.9, orange where it "
      "does not.";
  return figure;
}

}  // namespace attune::studies
