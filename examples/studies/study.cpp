#include "attune/examples/studies/study.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "attune/examples/show/progress.h"
#include "attune/layers/names.h"
#include "attune/lib/error.h"
#include "attune/lib/file.h"
#include "attune/lib/threads.h"
#include "attune/lib/version.h"

namespace attune::studies {

const Study& saturation();
const Study& depth();

const std::vector<const Study*>& all_studies() {
  static const std::vector<const Study*> all = {&saturation(), &depth()};
  return all;
}

namespace {

namespace fs = std::filesystem;

template <class Items>
std::string joined(const Items& items, const char* between = ",") {
  return fmt::format("{}", fmt::join(items, between));
}

// Nine digits: what a part's file holds is what the report sees, whether it was written just now or long ago.
std::string number_text(double x) { return std::isnan(x) ? "" : fmt::format("{:.9g}", x); }

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  if (text.empty()) return numbers;
  for (const std::string& part : split(text, ','))
    numbers.push_back(part.empty() ? NAN : std::strtod(part.c_str(), nullptr));
  return numbers;
}

std::string line_of(const std::vector<double>& numbers) {
  std::vector<std::string> parts;
  for (const double x : numbers) parts.push_back(number_text(x));
  return joined(parts);
}

// ---- What an axis may be

constexpr std::uint64_t kMostWhole = 1000000000;

template <class Number>
bool parse(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_number_of(const Axis& axis, const std::string& text) {
  if (axis.numbers == Numbers::none) return false;
  if (axis.numbers == Numbers::whole || axis.numbers == Numbers::seed) {
    std::uint64_t whole = 0;
    return parse(text, whole) && (axis.numbers == Numbers::seed || (whole >= axis.least && whole <= kMostWhole));
  }
  double number = 0;
  return parse(text, number) && std::isfinite(number) && (axis.numbers == Numbers::any || number > 0);
}

// "give a number above 0, or auto, such as lr=auto"
std::string advice(const Axis& axis) {
  std::string numbers = "a number";
  if (axis.numbers == Numbers::positive) numbers = "a number above 0";
  if (axis.numbers == Numbers::whole) numbers = fmt::format("a whole number from {} to {}", axis.least, kMostWhole);
  if (axis.numbers == Numbers::seed) numbers = "a whole number from 0 to 2^64 - 1";
  const std::string words = axis.words.empty() ? "" : ", or " + joined(axis.words, ", or ");
  return fmt::format("give {}{}, such as {}={}", numbers, words, axis.name, axis.usual);
}

void check_value(const Study& study, const Axis& axis, const std::string& value) {
  if (is_number_of(axis, value) || std::find(axis.words.begin(), axis.words.end(), value) != axis.words.end()) return;
  check(false, "study {}: {}={}: {}", study.name, axis.name, value,
        axis.numbers == Numbers::none ? no_such(axis.name, value, axis.words) : advice(axis));
}

// ---- Files

// All of it or nothing, also where the power fails: beside it first, and then in its place.
void write_whole(const fs::path& path, const std::string& text) {
  const fs::path beside = fmt::format("{}.{}.tmp", path.string(), getpid());
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  check_environment(file >= 0, "study: cannot write {}", beside.string());
  std::size_t done = 0;
  bool good = true;
  while (good && done < text.size()) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    good = written > 0;
    if (good) done += static_cast<std::size_t>(written);
  }
  good &= fsync(file) == 0;
  good &= close(file) == 0;
  if (good) good = std::rename(beside.c_str(), path.c_str()) == 0;
  if (!good) unlink(beside.c_str());
  check_environment(good, "study: cannot write {}: is the disk full?", path.string());
}

// Of a text: FNV-1a, for a file's name. The file itself says what it is for.
std::string name_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}.part", hash);
}

std::string part_title(const Study& study, const Run& run) {
  return fmt::format("attune {} study {} revision {}: {}", version(), study.name, study.revision, run.key());
}

std::string part_text(const Study& study, const Result& result) {
  std::string text = part_title(study, result.run) + '\n';
  for (const auto& row : result.record.rows) text += "row " + line_of(row) + '\n';
  text += "outcomes " + line_of(result.record.outcomes) + '\n';
  for (const auto& [name, numbers] : result.record.extras)
    text += "extra " + name + ' ' + line_of(numbers) + '\n';
  return text + "end\n";
}

