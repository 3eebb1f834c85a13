// The report of the saturation study: ten figures, each held against what is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/studies/lookup.h"
#include "attune/examples/studies/saturation.h"
#include "attune/examples/studies/saturation_reference.h"
#include "attune/layers/saturation/theory.h"
#include "attune/lib/math.h"

namespace attune::studies {
namespace {

using show::Mark;
using show::Series;
using Words = std::vector<std::string>;
constexpr const char* kReference =
    "Reference: an independent computation in another framework (PyTorch 1.13, one to three seeds).";
constexpr int kRed = 6, kGrey = 7;

const Study& study() { return saturation(); }
std::string setting(const Result& result, const std::string& axis) {
  return study().setting(result.run, axis);
}
double outcome(const Result& result, const std::string& name) { return study().outcome(result, name); }
double number(const Result& result, const std::string& axis) { return study().number(result.run, axis); }

// ---- Choosing among results

// Results whose settings are these, and as usual on every axis that is not named here or in `free`.
using Filter = std::vector<std::pair<std::string, std::string>>;
std::vector<const Result*> select(const std::vector<Result>& all, const Filter& filter,
                                  const Words& free = {"seed", "steps"}) {
  std::vector<const Result*> chosen;
  for (const Result& result : all) {
    bool fits = true;
    for (const Axis& axis : study().axes) {
      if (std::find(free.begin(), free.end(), axis.name) != free.end()) continue;
      std::string wanted = axis.usual;
      for (const auto& [name, value] : filter)
        if (name == axis.name) wanted = value;
      fits &= setting(result, axis.name) == wanted;
    }
    if (fits) chosen.push_back(&result);
  }
  return chosen;
}

// The values that results of the kind have on an axis, as they come.
Words values_of(const std::vector<Result>& all, const std::string& kind, const std::string& axis) {
  Words values;
  for (const Result& result : all)
    if (const std::string value = setting(result, axis);
        setting(result, "kind") == kind && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return values;
}

Words by_number(Words values) {
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return std::stod(a) < std::stod(b); });
  return values;
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return NAN;
  std::sort(numbers.begin(), numbers.end());
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

// Steps to 0.9: the median over seeds, and infinite where it is never reached.
double steps_to_learn(const std::vector<const Result*>& results) {
  std::vector<double> steps;
  for (const Result* result : results) {
    const double t90 = outcome(*result, "t90");
    steps.push_back(std::isnan(t90) ? HUGE_VAL : t90);
  }
  return median(std::move(steps));
}

double median_outcome(const std::vector<const Result*>& results, const std::string& name) {
  std::vector<double> numbers;
  for (const Result* result : results) numbers.push_back(outcome(*result, name));
  return median(std::move(numbers));
}

std::string steps_text(double steps) { return std::isfinite(steps) ? fmt::format("{:.0f}", steps) : "never"; }

std::string steps_of_seeds(const std::vector<const Result*>& results) {
  Words texts;
  for (const Result* result : results) {
    const double t90 = outcome(*result, "t90");
    texts.push_back(std::isnan(t90) ? fmt::format("– ({:.2f})", outcome(*result, "accuracy"))
                                    : fmt::format("{:.0f}", t90));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string rule_title(const std::string& rule) { return title_of(rule_of(rule)); }

// An address: letters, digits and hyphens.
std::string anchor(const std::string& optimizer, const std::string& d, const std::string& rule) {
  std::string id = "curve-" + optimizer + "-d" + d + "-";
  for (const char c : rule) id += c == '/' ? std::string("-over-") : std::string(1, c);
  return id;
}

// A column of runs.csv of one run. Where training ended early its last number stands.
std::vector<double> course(const Result& result, const std::string& column) {
  std::vector<double> numbers;
  const std::size_t place = study().column(column);
  for (const auto& row : result.record.rows) numbers.push_back(row[place]);
  return numbers;
}

// All seeds thin, and their median thick.
void add_courses(std::vector<Series>& lines, const std::vector<const Result*>& results,
                 const std::string& column, const std::string& name, int color) {
  std::vector<double> steps;
  for (const Result* result : results)
    if (const auto its = course(*result, "step"); its.size() > steps.size()) steps = its;
  Series middle{.name = name, .color = color};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<double> numbers;
    for (const Result* result : results) {
      const auto its = course(*result, column);
      numbers.push_back(its[std::min(i, its.size() - 1)]);
    }
    middle.x.push_back(steps[i]), middle.y.push_back(median(std::move(numbers)));
  }
  for (const Result* result : results)
    if (results.size() > 1)
      lines.push_back(
          {.y = course(*result, column), .x = course(*result, "step"), .mark = Mark::thin, .color = color});
  lines.push_back(std::move(middle));
}

// ---- 1. The theory, and our rows on it

struct Drawn {
  double z_entropy, z_squares, z_trace;
};

Drawn z_scores(const Result& result) {
  const auto exact = theory::expected_row(number(result, "sigma"), static_cast<Index>(number(result, "n")));
  const auto& errors = *result.record.extra("errors");
  return {(outcome(result, "entropy") - exact.normalized_entropy) / errors[0],
          (outcome(result, "sum_squares") - exact.sum_squares) / errors[1],
          (result.record.extra("trace")->front() - exact.trace) / errors[2]};
}

struct Curve {
  const char *title, *label;
  double theory::ExpectedRow::*exact;
  bool log_y;
};

double measured(const Result& result, const Curve& curve) {
  if (curve.exact == &theory::ExpectedRow::normalized_entropy) return outcome(result, "entropy");
  if (curve.exact == &theory::ExpectedRow::sum_squares) return outcome(result, "sum_squares");
  return result.record.extra("trace")->front();
}

double z_of(const Result& result, const Curve& curve) {
  const Drawn z = z_scores(result);
  if (curve.exact == &theory::ExpectedRow::normalized_entropy) return z.z_entropy;
  return curve.exact == &theory::ExpectedRow::sum_squares ? z.z_squares : z.z_trace;
}

show::Svg theory_panel(const std::vector<Result>& results, const Curve& curve) {
  std::vector<Series> lines;
  const Words keys = by_number(values_of(results, "rows", "n"));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Series line{.name = "n = " + keys[i], .color = static_cast<int>(i)};
    Series good{.mark = Mark::dots, .color = static_cast<int>(i)}, bad{.mark = Mark::dots, .color = kRed};
    for (int k = 0; k <= 24; ++k) {
      line.x.push_back(0.5 * std::exp2(k / 4.0));
      line.y.push_back(theory::expected_row(line.x.back(), static_cast<Index>(std::stoi(keys[i]))).*
                       curve.exact);
    }
    for (const Result* result :
         select(results, {{"kind", "rows"}, {"n", keys[i]}}, {"sigma", "rows", "seed"})) {
      Series& dots = std::abs(z_of(*result, curve)) > 4 ? bad : good;
      dots.x.push_back(number(*result, "sigma")), dots.y.push_back(measured(*result, curve));
    }
    lines.push_back(line), lines.push_back(good), lines.push_back(bad);
  }
  return show::svg_line_plot(lines,
                             {.title = curve.title,
                              .x_label = "σ, deviation of the scores",
                              .y_label = curve.label,
                              .log_x = true,
                              .log_y = curve.log_y,
                              .svg_width = 224,
                              .svg_height = 220,
                              .end_labels = true,
                              .y_range = curve.log_y ? std::vector<double>{} : std::vector<double>{0, 1},
                              .x_ticks = {0.5, 1, 2, 4, 8, 16, 32}});
}

// Exact, published, drawn.
ReportTable exact_table(const std::vector<Result>& results) {
  ReportTable table{.title = "Table A: exact, as published for this study, and drawn (z in standard errors)"};
  table.columns = {"n", "σ",           "E H/ln n exact", "published", "drawn",
                   "z", "E Σp² exact", "published",      "drawn",     "z"};
  for (std::size_t k = 0; k < std::size(reference::kTableKeys); ++k)
    for (const reference::ExactRow& row : reference::kExactRows)
      for (const Result* result :
           select(results, {{"kind", "rows"}, {"n", std::to_string(reference::kTableKeys[k])}},
                  {"sigma", "rows", "seed"})) {
        if (number(*result, "sigma") != row.sigma) continue;
        const double sigma = row.sigma == 1.4142   ? std::sqrt(2.0)
                             : row.sigma == 2.8284 ? std::sqrt(8.0)
                             : row.sigma == 5.6569 ? std::sqrt(32.0)
                                                   : row.sigma;
        const auto exact = theory::expected_row(sigma, reference::kTableKeys[k]);
        const Drawn z = z_scores(*result);
        if (std::abs(exact.normalized_entropy - row.entropy[k]) > 1.01e-5 ||
            std::abs(exact.sum_squares - row.sum_squares[k]) > 1.01e-5 || std::abs(z.z_entropy) > 4 ||
            std::abs(z.z_squares) > 4)
          table.bad.push_back(table.rows.size());
        table.rows.push_back(
            {std::to_string(reference::kTableKeys[k]), fmt::format("{:.4g}", row.sigma),
             fmt::format("{:.6f}", exact.normalized_entropy), fmt::format("{:.5f}", row.entropy[k]),
             fmt::format("{:.4f}", outcome(*result, "entropy")), fmt::format("{:+.1f}", z.z_entropy),
             fmt::format("{:.6f}", exact.sum_squares), fmt::format("{:.5f}", row.sum_squares[k]),
             fmt::format("{:.4f}", outcome(*result, "sum_squares")), fmt::format("{:+.1f}", z.z_squares)});
      }
  return table;
}

Figure theory_figure(const std::vector<Result>& results) {
  Figure figure{.id = "theory", .title = "What softmax does to random scores, exactly"};
  figure.lead =
      "Given a query, the scores of random keys are independent normal numbers of some deviation σ. A row of "
      "attention is then the random energy model of physics, and its means are known to as many digits as "
      "one likes. Lines are that theory; dots are rows that this program drew and put through its softmax.";
  constexpr Curve curves[] = {
      {"Entropy", "E H / ln n", &theory::ExpectedRow::normalized_entropy, false},
      {"Concentration", "E Σp²", &theory::ExpectedRow::sum_squares, false},
      {"What the Jacobian lets through", "E tr J", &theory::ExpectedRow::trace, true},
  };
  std::size_t dots = 0, far = 0;
  double worst = 0;
  for (const Curve& curve : curves) {
    figure.panels.push_back({theory_panel(results, curve), curve.title, ""});
    for (const Result* result : select(results, {{"kind", "rows"}}, {"sigma", "rows", "seed", "n"})) {
      const double z = std::abs(z_of(*result, curve));
      ++dots, far += z > 4, worst = std::max(worst, z);
    }
  }
  figure.caption = fmt::format(
      "With scores of deviation 1, as dividing by √d makes them at any d, a row looks at many keys; from σ ≈ "
      "√(2 ln n) on (n = 128: {:.1f}) a few take all. The trace falls only as 1/σ: in the mean, saturation "
      "is mild. {} of {} dots lie within 4 standard errors of the lines (the farthest at {:.1f}); others "
      "would be red.",
      theory::freezing_point(128), dots - far, dots, worst);
  if (far > 0)
    figure.misses.push_back(
        fmt::format("{} of {} dots lie more than 4 standard errors from the exact line.", far, dots));
  figure.references = {
      "Derrida 1981; Giorlandino & Goldt 2025, arXiv:2505.24333. Curves by quadrature, to ten digits."};

  ReportTable table = exact_table(results);
  if (!table.bad.empty())
    figure.misses.push_back(
        "Rows in red differ from the published digits, or by more than 4 standard errors.");
  figure.tables.push_back(std::move(table));
  return figure;
}

ReportTable drawn_table(const std::vector<Result>& results) {
  ReportTable table{.title = "Table B: drawn rows, ours / reference"};
  table.columns = {"n", "σ", "E max p", "E ‖J‖F", "median ‖J‖F", "p10 ‖J‖F", "E λmax", "dead rows"};
  for (const reference::DrawnRow& row : reference::kDrawnRows)
    for (const Result* result :
         select(results, {{"kind", "rows"}, {"n", std::to_string(row.keys)}}, {"sigma", "rows", "seed"})) {
      if (number(*result, "sigma") != row.sigma) continue;
      const auto& errors = *result->record.extra("errors");
      const auto pair = [&](const std::string& name, double theirs) {
        return fmt::format("{:.3g} / {:.3g}", outcome(*result, name), theirs);
      };
      // Their means have three digits, and errors like ours.
      const auto differs = [&](const std::string& name, double theirs, double error) {
        return std::abs(outcome(*result, name) - theirs) > 4 * std::sqrt(2.0) * error + 6e-4;
      };
      const double share = std::max(row.dead, 1e-3),
                   error = std::sqrt(share * (1 - share) / number(*result, "rows"));
      if (differs("max_weight", row.max_weight, errors[3]) || differs("jacobian_mean", row.mean, errors[4]) ||
          differs("spectral", row.spectral, errors[5]) || differs("dead", row.dead, error))
        table.bad.push_back(table.rows.size());
      table.rows.push_back({std::to_string(row.keys), fmt::format("{:.4g}", row.sigma),
                            pair("max_weight", row.max_weight), pair("jacobian_mean", row.mean),
                            pair("jacobian_median", row.median), pair("jacobian_p10", row.p10),
                            pair("spectral", row.spectral), pair("dead", row.dead)});
    }
  return table;
}

// ---- 2. The fan

ReportTable gradient_table(const std::vector<Result>& results) {
  ReportTable table{.title = "‖dL/dq‖, ours / reference"};
  table.columns = {"rule", "d", "mean", "RMS", "exact RMS", "median", "p10"};
  for (const reference::Gradient& row : reference::kGradients)
    for (const Result* result :
         select(results, {{"kind", "gradient"}, {"rule", row.rule}}, {"d", "rows", "seed"})) {
      if (number(*result, "d") != row.width) continue;
      const auto pair = [&](const std::string& name, double theirs) {
        return fmt::format("{:.3g} / {:.3g}", outcome(*result, name), theirs);
      };
      const double error = result->record.extra("errors")->front();
      // How many rows the reference drew is not known; 2000 are taken.
      const auto far = [&](double ours, double theirs, std::size_t which) {
        const double one =
            (*result->record.extra("spread"))[which] * std::sqrt(1 + 2000 / number(*result, "rows"));
        return std::abs(math::log(ours / theirs)) > 4 * one + 0.01;
      };
      if (std::abs(outcome(*result, "gradient_mean") - row.mean) >
              4 * std::sqrt(2.0) * error + 0.006 * row.mean ||
          far(outcome(*result, "gradient_median"), row.median, 0) ||
          far(outcome(*result, "gradient_p10"), row.p10, 1))
        table.bad.push_back(table.rows.size());
      table.rows.push_back({rule_title(row.rule), fmt::format("{:.0f}", row.width),
                            pair("gradient_mean", row.mean), pair("gradient_rms", row.rms),
                            fmt::format("{:.4g}", result->record.extra("exact_rms")->front()),
                            pair("gradient_median", row.median), pair("gradient_p10", row.p10)});
    }
  return table;
}

// Median, mean and percentiles against d, and the root mean square on its exact line.
Panel fan_panel(const std::vector<Result>& results, const std::string& rule) {
  Series middle{.name = "median", .color = 0}, mean{.name = "mean", .mark = Mark::dashes, .color = 1};
  Series exact{.name = "exact RMS", .mark = Mark::thin, .color = kGrey},
      rms{.mark = Mark::dots, .color = kGrey}, bad{.mark = Mark::dots, .color = kRed};
  for (const Result* result :
       select(results, {{"kind", "gradient"}, {"rule", rule}}, {"d", "rows", "seed"})) {
    const double d = number(*result, "d"), its = outcome(*result, "gradient_rms"),
                 theory = result->record.extra("exact_rms")->front();
    for (Series* series : {&middle, &mean, &exact}) series->x.push_back(d);
    middle.y.push_back(outcome(*result, "gradient_median"));
    middle.low.push_back(outcome(*result, "gradient_p10")),
        middle.high.push_back(outcome(*result, "gradient_p90"));
    mean.y.push_back(outcome(*result, "gradient_mean")), exact.y.push_back(theory);
    // Of the mean of squares, from the spread of the norms: heavy tails make it wide.
    const double error = result->record.extra("errors")->front() * 2 * its;
    Series& dots = std::abs(its * its - theory * theory) > 8 * error + 0.01 * theory * theory ? bad : rms;
    dots.x.push_back(d), dots.y.push_back(its);
  }
  const std::vector<Series> lines = {exact, rms, bad, mean, middle};
  return {show::svg_line_plot(lines, {.title = rule == "1" ? "unscaled" : "scaled by " + rule_title(rule),
                                      .x_label = "d, width of queries and keys",
                                      .y_label = "‖dL/dq‖ of a row",
                                      .log_x = true,
                                      .log_y = true,
                                      .svg_width = 204,
                                      .svg_height = 250,
                                      .end_labels = true,
                                      .x_ticks = {4, 16, 64, 256, 1024}}),
          "Quantiles of the gradient's norm against d, rule " + rule, ""};
}

Figure fan_figure(const std::vector<Result>& results) {
  Figure figure{.id = "fan", .title = "Unscaled gradients do not vanish: they become a lottery"};
  figure.lead =
      "“Large scores push softmax into regions of small gradients”, so it is said. Queries, keys, values and "
      "the gradient from above are random here, and what reaches the query is measured row by row.";
  for (const std::string rule : {"1", "1/sqrt", "1/d"})
    if (!select(results, {{"kind", "gradient"}, {"rule", rule}}, {"d", "rows", "seed"}).empty())
      figure.panels.push_back(fan_panel(results, rule));
  const auto widest = select(results, {{"kind", "gradient"}, {"rule", "1"}, {"d", "1024"}}, {"rows", "seed"});
  if (!widest.empty())
    figure.caption = fmt::format(
        "Shaded: from the 10th to the 90th percentile of rows. Without scaling the mean grows with d "
        "(dashed; {:.0f} at d = 1024), and who plots only the mean concludes that unscaled gradients are "
        "larger. But the median row gets {:.2g}, and one row in ten less than {:.0e}: a few rows decide, and "
        "most learn nothing. Dots on the grey line: the root mean square, where the theory has it.",
        outcome(*widest.front(), "gradient_mean"), outcome(*widest.front(), "gradient_median"),
        outcome(*widest.front(), "gradient_p10"));
  figure.references = {"Exact: E‖dL/dq‖² = c² d_v ((d − 1) E‖J‖²_F + E‖Jz‖²), averaged over |q|. " +
                       std::string(kReference)};
  ReportTable table = gradient_table(results);
  if (!table.bad.empty())
    figure.misses.push_back(
        "Rows in red: a mean, a median or a 10th percentile more than 4 standard errors from the reference.");
  figure.tables.push_back(std::move(table));
  return figure;
}

// ---- 3. Training

// The width that the curves are drawn for: 128, or what there is.
std::string main_width(const std::vector<Result>& results) {
  Words widths = by_number(values_of(results, "training", "d"));
  if (widths.empty() || std::find(widths.begin(), widths.end(), "128") != widths.end()) return "128";
  return widths.back();
}

Figure accuracy_figure(const std::vector<Result>& results) {
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
        {show::svg_line_plot(lines,
                             {.title = fmt::format("{}, d = {}", optimizer == "adam" ? "Adam" : "SGD", d),
                              .x_label = "steps",
                              .y_label = "accuracy on examples not trained on",
                              .log_x = true,
                              .svg_width = 300,
                              .svg_height = 240,
                              .end_labels = true,
                              .x_range = {1, longest},
                              .y_range = {0, 1}}),
         "Accuracy by step, " + optimizer, ""});
  }
  const auto scaled = select(results, {{"d", d}, {"rule", "1/sqrt"}}),
             raw = select(results, {{"d", d}, {"rule", "1"}});
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

Figure inside_figure(const std::vector<Result>& results) {
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
    figure.panels.push_back(
        {show::svg_line_plot(
             lines, {.title = quantity.title,
                     .x_label = fmt::format("steps of Adam, d = {}", d),
                     .y_label = quantity.label,
                     .log_x = true,
                     .log_y = quantity.logarithmic,
                     .svg_width = 200,
                     .svg_height = 210,
                     .end_labels = true,
                     .x_range = {1, 600},
                     .y_range = quantity.logarithmic ? std::vector<double>{} : std::vector<double>{0, 1}}),
         quantity.title, ""});
  }
  figure.caption =
      "A row whose Jacobian is below 10⁻³ is dead; dead and on the key that was asked for is how success "
      "looks, too. What cannot be mended is a row that is dead while it looks at a wrong key: stuck. "
      "(Gradients below 10⁻¹⁶ are drawn there.)";
  return figure;
}

