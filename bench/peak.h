// The most that one core can do: the ceiling to print beside every rate. A clock wanders with heat and
// neighbours, so this is measured again and again, next to what is compared with it.
#pragma once

namespace bench {

// Fused multiply-adds in registers, one thread, in GFLOP/s of f32 (f64 has half of it): the better of an AVX2
// and an AVX-512 loop, each the best of a few hundred short runs. 0 where the CPU has neither.
double peak_gflops();

}  // namespace bench
