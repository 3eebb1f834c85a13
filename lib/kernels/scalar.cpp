// The scalar row of the kernel table: one number a register, for any x86-64, and the reference for the others.
#include <bit>
#include <cmath>
#include <cstdint>

#include "attune/lib/kernels/row.h"

namespace attune::kernels {
namespace {

#include "attune/lib/kernels/body/one.inl"
#include "attune/lib/kernels/body/vec.inl"

INLINE F64 widen(F32 a) { return {static_cast<double>(a.r)}; }
INLINE F32 narrow(F64 a) { return {static_cast<float>(a.r)}; }
INLINE Lanes<F64> widen(const Lanes<F32>& a) {
  return each_lane<Lanes<F64>>([](F32 x) { return widen(x); }, a);
}
INLINE Lanes<F32> narrow(const Lanes<F64>& a) {
  return each_lane<Lanes<F32>>([](F64 x) { return narrow(x); }, a);
}

template <class T> struct Tile { static constexpr int kRows = 2, kRegisters = 4; };

// How many numbers of a line a transposing copy reads at once.
template <class V> inline constexpr int kTransposed = 1;

#include "attune/lib/kernels/body/all.inl"

}  // namespace

constinit const Table kScalar = make_table("scalar");

}  // namespace attune::kernels