// False where it is not there, or not what it should be: then the run is made again.
bool read_part(const fs::path& path, const Study& study, const Run& run, Record& record) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != part_title(study, run)) return false;
  record = {};
  while (std::getline(file, line)) {
    if (line == "end") return record.outcomes.size() == study.outcomes.size();
    const auto space = line.find(' ');
    const std::string kind = line.substr(0, space), rest = space == line.npos ? "" : line.substr(space + 1);
    if (kind == "row") record.rows.push_back(numbers_of(rest));
    if (kind == "outcomes") record.outcomes = numbers_of(rest);
    if (kind == "extra") {
      const auto second = rest.find(' ');
      record.extras.emplace_back(rest.substr(0, second),
                                 numbers_of(second == rest.npos ? "" : rest.substr(second + 1)));
    }
  }
  return false;
}

// ---- The files of numbers

std::string json_text(std::string_view text) {
  std::string safe = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    if (static_cast<unsigned char>(c) < ' ')
      safe += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      safe += c;
  }
  return safe + '"';
}

// What the runs have on each axis, in the order in which they have it.
AxisValues axes_of(const Study& study, const std::vector<Run>& runs) {
  AxisValues all;
  for (const Axis& axis : study.axes) {
    std::vector<std::string> values;
    for (const Run& run : runs)
      if (const std::string value = study.setting(run, axis.name);
          std::find(values.begin(), values.end(), value) == values.end())
        values.push_back(value);
    all.emplace_back(axis.name, values);
  }
  return all;
}

// The first line of a CSV file: a comment, and JSON.
std::string header(const Study& study, const Request& request, const std::vector<Run>& runs) {
  std::vector<std::string> axes;
  for (const auto& [name, values] : axes_of(study, runs)) {
    std::vector<std::string> texts;
    for (const std::string& value : values) texts.push_back(json_text(value));
    axes.push_back(fmt::format("{}: [{}]", json_text(name), joined(texts, ", ")));
  }
  return fmt::format(
      "# {{\"study\": {}, \"revision\": {}, \"version\": {}, \"command\": {}, \"runs\": {}, \"axes\": "
      "{{{}}}}}\n",
      json_text(study.name), study.revision, json_text(version()), json_text(command_of(study, request)), runs.size(),
      joined(axes, ", "));
}

std::string csv_text(const std::string& text) {
  return text.find_first_of(",\"\n") == text.npos ? text : json_text(text);
}

std::string columns_of(const Study& study, const std::vector<std::string>& more) {
  std::string line = "run";
  for (const Axis& axis : study.axes) line += ',' + axis.name;
  for (const std::string& name : more) line += ',' + name;
  return line + '\n';
}

std::string settings_of(const Study& study, const Run& run, std::size_t number) {
  std::string line = std::to_string(number);
  for (const Axis& axis : study.axes) line += ',' + csv_text(study.setting(run, axis.name));
  return line;
}

std::string runs_csv(const Study& study, const std::string& head, const std::vector<Result>& results) {
  std::string text = head + columns_of(study, study.columns);
  for (std::size_t i = 0; i < results.size(); ++i)
    for (const auto& row : results[i].record.rows)
      text += settings_of(study, results[i].run, i + 1) + ',' + line_of(row) + '\n';
  return text;
}

std::string summary_csv(const Study& study, const std::string& head, const std::vector<Result>& results) {
  std::string text = head + columns_of(study, study.outcomes);
  for (std::size_t i = 0; i < results.size(); ++i)
    text += settings_of(study, results[i].run, i + 1) + ',' + line_of(results[i].record.outcomes) + '\n';
  return text;
}

// ---- Making runs

// threads() as it was, afterwards.
class OneThread {
 public:
  OneThread() : before_(threads()) { set_threads(1); }
  ~OneThread() { set_threads(before_); }
  int before() const { return before_; }

 private:
  int before_;
};

class Workshop {
 public:
  Workshop(const Study& study, std::vector<Result>& results, std::vector<std::size_t> missing, fs::path parts)
      : study_(study), results_(results), missing_(std::move(missing)), parts_(std::move(parts)) {
    // The longest first, so that no thread is left with one at the end.
    std::stable_sort(missing_.begin(), missing_.end(), [&](std::size_t a, std::size_t b) {
      return results_[a].run.seconds > results_[b].run.seconds;
    });
  }

