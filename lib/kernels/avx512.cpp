// The AVX-512 row of the kernel table: what its registers are. What they compute stands in body/.
#if defined(__GNUC__) && !defined(__clang__)  // GCC's own header reads a register that it leaves undefined on purpose
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "attune/lib/kernels/row.h"

namespace attune::kernels {
namespace {

struct F32 {
  using T = float;
  struct Mask {
    __mmask16 bits;
  };
  static constexpr int kLanes = 16;
  __m512 r;

  INLINE static __mmask16 lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  INLINE static F32 all(float x) { return {_mm512_set1_ps(x)}; }
  INLINE static F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  INLINE static F32 load(const float* p, int n) { return {_mm512_maskz_loadu_ps(lanes(n), p)}; }
  INLINE void store(float* p) const { _mm512_storeu_ps(p, r); }
  INLINE void store(float* p, int n) const { _mm512_mask_storeu_ps(p, lanes(n), r); }
};

INLINE F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.r, b.r)}; }
INLINE F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.r, b.r)}; }
INLINE F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.r, b.r)}; }
INLINE F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.r, b.r)}; }
INLINE F32 operator&(F32 a, F32 b) { return {_mm512_and_ps(a.r, b.r)}; }
INLINE F32 operator|(F32 a, F32 b) { return {_mm512_or_ps(a.r, b.r)}; }
INLINE F32 operator^(F32 a, F32 b) { return {_mm512_xor_ps(a.r, b.r)}; }
INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
INLINE F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.r)}; }
INLINE F32 round(F32 a) { return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE F32 add_bits(F32 a, F32 b) {
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.r), _mm512_castps_si512(b.r)))};
}
template <int n> INLINE F32 shift_left(F32 a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.r), n))}; }
template <int n> INLINE F32 shift_right(F32 a) { return {_mm512_castsi512_ps(_mm512_srli_epi32(_mm512_castps_si512(a.r), n))}; }
INLINE F32::Mask operator<(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_LT_OQ)}; }
INLINE F32::Mask operator<=(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_LE_OQ)}; }
INLINE F32::Mask operator==(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_EQ_OQ)}; }
INLINE F32 select(F32::Mask m, F32 a, F32 b) { return {_mm512_mask_blend_ps(m.bits, b.r, a.r)}; }
INLINE F32::Mask first_lanes(F32, int n) { return {F32::lanes(n)}; }
INLINE F32::Mask operator&(F32::Mask a, F32::Mask b) { return {static_cast<__mmask16>(a.bits & b.bits)}; }
INLINE F32::Mask operator|(F32::Mask a, F32::Mask b) { return {static_cast<__mmask16>(a.bits | b.bits)}; }
INLINE F32::Mask operator!(F32::Mask a) { return {static_cast<__mmask16>(~a.bits)}; }
INLINE bool any(F32::Mask m) { return m.bits != 0; }

struct F64 {
  using T = double;
  struct Mask {
    __mmask8 bits;
  };
  static constexpr int kLanes = 8;
  __m512d r;

  INLINE static __mmask8 lanes(int n) { return static_cast<__mmask8>((1u << n) - 1u); }
  INLINE static F64 all(double x) { return {_mm512_set1_pd(x)}; }
  INLINE static F64 load(const double* p) { return {_mm512_loadu_pd(p)}; }
  INLINE static F64 load(const double* p, int n) { return {_mm512_maskz_loadu_pd(lanes(n), p)}; }
  INLINE void store(double* p) const { _mm512_storeu_pd(p, r); }
  INLINE void store(double* p, int n) const { _mm512_mask_storeu_pd(p, lanes(n), r); }
};

