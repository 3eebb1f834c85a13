// The table of what check_op measured, printed after the last test where ATTUNE_TABLE=1.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "op_check.h"

namespace attune::check_ops {
namespace {

std::vector<OpReport>& reports() {
  static std::vector<OpReport> all;
  return all;
}

constexpr const char* kHeadings[kColumns] = {"values",    "f32",    "gradcheck", "dual", "second", "strided",
                                             "broadcast", "f(x,x)", "adds",      "rows", "saves",  "errors"};

std::string cell(const OpReport& report, Column column) {
  if (column == Column::saves) return report.saves == Saves::values ? "values" : "nothing";
  if (const auto worst = report.worst.find(column); worst != report.worst.end())
    return worst->second == 0 ? "0" : fmt::format("{:.1e}", worst->second);
  if (const auto equal = report.equal.find(column); equal != report.equal.end()) return fmt::format("{} =", equal->second);
  return "-";
}

// Prints the table when the last test has run, whichever ran.
struct TablePrinter : doctest::IReporter {
  explicit TablePrinter(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats&) override {
    const char* wanted = std::getenv("ATTUNE_TABLE");
    if (wanted && std::string_view(wanted) == "1" && !reports().empty()) fmt::print("{}", table());
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

void add_to_table(OpReport report) { reports().push_back(std::move(report)); }

std::string table() {
  std::size_t width = 2;
  for (const OpReport& report : reports()) width = std::max(width, report.name.size());
  std::string text = fmt::format("{:<{}}", "op", width);
  for (const char* heading : kHeadings) text += fmt::format("  {:>9}", heading);
  text += '\n';
  for (const OpReport& report : reports()) {
    text += fmt::format("{:<{}}", report.name, width);
    for (int column = 0; column < kColumns; ++column)
      text += fmt::format("  {:>9}", cell(report, static_cast<Column>(column)));
    text += '\n';
  }
  return text;
}

}  // namespace attune::check_ops
