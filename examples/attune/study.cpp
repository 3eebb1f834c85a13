// attune study: many small runs that answer one question, and a report that opens in a browser.
#include "attune/examples/studies/study.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "arguments.h"
#include "attune/examples/show/progress.h"
#include "attune/lib/wrap.h"
#include "command.h"

namespace attune::program {
namespace {

int list_studies(const Arguments& a) {
  for (const studies::Study* study : studies::all_studies()) {
    fmt::print("{}\n{}\n  Its axes, and what they are where nothing is said:\n",
               show::paint(a.out(), show::Style::bold, study->name), wrapped("  " + study->question));
    for (const studies::Axis& axis : study->axes)
      fmt::print("{}\n", wrapped(fmt::format("    {:<11}{:<9}{}", axis.name, axis.usual, axis.meaning), 24));
  }
  return kDone;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int run(const Arguments& a) {
  const std::string& name = a.operands.front();
  if (name == "list") return list_studies(a);
  const studies::Study& study = studies::study_named(name);
  if (a.has("--quick") && a.has("--full")) refuse("--quick and --full are two sizes; take one of them");
  studies::Request request;
  if (a.has("--quick")) request.size = studies::Size::quick;
  if (a.has("--full")) request.size = studies::Size::full;
  const std::vector<std::string> words = words_of(a.text("--axes"));
  if (a.has("--axes") && words.empty())  // without a word it would be the whole study
    refuse("--axes '': give axis=value,value, such as --axes seed=1,2; attune study list says what there is");
  request.axes = studies::axis_values(study, words);
  const std::string folder = a.text("--out", "studies/" + study.name);
  const studies::Outcome made = studies::carry_out(study, request, folder, a.err());
  fmt::print("{}\n\n", wrapped(made.headline));
  fmt::print("{} run{}{} in {}\n", made.runs, made.runs == 1 ? "" : "s",
             made.kept > 0 ? fmt::format(", {} of them made before,", made.kept) : "",
             show::duration(made.seconds));
  fmt::print(
      "{0}/report.html   the report: open it in a browser\n{0}/summary.csv   a line for each run\n"
      "{0}/runs.csv      a line for each run and step\n",
      folder);
  if (std::filesystem::exists(folder + "/picture.svg"))
    fmt::print("{}/picture.svg   its picture, to show elsewhere\n", folder);
  return kDone;
}

}  // namespace

Command study_command() {
  return {
      .name = "study",
      .summary = "answers a question by many small runs, and draws a report",
      .about =
          "Trains many small models, two at a time on two cores, and writes a report, a file of HTML that "
          "needs no "
          "network. Killed and started again it goes on where it was. NAME is list, saturation or depth.",
      .examples = {{"attune study list", "what there is, and its axes"},
                   {"attune study saturation --quick", "why attention divides by √d, in twenty seconds"},
                   {"attune study saturation --full",
                    "with all rules, widths and seeds: a quarter of an hour"},
                   {"attune study saturation --axes \"d=64 rule=1,1/sqrt seed=1,2,3\"",
                    "a sweep of your own"}},
      .operands = {{"NAME", "which study; list says what there are"}},
      .options = {{"--quick", "", "twenty seconds on two cores instead of three minutes", {}},
                  {"--full", "", "a quarter of an hour", {}},
                  {"--axes", "AXES", "your own sweep: \"axis=value,value axis=value\", all combinations", {}},
                  {"--out", "DIR", "where to write [studies/NAME]", {}}},
      .run = run};
}

}  // namespace attune::program
