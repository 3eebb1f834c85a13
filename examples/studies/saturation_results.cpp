#include "attune/examples/studies/saturation_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/examples/studies/lookup.h"
#include "attune/examples/studies/saturation.h"

namespace attune::studies::saturation_results {

using show::Mark;
using show::Series;

namespace {
const Study& study() { return saturation(); }
}  // namespace

std::string setting(const Result& result, const std::string& axis) { return study().setting(result.run, axis); }
double outcome(const Result& result, const std::string& name) { return study().outcome(result, name); }
double number(const Result& result, const std::string& axis) { return study().number(result.run, axis); }

std::vector<const Result*> select(const std::vector<Result>& all, const Filter& filter, const Words& free) {
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

Words values_of(const std::vector<Result>& all, const std::string& kind, const std::string& axis) {
  Words values;
  for (const Result& result : all)
    if (const std::string value = setting(result, axis);
        setting(result, "kind") == kind && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return values;
}

Words by_number(Words values) {
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return std::stod(a) < std::stod(b); });
  return values;
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return NAN;
  std::sort(numbers.begin(), numbers.end());
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

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

std::string power_text(double x) {
  if (!(x > 0) || x >= 1e-3) return fmt::format("{:.2g}", x);
  const double power = std::floor(std::log10(x));
  return fmt::format("{:.0f}·10{}", x / std::pow(10, power), show::superscript(static_cast<int>(power)));
}

std::string rule_title(const std::string& rule) { return title_of(rule_of(rule)); }
std::string optimizer_title(const std::string& optimizer) { return optimizer == "adam" ? "Adam" : "SGD"; }

std::string anchor(const std::string& optimizer, const std::string& d, const std::string& rule) {
  std::string id = "curve-" + optimizer + "-d" + d + "-";
  for (const char c : rule) id += c == '/' ? std::string("-over-") : std::string(1, c);
  return id;
}

std::vector<double> course(const Result& result, const std::string& column) {
  std::vector<double> numbers;
  const std::size_t place = study().column(column);
  for (const auto& row : result.record.rows) numbers.push_back(row[place]);
  return numbers;
}

void add_courses(std::vector<Series>& lines, const std::vector<const Result*>& results, const std::string& column,
                 const std::string& name, int color) {
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
      lines.push_back({.y = course(*result, column), .x = course(*result, "step"), .mark = Mark::thin, .color = color});
  lines.push_back(std::move(middle));
}

std::string main_width(const std::vector<Result>& results) {
  Words widths = by_number(values_of(results, "training", "d"));
  if (widths.empty() || std::find(widths.begin(), widths.end(), "128") != widths.end()) return "128";
  return widths.back();
}

}  // namespace attune::studies::saturation_results
