#include "attune/lib/kernels/rows.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "attune/lib/error.h"

namespace attune {
namespace {

using kernels::Table;

// What a CPU must have, and what the operating system must save on a context switch, for a row to run.
struct Cpu {
  unsigned ecx1 = 0, ebx7 = 0, state = 0;

  Cpu() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    ecx1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) ebx7 = b;
    constexpr unsigned osxsave = 1u << 27;
    if (ecx1 & osxsave) {
      unsigned low = 0, high = 0;
      asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      state = low;
    }
  }
  bool saves(unsigned registers) const { return (state & registers) == registers; }
  bool avx2() const {
    constexpr unsigned fma = 1u << 12, avx = 1u << 28, avx2 = 1u << 5, xmm_ymm = 0x6;
    return (ecx1 & fma) && (ecx1 & avx) && (ebx7 & avx2) && saves(xmm_ymm);
  }
  bool avx512() const {
    constexpr unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31, zmm = 0xe6;
    constexpr unsigned all = f | dq | bw | vl;
    return avx2() && (ebx7 & all) == all && saves(zmm);
  }
};

// Best first. A new instruction set is one file and one line here.
struct Row {
  const Table* table;
  bool (*runs)(const Cpu&);
};
constexpr Row kRows[] = {
    {&kernels::kAvx512, [](const Cpu& cpu) { return cpu.avx512(); }},
    {&kernels::kAvx2, [](const Cpu& cpu) { return cpu.avx2(); }},
    {&kernels::kScalar, [](const Cpu&) { return true; }},
};

std::string known_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.table->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const Table* find(std::string_view name) {
  for (const Row& row : kRows)
    if (row.table->name == name) {
      check_environment(row.runs(Cpu()), "instruction set: this machine cannot run '{}'; it can run {}", name,
                        fmt::format("{}", fmt::join(supported_rows(), ", ")));
      return row.table;
    }
  check_environment(false, "instruction set: '{}' is not one of {}", name, known_names());
  return nullptr;
}

const Table* first_choice() {
  const char* forced = std::getenv("ATTUNE_ISA");
  return find(forced && *forced ? forced : supported_rows().front());
}

std::atomic<const Table*> chosen{nullptr};

}  // namespace

const std::vector<std::string>& supported_rows() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Row& row : kRows)
      if (row.runs(Cpu())) result.emplace_back(row.table->name);
    return result;
  }();
  return names;
}

std::string_view row() { return kernels::table().name; }

void set_row(std::string_view name) { chosen.store(find(name), std::memory_order_relaxed); }

const Table& kernels::table() {
  const Table* now = chosen.load(std::memory_order_relaxed);
  if (!now) [[unlikely]] {
    now = first_choice();
    chosen.store(now, std::memory_order_relaxed);
  }
  return *now;
}

}  // namespace attune
