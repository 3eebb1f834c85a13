// The page of a report: whatever is put in stays text, nothing is fetched or run, and every link leads
// somewhere.
#include "attune/examples/studies/report.h"

#include <doctest/doctest.h>

#include <string>

using namespace attune;
using namespace attune::studies;

namespace {

Report sample() {
  Report report;
  report.title = "</title><script>alert(1)</script>";
  report.question = "a < b & \"c\"?";
  report.headline = "<img src=x onerror=alert(2)>";
  report.command = "attune study x --out '</pre><script>'";
  report.settings = {{"<b>", "<i>"}};
  Figure figure;
  figure.id = "first\"><script>", figure.title = "<script>3", figure.lead = "<a>", figure.caption = "<c>";
  figure.panels.push_back({show::Svg{100, 50, "<path d=\"M0 0h1\"/>\n"}, "<svg onload=alert(4)>", "an\"id"});
  figure.references = {"<r>"}, figure.misses = {"<m>"};
  figure.tables.push_back(
      {.title = "<t>", .columns = {"rule", "<n>"}, .rows = {{"one", "<1>"}, {"two", {"2", true}}}});
  report.figures.push_back(figure);
  return report;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("report: text stays text, wherever it stands") {
  const std::string page = html(sample());
  CHECK_FALSE(has(page, "<script"));
  CHECK_FALSE(has(page, "<img"));
  CHECK_FALSE(has(page, "<svg onload"));
  CHECK_FALSE(has(page, "<i>"));
  CHECK(has(page, "&lt;script&gt;alert(1)"));
  CHECK(has(page, ">2</td>"));
  CHECK(has(page, "<title>&lt;svg onload=alert(4)&gt;</title>"));
  CHECK(has(page, "id=\"an&quot;id\""));
}

TEST_CASE("report: a strict policy, and nothing from elsewhere") {
  const std::string page = html(sample());
  CHECK(
      has(page,
          "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:;"));
  CHECK_FALSE(has(page, "http://"));
  CHECK_FALSE(has(page, "https://"));
  CHECK_FALSE(has(page, " src=\""));
  CHECK(has(page, "prefers-color-scheme: dark"));
  CHECK(has(page, "@media print"));
}

TEST_CASE("report: a long table folds, and says what is in it; panels stand under the headings of their groups") {
  Report report = sample();
  Figure& figure = report.figures.front();
  CHECK_FALSE(has(html(report), "<details>"));
  figure.tables.front().rows.assign(13, {"<one>", "1"});
  figure.tables.front().rows[5][1].missed = true;
  figure.panels.front().group = "<g>";
  figure.panels.push_back(figure.panels.front());
  const std::string page = html(report);
  CHECK(
      has(page,
          "<summary>&lt;t&gt; <span class=\"count\">(13 rows, <span class=\"bad\">1 in red</span>)</span></summary>"));
  CHECK(has(page, "<h3 class=\"group\">&lt;g&gt;</h3>"));
  CHECK(page.find("class=\"group\"") == page.rfind("class=\"group\""));
}

TEST_CASE("report: what misses its reference is marked, and a heat map's link has a place to lead to") {
  const std::string page = html(sample());
  CHECK(has(page, "<p class=\"miss\">&lt;m&gt;</p>"));
  CHECK(has(page, "<td class=\"text\">two</td><td class=\"bad\">2</td>"));
  CHECK(has(page, "<a href=\"#methods\">"));
  CHECK(has(page, "id=\"methods\""));
}
