// How near the matrix product comes to what the CPU can do: GFLOP/s, and per cent of the peak measured beside
// it.
//
//   gemm_bench [--row avx512] [--threads 1] [--type f32] [--layout NN] [--only TEXT] [--quick]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "attune/lib/kernels/gemm.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"
#include "peak.h"

namespace {

using namespace attune;

// [batch, rows, depth] x [batch, depth, columns]; a batch of 0 is none.
struct Product {
  const char* name;
  Index rows, columns, depth;
  const char* layouts;  // those that are worth a line
  Index batch = 1;
};

const Product kProducts[] = {
    {"16", 16, 16, 16, "NN NT TN"},          {"32", 32, 32, 32, "NN NT TN"},
    {"48", 48, 48, 48, "NN NT TN"},          {"64", 64, 64, 64, "NN NT TN"},
    {"96", 96, 96, 96, "NN NT TN"},          {"128", 128, 128, 128, "NN NT TN"},
    {"256", 256, 256, 256, "NN NT TN"},      {"512", 512, 512, 512, "NN NT TN"},
    {"1024", 1024, 1024, 1024, "NN NT TN"},  {"2048", 2048, 2048, 2048, "NN NT TN"},
    {"qkv forward", 768, 384, 128, "NN"},    {"projection forward", 768, 128, 128, "NN"},
    {"up forward", 768, 512, 128, "NN"},     {"down forward", 768, 128, 512, "NN"},
    {"head forward", 768, 65, 128, "NT"},    {"qkv dX", 768, 128, 384, "NT"},
    {"projection dX", 768, 128, 128, "NT"},  {"up dX", 768, 128, 512, "NT"},
    {"down dX", 768, 512, 128, "NT"},        {"head dX", 768, 128, 65, "NN"},
    {"qkv dW", 128, 384, 768, "TN"},         {"projection dW", 128, 128, 768, "TN"},
    {"up dW", 128, 512, 768, "TN"},          {"down dW", 512, 128, 768, "TN"},
    {"head dW", 65, 128, 768, "TN"},         {"heads scores", 64, 64, 32, "NT", 48},
    {"heads output", 64, 32, 64, "NN", 48},  {"vector", 1, 768, 768, "NN NT"},
    {"to one column", 768, 1, 768, "NN TN"},
};

struct Options {
  std::string row, type, layout, only;
  int threads = 0;
  bool quick = false;
};

// One thread is measured by the time that it had a CPU, so that whatever else runs matters less.
double now(int threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds_of(int threads, const auto& work) {
  const double start = now(threads);
  work();
  return now(threads) - start;
}

template <class T>
void measure(const Product& p, const std::string& layout, const Options& options, int threads) {
  std::vector<T> a(static_cast<std::size_t>(p.batch * p.rows * p.depth) + 16, T(0.5));
  std::vector<T> b(static_cast<std::size_t>(p.batch * p.depth * p.columns) + 16, T(0.25));
  std::vector<T> c(static_cast<std::size_t>(p.batch * p.rows * p.columns) + 16);
  const auto aligned = [](std::vector<T>& v) {
    return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(v.data()) + 63) / 64 * 64);
  };
  const DType type = dtype_of<T>;
  const bool a_transposed = layout[0] == 'T', b_transposed = layout[1] == 'T';
  ConstView left(aligned(a), a_transposed ? Shape{p.batch, p.depth, p.rows} : Shape{p.batch, p.rows, p.depth},
                 type);
  ConstView right(aligned(b),
                  b_transposed ? Shape{p.batch, p.columns, p.depth} : Shape{p.batch, p.depth, p.columns},
                  type);
  if (a_transposed) left = left.t();
  if (b_transposed) right = right.t();
  const View result(aligned(c), Shape{p.batch, p.rows, p.columns}, type);

  // Blocks of calls, each long enough for the clock, alternate with measurements of the peak.
  const double flop = 2.0 * static_cast<double>(p.batch * p.rows * p.columns * p.depth);
  const auto call = [&] { kernels::gemm(result, left, right); };
  call();
  const double once = std::min(seconds_of(threads, call), seconds_of(threads, call));
  const int calls = std::max(1, static_cast<int>((options.quick ? 5e-4 : 2e-3) / once));
  const int blocks = options.quick ? 5 : 9;
  std::vector<double> rates, shares;
  for (int block = 0; block < blocks; ++block) {
    const double peak = bench::peak_gflops() / (sizeof(T) / sizeof(float)) * threads;
    const double seconds = seconds_of(threads, [&] {
      for (int i = 0; i < calls; ++i) call();
    });
    rates.push_back(flop * calls / seconds * 1e-9);
    shares.push_back(100 * rates.back() / peak);
  }
  const auto median = [](std::vector<double>& v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  };
  const double rate = median(rates), share = median(shares), best = shares.back();  // sorted by median()
  fmt::print("{:6} {:4} {} {:7} {:18} {:2} {:5}x{:4}x{:4} {:8.1f} {:6.1f}% {:6.1f}%\n", row(), name_of(type),
             threads, layout, p.name, p.batch, p.rows, p.columns, p.depth, rate, share, best);
  std::fflush(stdout);
}

void measure_all(const Options& options) {
  for (const auto& row : supported_rows()) {
    if (!options.row.empty() && options.row != row) continue;
    set_row(row);
    for (int threads : {1, 2}) {
      if (options.threads && options.threads != threads) continue;
      set_threads(threads);
      for (const char* type : {"f32", "f64"}) {
        if (!options.type.empty() && options.type != type) continue;
        for (const Product& p : kProducts) {
          if (row == "scalar" && p.batch * p.rows * p.columns * p.depth > 256 * 256 * 256) continue;
          if (options.quick && p.rows * p.columns * p.depth > Index{1} << 30) continue;
          if (!options.only.empty() && std::string(p.name).find(options.only) == std::string::npos) continue;
          for (const char* layout : {"NN", "NT", "TN"}) {
            if (!std::strstr(p.layouts, layout)) continue;
            if (!options.layout.empty() && options.layout != layout) continue;
            type == std::string("f32") ? measure<float>(p, layout, options, threads)
                                       : measure<double>(p, layout, options, threads);
          }
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (option == "--row")
      options.row = value();
    else if (option == "--threads")
      options.threads = std::stoi(value());
    else if (option == "--type")
      options.type = value();
    else if (option == "--layout")
      options.layout = value();
    else if (option == "--only")
      options.only = value();
    else if (option == "--quick")
      options.quick = true;
    else {
      fmt::print(stderr, "gemm_bench: unknown option '{}'\n", option);
      return 2;
    }
  }
  fmt::print("peak of one core: {:.0f} GFLOP/s f32\n", bench::peak_gflops());
  fmt::print("{:6} {:4} {} {:7} {:18} {:2} {:>15} {:>8} {:>7} {:>7}\n", "row", "type", "t", "layout",
             "product", "n", "rows x cols x k", "GFLOP/s", "of peak", "best");
  measure_all(options);
}