// Width by rule; each cell leads to its curves.
Panel steps_map(const std::vector<Result>& results, const Words& widths, const std::string& optimizer) {
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
  show::HeatMapOptions map{.title = optimizer == "adam" ? "Adam" : "SGD",
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
    return there[at(row, column)] ? "#" + anchor(optimizer, widths[static_cast<std::size_t>(column)],
                                                 rules[static_cast<std::size_t>(row)])
                                  : std::string();
  };
  return {show::svg_heat_map(steps, map), "Steps to an accuracy of 0.9, " + optimizer, "steps-" + optimizer};
}

ReportTable steps_table(const std::vector<Result>& results) {
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
    if (!good) table.bad.push_back(table.rows.size());
    const std::string theirs =
        row.low >= reference::kNever ? "never"
        : row.low == row.high        ? steps_text(row.low)
                                     : fmt::format("{:.0f} … {}", row.low,
                                            row.high >= reference::kNever ? "never" : steps_text(row.high));
    table.rows.push_back({row.optimizer, rule_title(row.rule), std::to_string(row.width),
                          steps_of_seeds(chosen), steps_text(ours), theirs});
  }
  return table;
}

Figure heat_figure(const std::vector<Result>& results) {
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
  if (!table.bad.empty())
    figure.misses.push_back(fmt::format(
        "{} of {} medians (red in the table) lie more than a fifth outside of the reference's range.",
        table.bad.size(), table.rows.size()));
  figure.tables.push_back(std::move(table));
  return figure;
}

