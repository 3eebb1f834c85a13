#include "peak.h"

#include <algorithm>
#include <chrono>

#include "attune/lib/kernels/rows.h"

namespace bench {
namespace {

constexpr long kSteps = 2000;

// Twelve chains: two units with a latency of four or five need ten to be busy always. In assembly, so that no
// compiler and no debug build puts them into memory.
#define CHAINS(REGISTER)                                \
  "1:\n"                                                \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "0\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "1\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "2\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "3\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "4\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "5\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "6\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "7\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "8\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "9\n"                                                 \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "10\n"                                                \
  "vfmadd231ps " REGISTER "12," REGISTER "12," REGISTER \
  "11\n"                                                \
  "dec %0\n"                                            \
  "jnz 1b\n"
#define CLOBBERS                                                                                          \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12"

void run_avx2() {
  long steps = kSteps;
  asm volatile("vzeroall\n" CHAINS("%%ymm") "vzeroupper\n"
               : "+r"(steps)
               :
               : CLOBBERS, "xmm13", "xmm14", "xmm15");
}

void run_avx512() {
  long steps = kSteps;
  asm volatile("vzeroall\n" CHAINS("%%zmm") "vzeroupper\n"
               : "+r"(steps)
               :
               : CLOBBERS, "xmm13", "xmm14", "xmm15");
}

double best_rate(void (*loop)(), int lanes) {
  using Clock = std::chrono::steady_clock;
  double shortest = 1;
  for (int i = 0; i < 300; ++i) {
    const auto start = Clock::now();
    loop();
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * 12 * lanes * kSteps / shortest * 1e-9;
}

}  // namespace

double peak_gflops() {
  double peak = 0;
  for (const auto& row : attune::supported_rows()) {
    if (row == "avx2") peak = std::max(peak, best_rate(run_avx2, 8));
    if (row == "avx512") peak = std::max(peak, best_rate(run_avx512, 16));
  }
  return peak;
}

}  // namespace bench
