// A study's report: one HTML file, read from disk, without network and without JavaScript.
//
// What stands in it is text until here, where it is escaped; pictures are SVG that was drawn for it. A strict
// content security policy keeps the browser from fetching or running anything, whatever came in.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attune/examples/show/svg.h"

namespace attune::studies {

// A picture with an address in the page, and what it says for those who do not see it.
struct Panel {
  show::Svg picture;
  std::string title = {};  // spoken, not shown: the picture has its own
  std::string id = {};     // "d128-adam": where "#d128-adam" leads
  std::string group = {};  // starts a new row, under this heading, where it is another than the last panel's
};

// In red, where its number misses what it is compared with.
struct ReportCell {
  std::string text;
  bool missed = false;

  ReportCell(std::string what, bool red = false) : text(std::move(what)), missed(red) {}
  ReportCell(const char* what) : text(what) {}
};

// Where it has more than twelve rows a reader has to unfold it.
struct ReportTable {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<ReportCell>> rows = {};

  std::size_t missed() const;  // how many cells are red
};

// One figure: what it is, its pictures side by side as far as there is room, what is seen, and what it is
// held against.
struct Figure {
  std::string id, title;
  std::string lead = {};  // a paragraph before it
  std::vector<Panel> panels = {};
  std::string caption = {};
  std::vector<std::string> references = {};  // published or exact figures, and where they are from
  std::vector<std::string> misses = {};      // where ours differ from these: in red
  std::vector<ReportTable> tables = {};
  bool small_panels = false;  // many of them, side by side on a phone, too
};

struct Report {
  std::string title, question;
  std::string headline = {};            // what was found, in a sentence
  std::vector<std::string> notes = {};  // and what a reader should know before looking
  std::vector<Figure> figures = {};
  Panel picture = {};  // the one to show elsewhere, if there is one: a file of its own
  std::string method = {};                                         // a paragraph
  std::vector<std::pair<std::string, std::string>> settings = {};  // name and value
  std::string command = {};                                        // that makes this page
};

std::string html(const Report& report);

}  // namespace attune::studies