INLINE F64 operator+(F64 a, F64 b) { return {_mm512_add_pd(a.r, b.r)}; }
INLINE F64 operator-(F64 a, F64 b) { return {_mm512_sub_pd(a.r, b.r)}; }
INLINE F64 operator*(F64 a, F64 b) { return {_mm512_mul_pd(a.r, b.r)}; }
INLINE F64 operator/(F64 a, F64 b) { return {_mm512_div_pd(a.r, b.r)}; }
INLINE F64 operator&(F64 a, F64 b) { return {_mm512_and_pd(a.r, b.r)}; }
INLINE F64 operator|(F64 a, F64 b) { return {_mm512_or_pd(a.r, b.r)}; }
INLINE F64 operator^(F64 a, F64 b) { return {_mm512_xor_pd(a.r, b.r)}; }
INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm512_fmadd_pd(a.r, b.r, c.r)}; }
INLINE F64 sqrt(F64 a) { return {_mm512_sqrt_pd(a.r)}; }
INLINE F64 round(F64 a) { return {_mm512_roundscale_pd(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE F64 add_bits(F64 a, F64 b) {
  return {_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a.r), _mm512_castpd_si512(b.r)))};
}
template <int n> INLINE F64 shift_left(F64 a) { return {_mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(a.r), n))}; }
template <int n> INLINE F64 shift_right(F64 a) { return {_mm512_castsi512_pd(_mm512_srli_epi64(_mm512_castpd_si512(a.r), n))}; }
INLINE F64::Mask operator<(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a.r, b.r, _CMP_LT_OQ)}; }
INLINE F64::Mask operator<=(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a.r, b.r, _CMP_LE_OQ)}; }
INLINE F64::Mask operator==(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a.r, b.r, _CMP_EQ_OQ)}; }
INLINE F64 select(F64::Mask m, F64 a, F64 b) { return {_mm512_mask_blend_pd(m.bits, b.r, a.r)}; }
INLINE F64::Mask first_lanes(F64, int n) { return {F64::lanes(n)}; }
INLINE F64::Mask operator&(F64::Mask a, F64::Mask b) { return {static_cast<__mmask8>(a.bits & b.bits)}; }
INLINE F64::Mask operator|(F64::Mask a, F64::Mask b) { return {static_cast<__mmask8>(a.bits | b.bits)}; }
INLINE F64::Mask operator!(F64::Mask a) { return {static_cast<__mmask8>(~a.bits)}; }
INLINE bool any(F64::Mask m) { return m.bits != 0; }

// Lane i with lane i + 4, then + 2, then + 1: written out, because reduce intrinsics promise no order.
INLINE double sum(F64 a) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a.r), _mm512_extractf64x4_pd(a.r, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
INLINE float sum(F32 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.r), _mm512_extractf32x8_ps(a.r, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

INLINE F64 widen_low(F32 a) { return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.r))}; }
INLINE F64 widen_high(F32 a) { return {_mm512_cvtps_pd(_mm512_extractf32x8_ps(a.r, 1))}; }
INLINE F32 narrow(F64 low, F64 high) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.r)), _mm512_cvtpd_ps(high.r), 1)};
}

#include "attune/lib/kernels/body/vec.inl"

INLINE Vec<double> widen(Vec<float> a) { return {widen_low(a), widen_high(a)}; }
INLINE Vec<float> narrow(Vec<double> a) { return narrow(a.low, a.high); }

// The sums of a gemm tile, in rows by registers: with the operands they fill the 32 registers.
template <class T> struct Tile;
template <> struct Tile<float> { static constexpr int kRows = 14, kRegisters = 2; };
template <> struct Tile<double> { static constexpr int kRows = 14, kRegisters = 2; };
template <> struct Tile<dual> { static constexpr int kRows = 4, kRegisters = 1; };

// Columns to rows: to[s] gets number s of each of kLanes lines that lie `line` apart, kTransposed numbers of each.
template <class V> inline constexpr int kTransposed = 16 / sizeof(typename V::T);
INLINE void load_transposed(const float* p, Index line, F32* to) {
  __m512 in[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, p += line) {
    in[i] = _mm512_castps128_ps512(_mm_loadu_ps(p));
    in[i] = _mm512_mask_broadcast_f32x4(in[i], 0x00f0, _mm_loadu_ps(p + 4 * line));
    in[i] = _mm512_mask_broadcast_f32x4(in[i], 0x0f00, _mm_loadu_ps(p + 8 * line));
    in[i] = _mm512_mask_broadcast_f32x4(in[i], 0xf000, _mm_loadu_ps(p + 12 * line));
  }
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(in[0], in[1]));
  const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(in[0], in[1]));
  const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(in[2], in[3]));
  const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(in[2], in[3]));
  to[0] = {_mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23))};
  to[1] = {_mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23))};
  to[2] = {_mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23))};
  to[3] = {_mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23))};
}
INLINE void load_transposed(const double* p, Index line, F64* to) {
  __m512d in[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i, p += line) {
    in[i] = _mm512_castpd128_pd512(_mm_loadu_pd(p));
    in[i] = _mm512_mask_broadcast_f64x2(in[i], 0x0c, _mm_loadu_pd(p + 2 * line));
    in[i] = _mm512_mask_broadcast_f64x2(in[i], 0x30, _mm_loadu_pd(p + 4 * line));
    in[i] = _mm512_mask_broadcast_f64x2(in[i], 0xc0, _mm_loadu_pd(p + 6 * line));
  }
  to[0] = {_mm512_unpacklo_pd(in[0], in[1])};
  to[1] = {_mm512_unpackhi_pd(in[0], in[1])};
}

#include "attune/lib/kernels/body/all.inl"

}  // namespace

constinit const Table kAvx512 = make_table("avx512");

}  // namespace attune::kernels
