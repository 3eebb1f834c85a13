// The report of the saturation study: its sentence, its figures, its method.
#include <fmt/format.h>

#include <cmath>

#include "attune/examples/studies/saturation.h"
#include "attune/examples/studies/saturation_figures.h"
#include "attune/examples/studies/saturation_results.h"

namespace attune::studies {
namespace {

using namespace saturation_results;

std::string headline(const std::vector<Result>& results) {
  const std::string d = main_width(results);
  const auto raw = select(results, {{"d", d}, {"rule", "1"}}),
             scaled = select(results, {{"d", d}, {"rule", "1/sqrt"}});
  if (raw.empty() || scaled.empty())
    return fmt::format("{} run{}; see the figures.", results.size(), results.size() == 1 ? "" : "s");
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
  Report page{.title = "Why attention divides by √d, measured", .question = saturation().question};
  page.headline = headline(results);
  page.notes = {
      "Every number below was computed by the command at the end of this page, and is the same on every "
      "machine. Each figure is held against exact theory or independent figures; where it misses them, a red "
      "line says so."};
  const auto keep = [&](Figure figure) {
    if (!figure.panels.empty()) page.figures.push_back(std::move(figure));
  };
  keep(theory_figure(results));
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
  page.picture = fan_picture(results);
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
