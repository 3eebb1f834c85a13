// The table of what check_op and check_layer measured, printed after the last test where the environment has ATTUNE_TABLE.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "op_check.h"

namespace attune::check_ops {
namespace {

constexpr const char* kHeadings[kColumns] = {"values",    "f32",    "gradcheck", "dual", "second", "strided",
                                             "broadcast", "f(x,x)", "adds",      "rows", "saves",  "points",
                                             "errors"};

std::vector<OpReport>& all_reports() {
  static std::vector<OpReport> reports;
  return reports;
}

// Reasons in the order in which they come up; the first has the letter a.
using Reasons = std::vector<std::string>;

std::string letter(Reasons& known, const std::string& reason) {
  const auto at = std::find(known.begin(), known.end(), reason) - known.begin();
  if (at == std::ssize(known)) known.push_back(reason);
  return std::string(1, static_cast<char>('a' + at));
}

std::string cell(const OpReport& report, Column column, Reasons& known) {
  if (const auto reason = report.reasons.find(column); reason != report.reasons.end())
    return "- " + letter(known, reason->second);
  if (column == Column::saves)
    return !report.saves ? "-" : *report.saves == Saves::values ? "values" : "nothing";
  if (const auto worst = report.worst.find(column); worst != report.worst.end())
    return worst->second == 0 ? "0" : fmt::format("{:.1e}", worst->second);
  if (const auto equal = report.equal.find(column); equal != report.equal.end())
    return fmt::format("{} =", equal->second);
  return "-";
}

void merge(OpReport& into, const OpReport& report) {
  for (const auto& [column, error] : report.worst) {
    double& worst = into.worst[column];
    if (!(error <= worst)) worst = error;
  }
  for (const auto& [column, count] : report.equal) into.equal[column] += count;
  into.reasons.insert(report.reasons.begin(), report.reasons.end());
  if (!into.saves || report.saves == Saves::values) into.saves = report.saves ? report.saves : into.saves;
}

struct TablePrinter : doctest::IReporter {
  explicit TablePrinter(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats&) override {
    const char* wanted = std::getenv("ATTUNE_TABLE");
    if (!wanted || all_reports().empty()) return;
    fmt::print("{}", table(std::string_view(wanted) == "all" ? all_reports() : by_op(all_reports())));
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("ops", 1, TablePrinter);

}  // namespace

std::string table(std::span<const OpReport> reports) {
  std::size_t width = 2;
  for (const OpReport& report : reports) width = std::max(width, report.name.size());
  std::string text = fmt::format("{:<{}}", "op", width);
  for (const char* heading : kHeadings) text += fmt::format("  {:>9}", heading);
  text += '\n';
  Reasons known;
  for (const OpReport& report : reports) {
    text += fmt::format("{:<{}}", report.name, width);
    for (int column = 0; column < kColumns; ++column)
      text += fmt::format("  {:>9}", cell(report, static_cast<Column>(column), known));
    text += '\n';
  }
  if (known.empty()) return text;
  for (const std::string& reason : known) text += fmt::format("- {}  {}\n", letter(known, reason), reason);
  text += "-    an op has no such thing: no derivative, one operand, nothing that stretches, no kink\n";
  return text;
}

std::vector<OpReport> by_op(std::span<const OpReport> cases) {
  std::vector<OpReport> ops;
  for (const OpReport& one : cases) {
    const std::string name = one.name.substr(0, one.name.find(','));
    auto op = std::find_if(ops.begin(), ops.end(), [&](const OpReport& known) { return known.name == name; });
    if (op == ops.end()) {
      op = ops.emplace(ops.end());
      op->name = name;
    }
    merge(*op, one);
  }
  return ops;
}

void add_to_table(OpReport report) { all_reports().push_back(std::move(report)); }

}  // namespace attune::check_ops
