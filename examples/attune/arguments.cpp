#include "arguments.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "attune/layers/names.h"

namespace attune::program {
namespace {

template <class Number>
bool parse(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string shown(const std::string& text) { return text.empty() ? "''" : show::shorten(show::visible(text), 60); }

}  // namespace

bool Interval::contains(double number) const {
  return std::isfinite(number) && (open_least ? number > least : number >= least) &&
         (open_most ? number < most : number <= most);
}

std::string Interval::text() const {
  const std::string from = fmt::format("{} {}", open_least ? "above" : "from", least);
  if (std::isinf(most)) return from + (open_least ? "" : " up");
  return fmt::format("{} {} {}", from, open_most ? "and below" : "to", most);
}

std::string Arguments::text(const std::string& name, std::string otherwise) const {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : found->second;
}

Index Arguments::integer(const std::string& name, Index otherwise, Index least, Index most, Index example) const {
  if (!has(name)) return otherwise;
  Index number = 0;
  if (parse(text(name), number) && number >= least && number <= most) return number;
  refuse("{} {}: give a whole number from {} to {}, such as {} {}", name, shown(text(name)), least, most, name,
         example);
}

std::uint64_t Arguments::seed(const std::string& name, std::uint64_t otherwise) const {
  if (!has(name)) return otherwise;
  std::uint64_t number = 0;
  if (parse(text(name), number)) return number;
  refuse("{} {}: give a whole number from 0 to 2^64 - 1, such as {} 1", name, shown(text(name)), name);
}

double Arguments::number(const std::string& name, double otherwise, const Interval& interval, double example) const {
  if (!has(name)) return otherwise;
  double number = 0;
  if (parse(text(name), number) && interval.contains(number)) return number;
  refuse("{} {}: give a number {}, such as {} {}", name, shown(text(name)), interval.text(), name, example);
}

show::Terminal Arguments::out() const { return show::terminal(STDOUT_FILENO, plain); }
show::Terminal Arguments::err() const { return show::terminal(STDERR_FILENO, plain); }

std::string one_of(const std::string& option, const std::string& kind, const std::string& name,
                   std::span<const std::string> names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  refuse("{}{}: {}", option.empty() ? "" : option + " ", shown(name), no_such(kind, name, names));
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(safe) == text.npos) return text;
  std::string word(1, '\'');
  for (const char c : text) {
    if (c == '\'') word += "'\\'";  // out of the quotation marks, the mark itself, and in again
    word += c;
  }
  word += '\'';
  return word;
}

std::string grouped(Index number) {
  std::string text = fmt::format("{}", number);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > (number < 0 ? 1 : 0); place -= 3)
    text.insert(static_cast<std::size_t>(place), 1, ',');
  return text;
}

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  for (const char* unit : {"kB", "MB", "GB"})
    if ((bytes /= 1000) < 999.5) return fmt::format("{:.{}f} {}", bytes, bytes < 9.95 ? 1 : 0, unit);
  return fmt::format("{:.3g} TB", bytes / 1000);
}

std::string rate_text(double rate) {
  if (rate < 999.5) return fmt::format("{:.0f}", rate);
  rate /= 1000;
  return rate < 999.5 ? fmt::format("{:.{}f}k", rate, rate < 99.5 ? 1 : 0) : fmt::format("{:.1f}M", rate / 1000);
}

}  // namespace attune::program
