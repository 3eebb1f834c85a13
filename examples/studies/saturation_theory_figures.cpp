// Random rows and random gradients: exact lines, our dots on them, and what others measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/examples/show/plot.h"
#include "attune/examples/studies/saturation_figures.h"
#include "attune/examples/studies/saturation_reference.h"
#include "attune/examples/studies/saturation_results.h"
#include "attune/layers/saturation/theory.h"
#include "attune/lib/math.h"

namespace attune::studies {
namespace {

using namespace saturation_results;
using show::Mark;
using show::Series;

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

show::Svg theory_panel(const Results& results, const Curve& curve) {
  std::vector<Series> lines;
  const Words keys = by_number(values_of(results, "rows", "n"));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Series line{.name = "n = " + keys[i], .color = static_cast<int>(i)};
    Series good{.mark = Mark::dots, .color = static_cast<int>(i)}, bad{.mark = Mark::dots, .color = kRed};
    for (int k = 0; k <= 24; ++k) {
      line.x.push_back(0.5 * std::exp2(k / 4.0));
      line.y.push_back(theory::expected_row(line.x.back(), static_cast<Index>(std::stoi(keys[i]))).*curve.exact);
    }
    for (const Result* result : select(results, {{"kind", "rows"}, {"n", keys[i]}}, {"sigma", "rows", "seed"})) {
      Series& dots = std::abs(z_of(*result, curve)) > 4 ? bad : good;
      dots.x.push_back(number(*result, "sigma")), dots.y.push_back(measured(*result, curve));
    }
    lines.push_back(line), lines.push_back(good), lines.push_back(bad);
  }
  return show::svg_line_plot(lines, {.title = curve.title,
                                     .x_label = "σ, deviation of the scores",
                                     .y_label = curve.label,
                                     .log_x = true,
                                     .log_y = curve.log_y,
                                     .svg_width = 208,
                                     .svg_height = 220,
                                     .end_labels = true,
                                     .y_range = curve.log_y ? std::vector<double>{} : std::vector<double>{0, 1},
                                     .x_ticks = {0.5, 1, 2, 4, 8, 16, 32}});
}

// Exact, published, drawn.
ReportTable exact_table(const Results& results) {
  ReportTable table{.title = "Table A: exact, as published for this study, and drawn (z in standard errors)"};
  table.columns = {"n", "σ", "E H/ln n exact", "published", "drawn", "z", "E Σp² exact", "published", "drawn", "z"};
  for (std::size_t k = 0; k < std::size(reference::kTableKeys); ++k)
    for (const reference::ExactRow& row : reference::kExactRows)
      for (const Result* result : select(results, {{"kind", "rows"}, {"n", std::to_string(reference::kTableKeys[k])}},
                                         {"sigma", "rows", "seed"})) {
        if (number(*result, "sigma") != row.sigma) continue;
        const double sigma = row.sigma == 1.4142   ? std::sqrt(2.0)
                             : row.sigma == 2.8284 ? std::sqrt(8.0)
                             : row.sigma == 5.6569 ? std::sqrt(32.0)
                                                   : row.sigma;
        const auto exact = theory::expected_row(sigma, reference::kTableKeys[k]);
        const Drawn z = z_scores(*result);
        const auto differs = [](double ours, double published) { return std::abs(ours - published) > 1.01e-5; };
        const auto far = [](double score) { return ReportCell(fmt::format("{:+.1f}", score), std::abs(score) > 4); };
        table.rows.push_back({std::to_string(reference::kTableKeys[k]), fmt::format("{:.4g}", row.sigma),
                              {fmt::format("{:.6f}", exact.normalized_entropy),
                               differs(exact.normalized_entropy, row.entropy[k])},
                              fmt::format("{:.5f}", row.entropy[k]),
                              fmt::format("{:.4f}", outcome(*result, "entropy")), far(z.z_entropy),
                              {fmt::format("{:.6f}", exact.sum_squares), differs(exact.sum_squares, row.sum_squares[k])},
                              fmt::format("{:.5f}", row.sum_squares[k]),
                              fmt::format("{:.4f}", outcome(*result, "sum_squares")),
                              far(z.z_squares)});
      }
  return table;
}

ReportTable drawn_table(const Results& results) {
  ReportTable table{.title = "Table B: drawn rows, ours / reference; means and dead rows are compared"};
  table.columns = {"n", "σ", "E max p", "E ‖J‖F", "median ‖J‖F", "p10 ‖J‖F", "E λmax", "dead rows"};
  for (const reference::DrawnRow& row : reference::kDrawnRows)
    for (const Result* result :
         select(results, {{"kind", "rows"}, {"n", std::to_string(row.keys)}}, {"sigma", "rows", "seed"})) {
      if (number(*result, "sigma") != row.sigma) continue;
      const auto& errors = *result->record.extra("errors");
      // Their means have three digits, and errors like ours.
      const auto pair = [&](const std::string& name, double theirs, double error) {
        const double ours = outcome(*result, name);
        return ReportCell(fmt::format("{:.3g} / {:.3g}", ours, theirs),
                          std::abs(ours - theirs) > 4 * std::sqrt(2.0) * error + 6e-4);
      };
      const double share = std::max(row.dead, 1e-3), error = std::sqrt(share * (1 - share) / number(*result, "rows"));
      table.rows.push_back({std::to_string(row.keys), fmt::format("{:.4g}", row.sigma),
                            pair("max_weight", row.max_weight, errors[3]), pair("jacobian_mean", row.mean, errors[4]),
                            pair("jacobian_median", row.median, INFINITY), pair("jacobian_p10", row.p10, INFINITY),
                            pair("spectral", row.spectral, errors[5]), pair("dead", row.dead, error)});
    }
  return table;
}

}  // namespace