// ---- 4. Collapse onto sigma

struct Case {
  int width;
  const char *rule, *name;
};
constexpr Case kCases[] = {{32, "1/sqrt", "d = 32, 1/√d"},
                           {32, "1", "d = 32, unscaled"},
                           {128, "1/sqrt", "d = 128, 1/√d"},
                           {128, "1", "d = 128, unscaled"}};

std::map<double, std::vector<const Result*>> results_by_sigma(const std::vector<Result>& results,
                                                              const Case& which) {
  std::map<double, std::vector<const Result*>> by_sigma;
  for (const Result* result :
       select(results, {{"d", std::to_string(which.width)}, {"rule", which.rule}}, {"seed", "gain"}))
    by_sigma[std::round(outcome(*result, "sigma0") * 1e3) / 1e3].push_back(result);
  return by_sigma;
}

// Ours and the reference, line by line; `missed` counts cells that differ.
ReportTable collapse_table(const std::vector<Result>& results, std::size_t& missed) {
  ReportTable table{
      .title =
          "Steps of Adam to 0.9 within 600, by initial σ: ours (median), and the reference below (one seed)"};
  table.columns = {"", "0.1", "0.3", "1", "2", "2.63", "3.5", "5", "8", "12"};
  for (std::size_t k = 0; k < std::size(kCases); ++k) {
    const auto by_sigma = results_by_sigma(results, kCases[k]);
    Words ours = {kCases[k].name}, theirs = {"reference"};
    bool differs = false;
    for (std::size_t i = 0; i < std::size(reference::kCollapseSigmas); ++i) {
      const auto found = by_sigma.find(reference::kCollapseSigmas[i]);
      const double t90 = found == by_sigma.end() ? NAN : steps_to_learn(found->second),
                   reference = reference::kCollapse[k].steps[i];
      ours.push_back(std::isnan(t90) ? ""
                     : std::isfinite(t90)
                         ? steps_text(t90)
                         : fmt::format("– ({:.2f})", median_outcome(found->second, "accuracy")));
      theirs.push_back(reference >= reference::kNever ? "–" : steps_text(reference));
      if (std::isnan(t90)) continue;
      // Near the cliff, where steps approach the limit of 600, whether a seed gets there is chance.
      const bool edge = reference > 400 && (t90 > 400 || !std::isfinite(t90));
      const bool bad = !edge && (std::isfinite(t90) != (reference < reference::kNever) ||
                                 (std::isfinite(t90) && std::abs(t90 / reference - 1) > 0.25));
      differs |= bad, missed += bad;
    }
    if (differs) table.bad.push_back(table.rows.size());
    table.rows.push_back(ours), table.rows.push_back(theirs);
  }
  return table;
}

