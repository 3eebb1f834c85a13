// Runs a study: attune-study list | NAME [--quick|--full] [--axes axis=value,value ...] [--out DIR]
#include "attune/examples/studies/study.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "attune/examples/show/progress.h"

using namespace attune;

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "list") {
    for (const studies::Study* study : studies::all_studies()) {
      fmt::print("{:<12} {}\n", study->name, study->question);
      for (const auto& axis : study->axes)
        fmt::print("  {:<12} {} ({})\n", axis.name, axis.meaning, axis.usual);
    }
    return 0;
  }
  const studies::Study& study = studies::study_named(words[0]);
  studies::Request request;
  std::vector<std::string> axes;
  std::string out = "out/" + study.name;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--quick")
      request.size = studies::Size::quick;
    else if (words[i] == "--full")
      request.size = studies::Size::full;
    else if (words[i] == "--out" && i + 1 < words.size())
      out = words[++i];
    else if (words[i] != "--axes")
      axes.push_back(words[i]);
  }
  request.axes = studies::axis_values(study, axes);
  const studies::Outcome made = studies::carry_out(study, request, out);
  fmt::print("{}\n\n{} runs, {} of them kept from before, in {}: {}/report.html\n", made.headline, made.runs,
             made.kept, show::duration(made.seconds), out);
} catch (const std::exception& error) {
  fmt::print(stderr, "study: {}\n", error.what());
  return 1;
}
