// The AVX2 row of the kernel table (with FMA): what its registers are. What they compute stands in body/.
#include <immintrin.h>

#include "attune/lib/kernels/row.h"

namespace attune::kernels {
namespace {

struct F32 {
  using T = float;
  struct Mask {
    __m256 r;
  };
  static constexpr int kLanes = 8;
  __m256 r;

  INLINE static __m256i lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  INLINE static F32 all(float x) { return {_mm256_set1_ps(x)}; }
  INLINE static F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  INLINE static F32 load(const float* p, int n) { return {_mm256_maskload_ps(p, lanes(n))}; }
  INLINE void store(float* p) const { _mm256_storeu_ps(p, r); }
  INLINE void store(float* p, int n) const { _mm256_maskstore_ps(p, lanes(n), r); }
};

INLINE F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.r, b.r)}; }
INLINE F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.r, b.r)}; }
INLINE F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.r, b.r)}; }
INLINE F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.r, b.r)}; }
INLINE F32 operator&(F32 a, F32 b) { return {_mm256_and_ps(a.r, b.r)}; }
INLINE F32 operator|(F32 a, F32 b) { return {_mm256_or_ps(a.r, b.r)}; }
INLINE F32 operator^(F32 a, F32 b) { return {_mm256_xor_ps(a.r, b.r)}; }
INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
INLINE F32 sqrt(F32 a) { return {_mm256_sqrt_ps(a.r)}; }
INLINE F32 round(F32 a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE F32 add_bits(F32 a, F32 b) {
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.r), _mm256_castps_si256(b.r)))};
}
template <int n> INLINE F32 shift_left(F32 a) { return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a.r), n))}; }
template <int n> INLINE F32 shift_right(F32 a) { return {_mm256_castsi256_ps(_mm256_srli_epi32(_mm256_castps_si256(a.r), n))}; }
INLINE F32::Mask operator<(F32 a, F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LT_OQ)}; }
INLINE F32::Mask operator<=(F32 a, F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LE_OQ)}; }
INLINE F32::Mask operator==(F32 a, F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_EQ_OQ)}; }
INLINE F32 select(F32::Mask m, F32 a, F32 b) { return {_mm256_blendv_ps(b.r, a.r, m.r)}; }
INLINE F32::Mask first_lanes(F32, int n) { return {_mm256_castsi256_ps(F32::lanes(n))}; }
INLINE F32::Mask operator&(F32::Mask a, F32::Mask b) { return {_mm256_and_ps(a.r, b.r)}; }
INLINE F32::Mask operator|(F32::Mask a, F32::Mask b) { return {_mm256_or_ps(a.r, b.r)}; }
INLINE F32::Mask operator!(F32::Mask a) { return {_mm256_xor_ps(a.r, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
INLINE bool any(F32::Mask m) { return _mm256_movemask_ps(m.r) != 0; }

struct F64 {
  using T = double;
  struct Mask {
    __m256d r;
  };
  static constexpr int kLanes = 4;
  __m256d r;

  INLINE static __m256i lanes(int n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  INLINE static F64 all(double x) { return {_mm256_set1_pd(x)}; }
  INLINE static F64 load(const double* p) { return {_mm256_loadu_pd(p)}; }
  INLINE static F64 load(const double* p, int n) { return {_mm256_maskload_pd(p, lanes(n))}; }
  INLINE void store(double* p) const { _mm256_storeu_pd(p, r); }
  INLINE void store(double* p, int n) const { _mm256_maskstore_pd(p, lanes(n), r); }
};

INLINE F64 operator+(F64 a, F64 b) { return {_mm256_add_pd(a.r, b.r)}; }
INLINE F64 operator-(F64 a, F64 b) { return {_mm256_sub_pd(a.r, b.r)}; }
INLINE F64 operator*(F64 a, F64 b) { return {_mm256_mul_pd(a.r, b.r)}; }
INLINE F64 operator/(F64 a, F64 b) { return {_mm256_div_pd(a.r, b.r)}; }
INLINE F64 operator&(F64 a, F64 b) { return {_mm256_and_pd(a.r, b.r)}; }
INLINE F64 operator|(F64 a, F64 b) { return {_mm256_or_pd(a.r, b.r)}; }
INLINE F64 operator^(F64 a, F64 b) { return {_mm256_xor_pd(a.r, b.r)}; }
INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm256_fmadd_pd(a.r, b.r, c.r)}; }
INLINE F64 sqrt(F64 a) { return {_mm256_sqrt_pd(a.r)}; }
INLINE F64 round(F64 a) { return {_mm256_round_pd(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE F64 add_bits(F64 a, F64 b) {
  return {_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a.r), _mm256_castpd_si256(b.r)))};
}
template <int n> INLINE F64 shift_left(F64 a) { return {_mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a.r), n))}; }
template <int n> INLINE F64 shift_right(F64 a) { return {_mm256_castsi256_pd(_mm256_srli_epi64(_mm256_castpd_si256(a.r), n))}; }
INLINE F64::Mask operator<(F64 a, F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_LT_OQ)}; }
INLINE F64::Mask operator<=(F64 a, F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_LE_OQ)}; }
INLINE F64::Mask operator==(F64 a, F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_EQ_OQ)}; }
INLINE F64 select(F64::Mask m, F64 a, F64 b) { return {_mm256_blendv_pd(b.r, a.r, m.r)}; }
INLINE F64::Mask first_lanes(F64, int n) { return {_mm256_castsi256_pd(F64::lanes(n))}; }
INLINE F64::Mask operator&(F64::Mask a, F64::Mask b) { return {_mm256_and_pd(a.r, b.r)}; }
INLINE F64::Mask operator|(F64::Mask a, F64::Mask b) { return {_mm256_or_pd(a.r, b.r)}; }
INLINE F64::Mask operator!(F64::Mask a) { return {_mm256_xor_pd(a.r, _mm256_castsi256_pd(_mm256_set1_epi64x(-1)))}; }
INLINE bool any(F64::Mask m) { return _mm256_movemask_pd(m.r) != 0; }

