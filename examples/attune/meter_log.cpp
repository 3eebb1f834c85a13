#include "meter_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "attune/examples/show/table.h"
#include "attune/layers/draw.h"

namespace attune::program {
namespace {

constexpr std::size_t kMostHeads = 12;  // of the summary's table

std::string head_of(const HeadReading& r) { return fmt::format("{},{},{}", r.path, r.call, r.head); }

// "layer 0 head 1", as alarms call it.
std::string title_of(const HeadReading& r) {
  const std::string sentence = describe(r);
  return sentence.substr(0, sentence.find(':'));
}

}  // namespace

void MeterLog::note() {
  for (const HeadReading& r : meter_.readings())
    rows_.push_back({r.step, head_of(r), r.entropy.median, attention_csv_row(r)});
}

std::string MeterLog::text() const {
  std::string text = attention_csv_header() + '\n';
  for (const Row& row : rows_) text += row.line + '\n';
  return text;
}

void MeterLog::restore(const std::string& text, Index step) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line != attention_csv_header()) throw std::runtime_error("attention.csv does not start with its names");
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;  // step,path,call,head,rows,keys,entropy_mean,entropy_median
    std::istringstream all(line);
    for (std::string cell; cells.size() < 8 && std::getline(all, cell, ',');) cells.push_back(cell);
    cells.resize(8);
    Row row{std::atoll(cells[0].c_str()), fmt::format("{},{},{}", cells[1], cells[2], cells[3]),
            std::strtod(cells[7].c_str(), nullptr), line};
    if (row.step < step) rows_.push_back(std::move(row));
  }
}

std::vector<double> MeterLog::entropies_of(const std::string& head) const {
  std::vector<double> numbers;
  for (const Row& row : rows_)
    if (row.head == head) numbers.push_back(row.entropy);
  return numbers;
}

std::string MeterLog::summary(const show::Terminal& terminal, double seconds) const {
  std::vector<const HeadReading*> heads;
  for (const HeadReading& reading : meter_.readings()) heads.push_back(&reading);
  if (heads.empty()) return "";
  std::stable_sort(heads.begin(), heads.end(), [](const HeadReading* a, const HeadReading* b) {
    return a->dead != b->dead ? a->dead > b->dead : a->entropy.median < b->entropy.median;
  });

  show::Table table({{"Attention"},
                     {"entropy, from first to last"},
                     {"sigma", show::Align::right},
                     {"freezing", show::Align::right},
                     {"dead rows", show::Align::right}});
  for (std::size_t i = 0; i < std::min(heads.size(), kMostHeads); ++i) {
    const HeadReading& r = *heads[i];
    const std::vector<double> entropies = entropies_of(head_of(r));
    table.row({title_of(r),
               fmt::format("{:.2f} {} {:.2f}", entropies.front(), sparkline(entropies, 20), entropies.back()),
               fmt::format("{:.1f}", r.deviation.median), fmt::format("{:.1f}", r.freezing_point()),
               fmt::format("{:.0f} %", 100 * r.dead)});
  }
  std::string text = table.text(terminal);
  text +=
      "Entropy: of the most that the keys allow. Sigma: the deviation of the scores;\n"
      "above freezing, √(2 ln n) of n keys, random scores give one-hot rows. Dead:\n"
      "rows whose softmax passes no gradient on. A head is saturated where sigma is\n"
      "above freezing and half of its rows are dead.\n";
  if (heads.size() > kMostHeads) text += fmt::format("and {} more heads, less saturated\n", heads.size() - kMostHeads);
  const std::vector<std::string> alarms = meter_.alarms();
  for (std::size_t i = 0; i < std::min(alarms.size(), kMostHeads); ++i)
    text += show::paint(terminal, show::Style::yellow, alarms[i]) + '\n';
  text += alarms.empty()
              ? "No head is saturated.\n"
              : "A head that has found its key is one-hot, too: it is at a high loss that this is a fault.\n";
  return text + fmt::format("attention.csv has all of it; measuring took {:.1f} % of the time.\n\n",
                            100 * meter_.seconds() / std::max(1e-9, seconds));
}

}  // namespace attune::program