Figure collapse_figure(const std::vector<Result>& results) {
  Figure figure{.id = "collapse",
                .title = "Not the rule, not the width: the initial σ, and the length of a step"};
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
  std::size_t missed = 0;
  ReportTable table = collapse_table(results, missed);
  if (missed > 0)
    figure.misses.push_back(
        fmt::format("{} cells (rows in red) differ from the reference by more than a quarter.", missed));
  figure.tables.push_back(std::move(table));
  return figure;
}

// ---- 5. Attention, drawn

Figure strips_figure(const std::vector<Result>& results) {
  Figure figure{.id = "strips", .title = "Sixteen rows of attention, at four moments"};
  for (const std::string rule : {"1/sqrt", "1"})
    for (const Result* result :
         select(results, {{"d", main_width(results)}, {"rule", rule}, {"maps", "yes"}}))
      for (const auto& [name, numbers] : result->record.extras) {
        if (name != "map" || setting(*result, "seed") != "1") continue;
        const Index columns = static_cast<Index>(numbers.size() - 1) / kMapRows;
        Tensor map({kMapRows, columns}, f64);
        std::copy(numbers.begin() + 1, numbers.end(), map.data<double>().begin());
        figure.panels.push_back(
            {show::svg_heat_map(map,
                                {.title = fmt::format("{}, step {:.0f}", rule_title(rule), numbers.front()),
                                 .row_label = "example",
                                 .column_label = "key",
                                 .low = 0,
                                 .high = 1,
                                 .power = 0.5,
                                 .legend = false,
                                 .cell = 6.3}),
             fmt::format("Attention of rule {} at step {:.0f}", rule, numbers.front()), ""});
      }
  figure.caption =
      "Each line is one example's attention to its 32 keys, bright where it looks. The examples are ordered "
      "so that the key that is asked for lies on the diagonal. With 1/√d every row starts grey, and finds "
      "its key. Unscaled rows start decided, most of them on a wrong key, and most stay there.";
  return figure;
}

