// The depth study: rank collapse, as published.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "attune/examples/studies/study.h"

using namespace attune::studies;
namespace fs = std::filesystem;

namespace {

Record made(const std::string& variant, const std::string& gain = "1") {
  const Study& study = study_named("depth");
  return study.make(product({{"variant", {variant}}, {"gain", {gain}}})[0], [](double) {});
}

}  // namespace

TEST_CASE(
    "depth: attention alone makes all tokens the same, doubly exponentially, and skip connections do not") {
  const Record pure = made("pure"), skip = made("skip"), raw = made("norm-raw");
  REQUIRE(pure.rows.size() == 13);
  CHECK(pure.rows[0][1] == doctest::Approx(.985).epsilon(0.01));
  CHECK(pure.rows[1][1] == doctest::Approx(.79).epsilon(0.05));
  CHECK(pure.rows[2][1] < 0.1);
  CHECK(pure.rows[3][1] < 1e-4);
  CHECK(pure.rows[4][1] < 1e-14);
  CHECK(skip.rows[12][1] == doctest::Approx(.46).epsilon(0.1));
  CHECK(raw.rows[4][1] > 0.2);  // saturated, it mixes less
  CHECK(raw.rows[1][2] < pure.rows[1][2]);
  CHECK(pure.outcomes[2] == 3);
}

TEST_CASE("depth: the least and the most that the scores may be") {
  CHECK(made("norm", "0.25").rows[1][2] > 0.99);
  CHECK(made("norm", "4").rows[1][2] < 0.2);
}

TEST_CASE("depth: a report of one run says that it is one") {
  const Study& study = study_named("depth");
  const AxisValues one = axis_values(study, {"variant=norm"});
  CHECK(study.draw({Size::usual, one}, {{study.plan({Size::usual, one}).front(), made("norm", "1")}}).headline ==
        "1 run; see the figures.");
}

TEST_CASE("depth: a report of a sweep of one's own") {
  const fs::path folder = fs::temp_directory_path() / fmt::format("attune_depth_test_{}", getpid());
  const Study& study = study_named("depth");
  const Outcome outcome = carry_out(study, {Size::usual, axis_values(study, {"variant=norm", "gain=0.5,1"})},
                                    folder.string(), {});
  CHECK(outcome.headline == "2 runs; see the figures.");
  std::ifstream file(folder / "report.html");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str().find("Too little, and too much") != std::string::npos);
  fs::remove_all(folder);
  CHECK_THROWS_WITH_AS(
      study.plan({Size::usual, axis_values(study, {"variant=post"})}),
      "study depth: variant=post: no such variant; did you mean pure? There are pure, norm, norm-raw, norm-1/d, skip",
      std::invalid_argument);
}
