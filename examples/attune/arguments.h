// What the user wrote behind a command, and how it is read: every fault is one line that names the option, its value,
// and what would do.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "attune/examples/show/terminal.h"
#include "attune/lib/number.h"

namespace attune::program {

// The user's mistake: exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

// What is above `least` (or equal to it), and below `most` (or equal).
struct Interval {
  double least, most;
  bool open_least = false, open_most = false;

  bool contains(double number) const;
  std::string text() const;
};

class Arguments {
 public:
  std::vector<std::string> operands;
  std::map<std::string, std::string> options;  // those that were given; a switch has an empty text
  std::vector<std::string> command_line;
  bool plain = false, verbose = false;

  bool has(const std::string& name) const { return options.contains(name); }
  std::string text(const std::string& name, std::string otherwise = "") const;
  // `example` is shown where the value is wrong.
  Index integer(const std::string& name, Index otherwise, Index least, Index most, Index example) const;
  std::uint64_t seed(const std::string& name, std::uint64_t otherwise) const;
  double number(const std::string& name, double otherwise, const Interval& interval, double example) const;

  show::Terminal out() const;  // of standard output
  show::Terminal err() const;
};

// `name` if it is one of them; else an error: "--preset tinny: no such preset; did you mean tiny? There are ...". An
// operand has no option.
std::string one_of(const std::string& option, const std::string& kind, const std::string& name,
                   std::span<const std::string> names);

// For a shell: in quotation marks where it needs them.
std::string shell_word(const std::string& text);
// 1234567 as "1,234,567".
std::string grouped(Index number);
// Bytes as "1.2 MB", tokens a second as "12.3k".
std::string bytes_text(double bytes);
std::string rate_text(double rate);

}  // namespace attune::program
