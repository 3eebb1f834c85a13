#include "attune/examples/studies/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace attune::studies {
namespace {

using show::svg_escape;

// Sizes are a scale of 1.2 upon 17 px. Colours are variables, so that the page and its pictures turn dark
// together.
constexpr std::string_view kStyle = R"(<style>
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --soft: #57606a; --rule: #d8dee4; --panel: #f6f8fa;
  --accent: #0072b2; --bad: #b42318; --bad-paper: #fff1f0; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --rule: #2a313c;
  --panel: #151b23; --accent: #58a6ff; --bad: #ff8f86; --bad-paper: #2b1513; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.6 ui-sans-serif, system-ui, "Segoe UI",
  Roboto, "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 1120px; margin: 0 auto; padding: 3.5rem 1.5rem 5rem; }
p, li, figcaption { max-width: 43rem; overflow-wrap: break-word; }
a { color: var(--accent); text-underline-offset: 0.15em; }
.kicker { margin: 0 0 0.4rem; color: var(--soft); font-size: 0.8rem; max-width: none; }
h1 { margin: 0 0 1.2rem; max-width: 22em; font-size: 2.49rem; line-height: 1.15; letter-spacing: -0.015em; }
h2 { margin: 0 0 0.6rem; font-size: 1.44rem; line-height: 1.25; letter-spacing: -0.01em; }
.headline { margin: 0 0 1.4rem; padding-left: 1.1rem; border-left: 4px solid var(--accent); max-width: 40rem;
  font-size: 1.2rem; line-height: 1.5; }
nav ol { columns: 2; column-gap: 2.5rem; max-width: 52rem; margin: 1.6rem 0 0; padding-left: 1.4rem; font-size: 0.9rem; }
nav li { break-inside: avoid; padding: 0.1rem 0; }
.figure { margin: 3.6rem 0 0; padding-top: 1.8rem; border-top: 1px solid var(--rule); }
figure { margin: 1.2rem 0 0; }
.panels { display: flex; flex-wrap: wrap; gap: 1.2rem 1.4rem; align-items: flex-start; }
.panel { max-width: 100%; overflow-x: auto; border-radius: 6px; }
.panel:target { outline: 3px solid var(--accent); outline-offset: 4px; }
.small-panels { gap: 0.4rem 0.8rem; }
.group { flex-basis: 100%; margin: 0.6rem 0 -0.3rem; font-size: 0.88rem; font-weight: 600; }
details { margin-top: 1.2rem; }
summary { cursor: pointer; font-weight: 600; font-size: 0.88rem; }
summary .count { color: var(--soft); font-weight: 400; } summary .bad { color: var(--bad); }
svg { display: block; max-width: 100%; height: auto; background: none; font-family: inherit; }
svg a:hover rect, svg a:focus rect { stroke: var(--ink); stroke-width: 2; }
figcaption { margin-top: 0.9rem; font-size: 0.95rem; }
.reference { margin: 0.5rem 0 0; color: var(--soft); font-size: 0.85rem; }
.miss { margin: 0.6rem 0 0; padding: 0.4rem 0.8rem; border-left: 4px solid var(--bad); background: var(--bad-paper);
  color: var(--bad); font-size: 0.88rem; }
.scroll { overflow-x: auto; margin-top: 0.4rem; }
table { border-collapse: collapse; font-size: 0.82rem; font-variant-numeric: tabular-nums; }
.table-title { margin: 1.5rem 0 0; font-weight: 600; font-size: 0.88rem; }
th, td { padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th.text, td.text, th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
td.bad { color: var(--bad); font-weight: 600; }
.methods { margin-top: 3.6rem; padding: 1.4rem 1.6rem; background: var(--panel); border-radius: 10px; }
.methods dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.2rem; margin: 0.8rem 0 0;
  font-size: 0.88rem; }
.methods dt { color: var(--soft); }
.methods dd { margin: 0; overflow-wrap: anywhere; }
pre { margin: 0.9rem 0; padding: 0.8rem 1rem; overflow-x: auto; background: var(--paper); border: 1px solid var(--rule);
  border-radius: 6px; font: 0.88rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
@media (max-width: 600px) { body { font-size: 16px; } main { padding: 2rem 1rem 3rem; } h1 { font-size: 1.73rem; }
  .headline { font-size: 1.1rem; } nav ol { columns: 1; } .methods { padding: 1.1rem; }
  .small-panels .panel { width: calc(50% - 0.4rem); } .small-panels svg { width: 100%; }
  .methods dl { grid-template-columns: 1fr; gap: 0; } .methods dd { margin-bottom: 0.5rem; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --rule: #bbb; --panel: #fff;
  --accent: #0072b2; --bad: #b42318; --bad-paper: #fff; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } nav { display: none; } a { color: inherit; }
  .panel, table, .methods { break-inside: avoid; } h2 { break-after: avoid; } .scroll { overflow: visible; }
  details::details-content { display: block; content-visibility: visible; block-size: auto; } }
</style>
)";

std::string paragraph(std::string_view style, std::string_view text) {
  return text.empty() ? "" : fmt::format("<p class=\"{}\">{}</p>\n", style, svg_escape(text));
}

// Columns of words stand at the left.
bool is_text(const ReportTable& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const std::vector<ReportCell>& row) {
    const std::string text = column < row.size() ? row[column].text : "";
    return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 && text != "never";
  });
}