// ---- 6. Number of keys; normalisers; rates

Figure keys_figure(const std::vector<Result>& results) {
  Figure figure{.id = "keys", .title = "What the freezing point does not predict"};
  std::map<double, std::map<double, std::vector<const Result*>>> cells;  // n, sigma
  for (const Result* result : select(results, {{"rule", "1/sqrt"}}, {"n", "gain", "seed"}))
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
    map.rows.push_back(
        fmt::format("n = {:.0f}, σc = {:.2f}", n, theory::freezing_point(static_cast<Index>(n))));
    for (Index column = 0; column < 4; ++column) {
      const auto found = by_sigma.find(sigmas[static_cast<std::size_t>(column)]);
      const double t90 = found == by_sigma.end() ? NAN : steps_to_learn(found->second);
      there.push_back(found != by_sigma.end()), never.push_back(!std::isnan(t90) && !std::isfinite(t90));
      texts.push_back(std::isnan(t90) ? ""
                      : std::isfinite(t90)
                          ? steps_text(t90)
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
  figure.panels.push_back(
      {show::svg_heat_map(steps, map), "Steps to 0.9 by number of keys and initial sigma", ""});
  figure.caption =
      "It is tempting to say that training fails beyond σc = √(2 ln n), where random rows freeze. It does "
      "not: with 4 keys it still works far above σc, for a wrong guess among four is soon unlearned. σc "
      "describes a row before training, not what becomes of it. (With more than 32 keys there are 2n symbols "
      "instead of 64.)";
  return figure;
}

Figure normaliser_figure(const std::vector<Result>& results) {
  Figure figure{.id = "normalisers", .title = "Other normalisers"};
  if (values_of(results, "training", "normaliser").size() < 2) return figure;
  ReportTable table{
      .title = "Steps to 0.9, each seed (– never, with the accuracy at the end), and rows at the start"};
  table.columns = {"normaliser",      "rule", "steps", "entropy at first", "median ‖J‖F at first",
                   "stuck at the end"};
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
                                                         .y_range = {0, 1}}),
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

Figure rates_figure(const std::vector<Result>& results) {
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

// Where the heat map leads.
Figure curves_figure(const std::vector<Result>& results) {
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
            {show::svg_line_plot(lines, {.title = fmt::format("{}, d = {}, {}", rule_title(rule), d,
                                                              optimizer == "adam" ? "Adam" : "SGD"),
                                         .svg_width = 190,
                                         .svg_height = 84,
                                         .end_labels = true,
                                         .y_range = {0, 1}}),
             fmt::format("{}, d = {}, {}: {}", rule_title(rule), d, optimizer,
                         std::isfinite(t90) ? "0.9 at step " + steps_text(t90) : "never"),
             anchor(optimizer, d, rule)});
      }
  figure.caption =
      "Accuracy by step: all seeds thin, their median thick; blue where it reaches 0.9, red-brown where it "
      "does not.";
  return figure;
}

