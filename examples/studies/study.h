// The frame of a study: many small, independent runs, kept as they finish, and a report at the end.
//
// A study is one file that says what its runs are, how one is made, and how the report is drawn (depth.cpp is
// a short one). The frame does the rest: it makes runs on as many threads as there are, each run on one;
// writes each to a file of its own under DIR/parts/ when it is done, so that a study that was killed goes on
// where it was, and ends with the same bytes; and writes DIR/runs.csv, DIR/summary.csv, DIR/report.html
// and, where the study has one, DIR/picture.svg from these files. What they contain is a function of the study, its version and its axes; nothing of the
// machine or the time is in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "attune/examples/show/terminal.h"
#include "attune/examples/studies/report.h"

namespace attune::studies {

// How much: twenty seconds, three minutes, a quarter of an hour, on two cores.
enum class Size { quick, usual, full };

// Which numbers an axis may be. A seed is any of 64 bits, without a sign.
enum class Numbers { none, any, positive, whole, seed };

// What can differ between runs. `usual` is its value where a run does not say.
struct Axis {
  std::string name, meaning, usual;
  Numbers numbers = Numbers::any;
  std::vector<std::string> words = {};  // what it may be besides
  std::uint64_t least = 1;              // of whole numbers
};

// Values for axes, in the order in which they were asked for.
using AxisValues = std::vector<std::pair<std::string, std::vector<std::string>>>;

// What is asked of a study: a size, or a sweep of one's own over the product of some axes.
struct Request {
  Size size = Size::usual;
  AxisValues axes = {};
};

// One run: its settings, one for each axis that is not as usual.
struct Run {
  std::vector<std::pair<std::string, std::string>> settings;
  double seconds = 1;  // about how long it takes on one core: for the progress bar, and for who goes first

  // "d=32 rule=1/sqrt": what it is called, and what its numbers depend on besides the study.
  std::string key() const;
};

// What a run found. Numbers are kept to nine digits; NaN is a missing one.
struct Record {
  std::vector<std::vector<double>> rows;  // for runs.csv: one for each logged step, as Study::columns
  std::vector<double> outcomes;           // for summary.csv, as Study::outcomes
  std::vector<std::pair<std::string, std::vector<double>>> extras;  // for the report alone

  const std::vector<double>* extra(const std::string& name) const;
};

struct Result {
  Run run;
  Record record;
};

struct Study {
  std::string name, question;  // "saturation", "When does ...?"
  int revision = 1;            // of its numbers: parts of another revision are made again
  std::vector<Axis> axes;
  std::vector<std::string> columns, outcomes;

  // The runs, none twice.
  std::function<std::vector<Run>(const Request&)> plan;
  // Makes one. Called on several threads at once; `progress` may be told the share that is done.
  std::function<Record(const Run&, const std::function<void(double)>& progress)> make;
  // Draws the report, but for its method's settings and command, which the frame adds.
  std::function<Report(const Request&, const std::vector<Result>&)> draw;

  // What the run has on that axis, or as usual.
  std::string setting(const Run& run, const std::string& axis) const;
  double number(const Run& run, const std::string& axis) const;
  // What it has on the axis "seed", to the last bit.
  std::uint64_t seed(const Run& run) const;
  // The record's outcome of that name.
  double outcome(const Result& result, const std::string& name) const;
  // The place of a column of runs.csv.
  std::size_t column(const std::string& name) const;
};

// All that there are. A new study is declared in study.cpp, and listed there.
const std::vector<const Study*>& all_studies();
// std::invalid_argument lists them where there is none of that name.
const Study& study_named(const std::string& name);

// "d=32,128 rule=1,1/sqrt": axes from words, checked against what the study has, and what each of them may be.
AxisValues axis_values(const Study& study, const std::vector<std::string>& words);
// All combinations of the values, the last axis fastest.
std::vector<Run> product(const AxisValues& values);

// The command that makes the same again: "attune study saturation --quick".
std::string command_of(const Study& study, const Request& request);

struct Outcome {
  std::size_t runs = 0, kept = 0;  // how many there are, and how many of them stood in the folder before
  double seconds = 0;
  std::string headline = {};
};

// Makes what is missing, with a progress bar on `terminal` (that of stderr), and writes the files into
// `folder`, which may exist. Only one study at a time in a process: it sets threads() to 1 while it works. An
// error of a run ends it, and is thrown.
Outcome carry_out(const Study& study, const Request& request, const std::string& folder,
                  const show::Terminal& terminal);

}  // namespace attune::studies