// The table alone.
std::string cells_of(const ReportTable& table) {
  std::string text = "<div class=\"scroll\"><table>\n";
  text += "<thead><tr>";
  for (std::size_t k = 0; k < table.columns.size(); ++k)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", is_text(table, k) ? " class=\"text\"" : "",
                        svg_escape(table.columns[k]));
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    text += "<tr>";
    for (std::size_t k = 0; k < table.rows[i].size(); ++k) {
      const ReportCell& cell = table.rows[i][k];
      constexpr const char* kClasses[2][2] = {{"", " class=\"bad\""}, {" class=\"text\"", " class=\"text bad\""}};
      text += fmt::format("<td{}>{}</td>", kClasses[is_text(table, k)][cell.missed], svg_escape(cell.text));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

// Under its title; a long one folds into it.
std::string text_of(const ReportTable& table) {
  if (table.rows.size() <= 12) return paragraph("table-title", table.title) + cells_of(table);
  const std::size_t missed = table.missed();
  const std::string bad = missed == 0 ? "" : fmt::format(", <span class=\"bad\">{} in red</span>", missed);
  return fmt::format("<details>\n<summary>{} <span class=\"count\">({} rows{})</span></summary>\n{}</details>\n",
                     svg_escape(table.title), table.rows.size(), bad, cells_of(table));
}

std::string text_of(const Figure& figure, std::size_t number) {
  std::string text = fmt::format("<section class=\"figure\" id=\"{}\">\n<h2>{}. {}</h2>\n",
                                 svg_escape(figure.id), number, svg_escape(figure.title));
  text += paragraph("lead", figure.lead);
  text += fmt::format("<figure>\n<div class=\"panels{}\">\n", figure.small_panels ? " small-panels" : "");
  std::string group;
  for (const Panel& panel : figure.panels) {
    if (panel.group != group) text += fmt::format("<h3 class=\"group\">{}</h3>\n", svg_escape(group = panel.group));
    const std::string id = panel.id.empty() ? "" : fmt::format(" id=\"{}\"", svg_escape(panel.id));
    text += fmt::format("<div class=\"panel\"{}>\n{}</div>\n", id, panel.picture.inline_text(panel.title));
  }
  text += "</div>\n";
  if (!figure.caption.empty())
    text += fmt::format("<figcaption>{}</figcaption>\n", svg_escape(figure.caption));
  text += "</figure>\n";
  for (const std::string& line : figure.references) text += paragraph("reference", line);
  for (const std::string& line : figure.misses) text += paragraph("miss", line);
  for (const ReportTable& table : figure.tables) text += text_of(table);
  return text + "</section>\n";
}

std::string methods(const Report& report) {
  std::string text = "<section class=\"methods\" id=\"methods\">\n<h2>How this was made</h2>\n";
  text += paragraph("lead", report.method);
  text += fmt::format("<pre>{}</pre>\n<dl>\n", svg_escape(report.command));
  for (const auto& [name, value] : report.settings)
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", svg_escape(name), svg_escape(value));
  return text + "</dl>\n</section>\n";
}

}  // namespace

std::size_t ReportTable::missed() const {
  std::size_t count = 0;
  for (const auto& row : rows)
    for (const ReportCell& cell : row) count += cell.missed;
  return count;
}

std::string html(const Report& report) {
  std::string text =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n";
  text += fmt::format("<title>{}</title>\n", svg_escape(report.title));
  text += std::string(show::svg_style()) + std::string(kStyle) + "</head>\n<body>\n<main>\n<header id=\"top\">\n";
  text += paragraph("kicker", report.question);
  text += fmt::format("<h1>{}</h1>\n", svg_escape(report.title));
  text += paragraph("headline", report.headline);
  for (const std::string& note : report.notes) text += paragraph("note", note);
  text += "<nav><ol>\n";
  for (const Figure& figure : report.figures)
    text += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", svg_escape(figure.id), svg_escape(figure.title));
  text += "<li><a href=\"#methods\">How this was made</a></li>\n</ol></nav>\n</header>\n";
  for (std::size_t i = 0; i < report.figures.size(); ++i) text += text_of(report.figures[i], i + 1);
  return text + methods(report) + "</main>\n</body>\n</html>\n";
}

}  // namespace attune::studies