INLINE double sum(F64 a) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a.r), _mm256_extractf128_pd(a.r, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
INLINE float sum(F32 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

INLINE F64 widen_low(F32 a) { return {_mm256_cvtps_pd(_mm256_castps256_ps128(a.r))}; }
INLINE F64 widen_high(F32 a) { return {_mm256_cvtps_pd(_mm256_extractf128_ps(a.r, 1))}; }
INLINE F32 narrow(F64 low, F64 high) { return {_mm256_set_m128(_mm256_cvtpd_ps(high.r), _mm256_cvtpd_ps(low.r))}; }

#include "attune/lib/kernels/body/vec.inl"

INLINE Vec<double> widen(Vec<float> a) {
  return {{widen_low(a.low), widen_high(a.low)}, {widen_low(a.high), widen_high(a.high)}};
}
INLINE Vec<float> narrow(Vec<double> a) {
  return {narrow(a.low.low, a.low.high), narrow(a.high.low, a.high.high)};
}

template <class T> struct Tile;
template <> struct Tile<float> { static constexpr int kRows = 6, kRegisters = 2; };
template <> struct Tile<double> { static constexpr int kRows = 6, kRegisters = 2; };
template <> struct Tile<dual> { static constexpr int kRows = 4, kRegisters = 1; };

// Columns to rows: to[s] gets number s of each of kLanes lines that lie `line` apart, kTransposed numbers of each.
template <class V> inline constexpr int kTransposed = 16 / sizeof(typename V::T);
INLINE void load_transposed(const float* p, Index line, F32* to) {
  __m256 in[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, p += line) in[i] = _mm256_set_m128(_mm_loadu_ps(p + 4 * line), _mm_loadu_ps(p));
  const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(in[0], in[1]));
  const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(in[0], in[1]));
  const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(in[2], in[3]));
  const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(in[2], in[3]));
  to[0] = {_mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23))};
  to[1] = {_mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23))};
  to[2] = {_mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23))};
  to[3] = {_mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23))};
}
INLINE void load_transposed(const double* p, Index line, F64* to) {
  const __m256d even = _mm256_set_m128d(_mm_loadu_pd(p + 2 * line), _mm_loadu_pd(p));
  const __m256d odd = _mm256_set_m128d(_mm_loadu_pd(p + 3 * line), _mm_loadu_pd(p + line));
  to[0] = {_mm256_unpacklo_pd(even, odd)};
  to[1] = {_mm256_unpackhi_pd(even, odd)};
}

#include "attune/lib/kernels/body/all.inl"

}  // namespace

constinit const Table kAvx2 = make_table("avx2");

}  // namespace attune::kernels
