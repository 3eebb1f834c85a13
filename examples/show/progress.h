// A progress bar on a terminal, and nothing elsewhere. On stderr, so that a program's output stays its own.
#pragma once

#include <chrono>
#include <string>

#include "attune/examples/show/terminal.h"

namespace attune::show {

// How long something takes, in the unit that reads best: "3.2 s", "4 min 05 s", "2 h 10 min".
std::string duration(double seconds);

class Progress {
 public:
  // Of `total` steps, `done` of which were made before.
  explicit Progress(long total, long done = 0);
  Progress(long total, long done, const Terminal& terminal) : terminal_(terminal), total_(total), last_done_(done) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` steps are over; `text` stands behind the bar. Drawn at most ten times a second.
  void show(long done, const std::string& text);
  // The line that show() draws.
  std::string line(long done, const std::string& text) const;
  // Takes the bar away, so that other lines can be written; the next show() brings it back.
  void clear();

  double seconds() const;                // since it was made
  double rate() const { return rate_; }  // steps a second of late: an average that halves in about three seconds

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Terminal terminal_;
  long total_, last_done_;
  double last_time_ = 0, last_drawn_ = -1, rate_ = 0;
  bool drawn_ = false;
};

}  // namespace attune::show