std::string headline(const std::vector<Result>& results) {
  const std::string d = main_width(results);
  const auto raw = select(results, {{"d", d}, {"rule", "1"}}),
             scaled = select(results, {{"d", d}, {"rule", "1/sqrt"}});
  if (raw.empty() || scaled.empty()) return fmt::format("{} runs; see the figures.", results.size());
  const double t90 = steps_to_learn(raw), theirs = steps_to_learn(scaled);
  const std::string reached = std::isfinite(theirs)
                                  ? fmt::format("a head that divides by √d learns in {:.0f} steps", theirs)
                                  : "a head that divides by √d does not learn either";
  if (std::isfinite(t90))
    return fmt::format(
        "At d = {} an unscaled head starts with {:.0f}\u00a0% of its rows dead and needs {:.0f} steps for "
        "what {}.",
        d, 100 * median_outcome(raw, "dead"), t90, reached);
  return fmt::format(
      "At d = {}, attention without 1/√d starts with {:.0f}\u00a0% of its rows dead; after {:.0f} steps "
      "{:.0f}\u00a0% are dead, {:.0f}\u00a0% while they look at a wrong key, and it is right in "
      "{:.0f}\u00a0% of cases, on a task that {}.",
      d, 100 * median_outcome(raw, "dead"), median_outcome(raw, "steps_made"),
      100 * median_outcome(raw, "dead_last"), 100 * median_outcome(raw, "stuck_last"),
      100 * median_outcome(raw, "accuracy"), reached);
}

}  // namespace

