#include "attune/examples/show/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace attune::show {

std::string duration(double seconds) {
  if (!(seconds < 1e9)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(long total, long done) : Progress(total, done, terminal(STDERR_FILENO)) {}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::show(long done, const std::string& text) {
  const double now = seconds(), passed = now - last_time_;
  if (passed > 0 && done > last_done_) {
    const double rate = static_cast<double>(done - last_done_) / passed, kept = std::exp2(-passed / 3);
    rate_ = rate_ > 0 ? kept * rate_ + (1 - kept) * rate : rate;
    last_time_ = now, last_done_ = done;
  }
  if (!terminal_.redraws || (last_drawn_ >= 0 && now - last_drawn_ < 0.1 && done < total_)) return;
  last_drawn_ = now, drawn_ = true;
  fmt::print(stderr, "\r\033[K{}", line(done, text));
  std::fflush(stderr);
}

std::string Progress::line(long done, const std::string& text) const {
  const std::string before = fmt::format("{}/{} ", done, total_);
  const std::string left = rate_ > 0 ? "  " + duration(static_cast<double>(total_ - done) / rate_) + " left" : "";
  // The last column stays free: some terminals would start a new line. Where it is narrow, the text gives way.
  const int room = std::max(0, terminal_.width - 1 - columns(before));
  const int width = std::clamp(room - columns(text) - columns(left) - 2, std::min(room, 6), 30);
  const int text_room = room - width - columns(left) - 2;
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string full, empty;
  for (int i = 0; i < width; ++i) (i < filled ? full : empty) += i < filled ? "━" : "─";
  std::string line = before + paint(terminal_, Style::green, full) + paint(terminal_, Style::dim, empty);
  if (text_room > 0) line += "  " + shorten(text, text_room);
  return columns(line) + columns(left) <= room + columns(before) ? line + left : line;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false, last_drawn_ = -1;
}

}  // namespace attune::show
