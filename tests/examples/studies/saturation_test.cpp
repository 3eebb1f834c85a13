// The saturation study: its plans, its report, and the theorems that its numbers must obey.
#include "attune/examples/studies/saturation.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "attune/attune.h"
#include "attune/examples/studies/lookup.h"
#include "attune/layers/saturation/theory.h"

using namespace attune;
using namespace attune::studies;
namespace fs = std::filesystem;

namespace {

std::string file_of(const std::vector<std::string>& axes, const char* name) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("attune_saturation_test_{}", getpid());
  carry_out(saturation(), {Size::quick, axis_values(saturation(), axes)}, folder.string(), {});
  std::ifstream file(folder / name);
  std::ostringstream text;
  text << file.rdbuf();
  fs::remove_all(folder);
  return text.str();
}

std::string report_of(const std::vector<std::string>& axes) { return file_of(axes, "report.html"); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::set<std::string> all_of(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

}  // namespace

TEST_CASE("saturation: plans of three sizes, in the time that they promise on two cores") {
  const auto seconds = [](Size size) {
    double sum = 0;
    for (const Run& run : saturation().plan({size, {}})) sum += run.seconds;
    return sum;
  };
  CHECK(seconds(Size::quick) < 2 * 20);
  CHECK(seconds(Size::usual) < 2 * 120);
  CHECK(seconds(Size::full) < 2 * 900);
}

TEST_CASE("saturation: what an axis cannot be is refused, with what it can be") {
  const auto refused = [](const std::string& word, const std::string& why) {
    const std::string message = "study saturation: " + word + ": " + why;
    CHECK_THROWS_WITH_AS(axis_values(saturation(), {word}), message.c_str(), std::invalid_argument);
  };
  CHECK_THROWS_AS(axis_values(saturation(), {"rule=sqrt"}), std::invalid_argument);
  refused("optimizer=lion", "no such optimizer; did you mean adam? There are adam, sgd");
  refused("kind=foo", "no such kind; did you mean rows? There are rows, gradient, training");
  refused("maps=maybe", "no such maps; did you mean yes? There are yes, no");
  for (const std::string n : {"2.5", "1", "-2", "nan", "1e3", "99999999999"})
    refused("n=" + n, "give a whole number from 2 to 1000000000, such as n=32");
  refused("steps=40.7", "give a whole number from 1 to 1000000000, such as steps=600");
  for (const std::string sigma : {"-1", "0", "inf", "nan", "one"})
    refused("sigma=" + sigma, "give a number above 0, such as sigma=1");
  refused("lr=-1", "give a number above 0, or auto, such as lr=auto");
  for (const std::string seed : {"1.5", "-1", "18446744073709551616"})
    refused("seed=" + seed, "give a whole number from 0 to 2^64 - 1, such as seed=1");
  const auto gradient = axis_values(saturation(), {"kind=gradient", "rule=qknorm"});
  CHECK_THROWS_WITH_AS(saturation().plan({Size::quick, gradient}),
                       "study saturation: kind=gradient has the rules 1, 1/sqrt and 1/d, not qknorm",
                       std::invalid_argument);
}

TEST_CASE("saturation: a seed keeps its 64 bits") {
  const auto largest = axis_values(saturation(), {"seed=18446744073709551615"});
  CHECK(saturation().seed(product(largest).front()) == 18446744073709551615u);
}

TEST_CASE("saturation: a report of a sweep of one's own, whose heat map leads to curves") {
  const std::string page =
      report_of({"kind=training", "d=8,16", "rule=1,1/sqrt", "steps=12", "seed=1,2", "maps=no,yes"});
  CHECK(has(page, "Content-Security-Policy"));
  CHECK_FALSE(has(page, "http://"));
  CHECK_FALSE(has(page, "https://"));
  CHECK_FALSE(has(page, "<script"));
  CHECK(has(page, "At d = 16, attention without 1/√d starts with"));
  CHECK(has(page,
            "attune study saturation --quick --axes &quot;kind=training d=8,16 rule=1,1/sqrt steps=12 "
            "seed=1,2 maps=no,yes&quot;"));
  CHECK(has(page, "class=\"hatch\""));
  CHECK(page.size() < 3'000'000);
  const std::set<std::string> links = all_of(page, std::regex("href=\"#([^\"]*)\"")),
                              places = all_of(page, std::regex(" id=\"([^\"]*)\""));
  CHECK(links.contains("curve-adam-d8-1-over-sqrt"));
  for (const std::string& link : links) {
    INFO(link);
    CHECK(places.contains(link));
  }
}

TEST_CASE("saturation: rows drawn lie on the exact curve, beside the published digits") {
  const std::string page = report_of({"kind=rows", "n=8,32", "sigma=1,4,8", "rows=10000"});
  CHECK(has(page, "18 of 18 dots lie within 4 standard errors"));
  CHECK(has(page, "0.828014"));  // exact, beside .82801
  CHECK(has(page, "Table B"));
  CHECK_FALSE(has(page, "class=\"miss\""));
}

TEST_CASE("saturation: a picture to show elsewhere, alone and small") {
  const std::string picture = file_of({"kind=gradient", "d=4,16", "rule=1,1/sqrt", "rows=200"}, "picture.svg");
  CHECK(picture.starts_with("<svg xmlns="));
  CHECK(has(picture, "<title>The gradient that reaches a query"));
  CHECK(has(picture, "prefers-color-scheme: dark"));
  CHECK(has(picture, "scaled by 1/√d"));
  CHECK(picture.size() < 60'000);
  CHECK(file_of({"kind=rows", "n=8", "rows=100"}, "picture.svg").empty());
}

TEST_CASE("saturation: the mean trace is at most M_n / sigma, and no eigenvalue is above a half") {
  for (const Index keys : {2, 8, 128})
    for (const double sigma : {0.1, 0.5, 1.0, 3.0, 10.0, 100.0}) {
      CHECK(theory::expected_row(sigma, keys).trace <= theory::expected_maximum(keys) / sigma);
      for (const RowStatistics& row : draw_rows({.sigma = sigma, .keys = keys, .rows = 200}))
        CHECK(row.spectral <= 0.5);
    }
}

TEST_CASE("saturation: SSMax keeps its largest weight, however many keys there are") {
  // Nakanishi 2025, figure 1: one logit of 3 and others of -2, s = 0.43; softmax and SSMax by n.
  constexpr double expected[][3] = {
      {10, .942826, .940101}, {100, .599860, .995063}, {1000, .129346, .999646}, {10000, .014626, .999975}};
  for (const auto& [n, plain, ssmax] : expected) {
    Tensor logits = full({static_cast<Index>(n)}, -2, f64);
    logits.set({0}, 3);
    const NoGrad scope;
    CHECK(softmax(logits).value().at({0}) == doctest::Approx(plain).epsilon(2e-6));
    CHECK(softmax(Var(logits) * (0.43 * std::log(n))).value().at({0}) ==
          doctest::Approx(ssmax).epsilon(2e-6));
  }
}

TEST_CASE("saturation: gradients are right in saturated rows too, where a check could pass for want of any") {
  Rng rng(3);
  for (const std::string& name : normaliser_names())
    for (const double sigma : {0.1, 1.0, 4.0, 8.0, 16.0}) {
      const Normaliser normaliser = normaliser_of(name);
      // Keys beyond the support of a sparse one have no gradient: most, where sigma is not small.
      if (normaliser == Normaliser::sparsemax && sigma > 0.5) continue;
      if (normaliser == Normaliser::entmax15 && sigma > 1) continue;
      Tensor scores({40, 8}, f64), values({8, 3}, f64);
      fill_normal(scores.view(), rng, 0, sigma), fill_normal(values.view(), rng);
      const auto attend = [&](Var s, Var v) {
        Var p = s;
        if (normaliser == Normaliser::softmax) p = softmax(s);
        if (normaliser == Normaliser::softmax1)
          p = slice(softmax(concat({s, Var(zeros({40, 1}, f64))}, 1)), 1, 0, 8);
        if (normaliser == Normaliser::sigmoid) p = sigmoid(s + -std::log(8));
        if (normaliser == Normaliser::sparsemax) p = sparsemax(s);
        if (normaliser == Normaliser::entmax15) p = entmax15(s);
        return matmul(p, v);
      };
      const GradcheckReport report = gradcheck(
          GradcheckOptions{.tolerance = 1e-7, .step = sigma > 1 ? 1e-4 : 1e-5}, attend, scores, values);
      INFO(name, " at sigma ", sigma, "\n", report.text());
      CHECK(report.passed());
      Tape tape;
      const Var s = variable(scores);
      tape.backward(sum(attend(s, values)));
      Index alive = 0;
      for (Index i = 0; i < 40; ++i)
        for (Index j = 0; j < 8; ++j) alive += s.grad().at({i, j}) != 0;
      CHECK(alive >= 160);
    }
}