  void work(int workers, const show::Terminal& terminal) {
    double total = 0, left = 0;
    for (const Result& result : results_) total += result.run.seconds;
    for (const std::size_t i : missing_) left += results_[i].run.seconds;
    done_ = milliseconds(total - left);
    show::Progress progress(milliseconds(total), done_, terminal);
    std::vector<std::thread> crew;
    working_ = workers;
    for (int i = 0; i < workers; ++i) crew.emplace_back([this] { take_runs(); });
    while (working_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      progress.show(std::min(done_.load(), milliseconds(total)), doing());
    }
    for (std::thread& one : crew) one.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static long milliseconds(double seconds) { return std::lround(1000 * seconds); }

  void take_runs() {
    try {
      for (std::size_t i = next_++; i < missing_.size() && !failed_; i = next_++) make(results_[missing_[i]]);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
    --working_;
  }

  void make(Result& result) {
    {
      const std::lock_guard lock(mutex_);
      doing_ = result.run.key();
    }
    const long all = milliseconds(result.run.seconds);
    long told = 0;
    const auto tell = [&](double share) {
      const long now = std::lround(static_cast<double>(all) * std::clamp(share, 0.0, 1.0));
      done_ += now - told;
      told = now;
    };
    const Record record = study_.make(result.run, tell);
    check(record.outcomes.size() == study_.outcomes.size(), "study {}: a run has {} outcomes, not {}",
          study_.name, record.outcomes.size(), study_.outcomes.size());
    const fs::path path = parts_ / name_of(result.run.key());
    write_whole(path, part_text(study_, {result.run, record}));
    check_environment(read_part(path, study_, result.run, result.record), "study: {} cannot be read back",
                      path.string());
    done_ += all - told;
  }

  std::string doing() {
    const std::lock_guard lock(mutex_);
    return doing_;
  }

  const Study& study_;
  std::vector<Result>& results_;
  std::vector<std::size_t> missing_;
  fs::path parts_;
  std::atomic<std::size_t> next_{0};
  std::atomic<long> done_{0};
  std::atomic<int> working_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string doing_;
  std::exception_ptr error_;
};

void add_settings(const Study& study, const std::vector<Run>& runs, Report& report) {
  report.settings.emplace_back("version",
                               fmt::format("Attune {}, study {}, revision {}", version(), study.name, study.revision));
  report.settings.emplace_back(
      "runs", fmt::format("{}: their numbers are in summary.csv, their course in runs.csv", runs.size()));
  for (const auto& [name, values] : axes_of(study, runs)) {
    const auto axis = std::find_if(study.axes.begin(), study.axes.end(),
                                   [&, n = name](const Axis& a) { return a.name == n; });
    report.settings.emplace_back(name, joined(values, ", ") + " (" + axis->meaning + ")");
  }
}

}  // namespace

std::string Run::key() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : settings) words.push_back(name + "=" + value);
  return joined(words, " ");
}

const std::vector<double>* Record::extra(const std::string& name) const {
  for (const auto& [its_name, numbers] : extras)
    if (its_name == name) return &numbers;
  return nullptr;
}

std::string Study::setting(const Run& run, const std::string& axis) const {
  for (const auto& [its_name, value] : run.settings)
    if (its_name == axis) return value;
  std::vector<std::string> names;
  for (const Axis& one : axes) {
    if (one.name == axis) return one.usual;
    names.push_back(one.name);
  }
  check(false, "study {}: '{}': {}", name, axis, no_such("axis", axis, names));
  return "";
}

double Study::number(const Run& run, const std::string& axis) const {
  const std::string value = setting(run, axis);
  char* end = nullptr;
  const double x = std::strtod(value.c_str(), &end);
  check(!value.empty() && *end == 0 && std::isfinite(x), "study {}: {}={} is no number", name, axis, value);
  return x;
}

std::uint64_t Study::seed(const Run& run) const {
  const std::string value = setting(run, "seed");
  std::uint64_t number = 0;
  check(parse(value, number), "study {}: seed={} is no whole number from 0 to 2^64 - 1", name, value);
  return number;
}