Report saturation_report(const Request&, const std::vector<Result>& results) {
  Report page{.title = "Why attention divides by √d, measured", .question = study().question};
  page.headline = headline(results);
  page.notes = {
      "Every number below was computed by the command at the end of this page, and is the same on every "
      "machine. Each figure is held against exact theory or independent figures; where it misses them, a red "
      "line says so."};
  const auto keep = [&](Figure figure) {
    if (!figure.panels.empty()) page.figures.push_back(std::move(figure));
  };
  if (!values_of(results, "rows", "n").empty()) {
    keep(theory_figure(results));
    ReportTable table = drawn_table(results);
    if (!table.bad.empty())
      page.figures.back().misses.push_back(
          "Rows of table B in red: a mean more than 4 standard errors from the reference.");
    page.figures.back().tables.push_back(std::move(table));
  }
  keep(fan_figure(results));
  keep(accuracy_figure(results));
  keep(heat_figure(results));
  keep(inside_figure(results));
  keep(collapse_figure(results));
  keep(strips_figure(results));
  keep(keys_figure(results));
  keep(normaliser_figure(results));
  keep(rates_figure(results));
  keep(curves_figure(results));
  page.method =
      "Lookup: V = 64 symbols (2n where n > 32), n different keys with random values, batches of 128. "
      "Embeddings N(0, 1), W_Q and W_K N(0, gain²/d), W_V and U N(0, 1/d), all trained, in 32-bit floats. A "
      "run ends where its running accuracy is 0.999, or at its last step. Measurements are of 256 examples "
      "that are not trained on, the same at every step, in 64-bit floats from the scores on; no number is "
      "flushed to 0. A row is dead where ‖J‖_F < 10⁻³. Nothing here depends on the machine: the same command "
      "gives the same bytes.";
  return page;
}

}  // namespace attune::studies
