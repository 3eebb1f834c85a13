// A progress bar on a terminal, and nothing elsewhere. On stderr, so that a program's output stays its own.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

class Progress {
 public:
  explicit Progress(long total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

  // `text` stands behind the bar. Drawn at most twenty times a second.
  void show(long done, const std::string& text) {
    const double now = seconds();
    if (!shown_ || (now - last_ < 0.05 && done < total_)) return;
    last_ = now;
    constexpr int width = 24;
    const int filled = static_cast<int>(width * done / (total_ > 0 ? total_ : 1));
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    const double left = done > 0 ? now * static_cast<double>(total_ - done) / static_cast<double>(done) : 0;
    fmt::print(stderr, "\r\033[K{} {}/{}  {}  {:.0f} s left", bar, done, total_, text, left);
    std::fflush(stderr);
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  long total_;
  bool shown_;
  double last_ = -1;
};