double Study::outcome(const Result& result, const std::string& which) const {
  const auto at = std::find(outcomes.begin(), outcomes.end(), which);
  if (at == outcomes.end()) check(false, "study {}: '{}': {}", name, which, no_such("outcome", which, outcomes));
  return result.record.outcomes[static_cast<std::size_t>(at - outcomes.begin())];
}

std::size_t Study::column(const std::string& which) const {
  const auto at = std::find(columns.begin(), columns.end(), which);
  if (at == columns.end()) check(false, "study {}: '{}': {}", name, which, no_such("column", which, columns));
  return static_cast<std::size_t>(at - columns.begin());
}

const Study& study_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Study* study : all_studies()) {
    if (study->name == name) return *study;
    names.push_back(study->name);
  }
  check(false, "study '{}': {}", name, no_such("study", name, names));
  return *all_studies().front();
}

AxisValues axis_values(const Study& study, const std::vector<std::string>& words) {
  AxisValues all;
  std::vector<std::string> names;
  for (const Axis& axis : study.axes) names.push_back(axis.name);
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    check(equals != word.npos && equals + 1 < word.size(),
          "study {}: '{}' is not of the form axis=value,value", study.name, word);
    const std::string name = word.substr(0, equals);
    const auto axis = std::find_if(study.axes.begin(), study.axes.end(), [&](const Axis& a) { return a.name == name; });
    if (axis == study.axes.end())
      check(false, "study {}: '{}': {}", study.name, name, no_such("axis", name, names));
    for (const auto& [other, values] : all)
      check(other != name, "study {}: axis '{}' is there twice", study.name, name);
    std::vector<std::string> values;
    for (const std::string& value : split(word.substr(equals + 1), ',')) {
      check(!value.empty(), "study {}: '{}' has an empty value", study.name, word);
      check_value(study, *axis, value);
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    all.emplace_back(name, values);
  }
  return all;
}

std::vector<Run> product(const AxisValues& values) {
  std::vector<Run> runs(1);
  for (const auto& [name, list] : values) {
    std::vector<Run> longer;
    for (const Run& run : runs)
      for (const std::string& value : list) {
        longer.push_back(run);
        longer.back().settings.emplace_back(name, value);
      }
    runs = std::move(longer);
  }
  return runs;
}

std::string command_of(const Study& study, const Request& request) {
  std::string command = "attune study " + study.name;
  if (request.size != Size::usual) command += request.size == Size::quick ? " --quick" : " --full";
  std::vector<std::string> words;
  for (const auto& [name, values] : request.axes) words.push_back(name + '=' + joined(values));
  if (!words.empty()) command += " --axes \"" + joined(words, " ") + '"';
  return command;
}

Outcome carry_out(const Study& study, const Request& request, const std::string& folder,
                  const show::Terminal& terminal) {
  const std::vector<Run> runs = study.plan(request);
  std::vector<Result> results;
  std::set<std::string> keys;
  for (const Run& run : runs) {
    results.push_back({run, {}});
    const std::string key = run.key();
    check(keys.insert(key).second, "study {}: a run is there twice: {}", study.name, key);
  }
  std::error_code error;
  const fs::path place(folder), parts = place / "parts";
  fs::create_directories(parts, error);
  check_environment(!error, "study: cannot make the folder {}", parts.string());
  const FolderLock lock(place);

  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!read_part(parts / name_of(results[i].run.key()), study, results[i].run, results[i].record))
      missing.push_back(i);
  Outcome before;
  before.runs = results.size(), before.kept = results.size() - missing.size();
  const auto start = std::chrono::steady_clock::now();
  if (!missing.empty()) {
    const OneThread scope;
    Workshop(study, results, missing, parts)
        .work(std::min(scope.before(), static_cast<int>(std::min<std::size_t>(missing.size(), 1024))),
              terminal);
  }

  const std::string head = header(study, request, runs);
  write_whole(place / "runs.csv", runs_csv(study, head, results));
  write_whole(place / "summary.csv", summary_csv(study, head, results));
  Report report = study.draw(request, results);
  report.command = command_of(study, request);
  add_settings(study, runs, report);
  write_whole(place / "report.html", html(report));
  if (!report.picture.picture.body.empty())
    write_whole(place / "picture.svg", report.picture.picture.text(report.picture.title));
  Outcome after = before;
  after.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  after.headline = report.headline;
  return after;
}

}  // namespace attune::studies