Figure theory_figure(const Results& results) {
  Figure figure{.id = "theory", .title = "What softmax does to random scores, exactly"};
  if (values_of(results, "rows", "n").empty()) return figure;
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

  ReportTable exact = exact_table(results), drawn = drawn_table(results);
  if (exact.missed() > 0)
    figure.misses.push_back(
        "Numbers of table A in red: they differ from the published digits, or by more than 4 standard errors.");
  if (drawn.missed() > 0)
    figure.misses.push_back("Numbers of table B in red: a mean more than 4 standard errors from the reference.");
  figure.tables = {std::move(exact), std::move(drawn)};
  return figure;
}

namespace {

// ---- 2. The fan

ReportTable gradient_table(const Results& results) {
  ReportTable table{.title = "‖dL/dq‖, ours / reference"};
  table.columns = {"rule", "d", "mean", "RMS", "exact RMS", "median", "p10"};
  for (const reference::Gradient& row : reference::kGradients)
    for (const Result* result : select(results, {{"kind", "gradient"}, {"rule", row.rule}}, {"d", "rows", "seed"})) {
      if (number(*result, "d") != row.width) continue;
      const auto pair = [&](const std::string& name, double theirs, bool missed) {
        return ReportCell(fmt::format("{:.3g} / {:.3g}", outcome(*result, name), theirs), missed);
      };
      const double error = result->record.extra("errors")->front();
      // How many rows the reference drew is not known; 2000 are taken.
      const auto quantile = [&](const std::string& name, double theirs, std::size_t which) {
        const double one = (*result->record.extra("spread"))[which] * std::sqrt(1 + 2000 / number(*result, "rows"));
        return pair(name, theirs, std::abs(math::log(outcome(*result, name) / theirs)) > 4 * one + 0.01);
      };
      const bool far_mean =
          std::abs(outcome(*result, "gradient_mean") - row.mean) > 4 * std::sqrt(2.0) * error + 0.006 * row.mean;
      table.rows.push_back({rule_title(row.rule), fmt::format("{:.0f}", row.width),
                            pair("gradient_mean", row.mean, far_mean), pair("gradient_rms", row.rms, false),
                            fmt::format("{:.4g}", result->record.extra("exact_rms")->front()),
                            quantile("gradient_median", row.median, 0), quantile("gradient_p10", row.p10, 1)});
    }
  return table;
}

// Median, mean and percentiles against d, and the root mean square on its exact line.
Panel fan_panel(const Results& results, const std::string& rule) {
  Series middle{.name = "median", .color = 0}, mean{.name = "mean", .mark = Mark::dashes, .color = 1};
  Series exact{.name = "exact RMS", .mark = Mark::thin, .color = kGrey}, rms{.mark = Mark::dots, .color = kGrey},
      bad{.mark = Mark::dots, .color = kRed};
  for (const Result* result : select(results, {{"kind", "gradient"}, {"rule", rule}}, {"d", "rows", "seed"})) {
    const double d = number(*result, "d"), its = outcome(*result, "gradient_rms"),
                 theory = result->record.extra("exact_rms")->front();
    for (Series* series : {&middle, &mean, &exact}) series->x.push_back(d);
    middle.y.push_back(outcome(*result, "gradient_median"));
    middle.low.push_back(outcome(*result, "gradient_p10")), middle.high.push_back(outcome(*result, "gradient_p90"));
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

}  // namespace

Figure fan_figure(const Results& results) {
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
        "larger. But the median row gets {:.2g}, and the 10th percentile is {}: a few rows decide, and "
        "most learn nothing. Dots on the grey line: the root mean square, where the theory has it.",
        outcome(*widest.front(), "gradient_mean"), outcome(*widest.front(), "gradient_median"),
        power_text(outcome(*widest.front(), "gradient_p10")));
  figure.references = {"Exact: E‖dL/dq‖² = c² d_v ((d − 1) E‖J‖²_F + E‖Jz‖²), averaged over |q|. " +
                       std::string(kReference)};
  ReportTable table = gradient_table(results);
  if (table.missed() > 0)
    figure.misses.push_back(
        "In red: a mean, a median or a 10th percentile more than 4 standard errors from the reference.");
  figure.tables.push_back(std::move(table));
  return figure;
}

Panel fan_picture(const Results& results) {
  std::vector<show::Svg> panels;
  for (const std::string rule : {"1", "1/sqrt"})
    if (!select(results, {{"kind", "gradient"}, {"rule", rule}}, {"d", "rows", "seed"}).empty())
      panels.push_back(fan_panel(results, rule).picture);
  if (panels.size() < 2) return {};
  return {show::svg_grid(panels, 2), "The gradient that reaches a query, by width: unscaled, and scaled by 1/√d", ""};
}

}  // namespace attune::studies
