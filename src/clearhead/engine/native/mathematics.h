// Functions of whole registers: the exponential and the bends of a hidden layer.
//
// Of float: polynomials of least maximal error, fitted to each function over the interval that the reduction leaves.
// Of double, which is there for checking: the C library's, lane by lane.
#pragma once

#include "lanes.h"

namespace clearhead {
namespace {

constexpr float LOG2_E = 1.44269502162933349609f;

#if CLEARHEAD_BYTES == 64 && defined(__AVX512F__)

constexpr float SIXTEENTH_UNITS = 786432.0f;  // 1.5 · 2¹⁹: beside it float counts in sixteenths

// 2^(i/16), as bits, less i · 2¹⁹: what i adds when it is moved up to an exponent's place.
alignas(64) constexpr int32_t SIXTEENTHS[16] = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};

// eˣ, x held within −87 … 88; what is no number stays so. To 2 + |x|/8 units in the last place: the rounding of log₂ e
// tells, less than the rounding of x did.
// eˣ = 2^(n/16) · 2^rest, |rest| ≤ 1/32. Bits of n from the fourth on are added to an exponent; the lower four choose
// one of 16 factors, from which is taken beforehand what those four add.
inline Vector<float> exponential(Vector<float> x) {
  const __m512i sixteenths = _mm512_load_si512(SIXTEENTHS);
  const __m512 units = _mm512_set1_ps(SIXTEENTH_UNITS);
  const __m512 log2_e = _mm512_set1_ps(LOG2_E);
  const __m512 value = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-87.0f), (__m512)x));
  const __m512 counted = _mm512_fmadd_ps(value, log2_e, units);
  const __m512 rest = _mm512_fmsub_ps(value, log2_e, _mm512_sub_ps(counted, units));
  const __m512i count = _mm512_castps_si512(counted);
  const __m512 factor = _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_permutexvar_epi32(count, sixteenths), _mm512_slli_epi32(count, 19)));
  __m512 power = _mm512_fmadd_ps(rest, _mm512_set1_ps(0.05550595003f), _mm512_set1_ps(0.24023428827f));
  power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(0.69314718003f));
  return (Vector<float>)_mm512_fmadd_ps(_mm512_mul_ps(power, rest), factor, factor);
}

#else

// eˣ to 2 units in the last place, x held within −87 … 88; what is no number stays so. eˣ = 2ⁿ · e^rest with
// |rest| ≤ ½·ln 2. Without fused products the rest is as good, since n times the first part of ln 2 is exact.
inline Vector<float> exponential(Vector<float> x) {
  typedef uint32_t Bits __attribute__((vector_size(CLEARHEAD_BYTES)));
  const Vector<float> low = all(-87.0f), high = all(88.0f), units = all(12582912.0f);  // 1.5 · 2²³: counts in ones
  Vector<float> value = x < low ? low : x;
  value = value > high ? high : value;
  const Vector<float> counted = value * LOG2_E + units;
  const Vector<float> whole = counted - units;
  const Vector<float> rest = (value - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Vector<float> power = rest * 0.0013836841919f + 0.0083748157823f;
  power = power * rest + 0.041668225642f;
  power = power * rest + 0.1666642017f;
  power = power * rest + 0.4999999208f;
  power = power * rest + 1.0000000363f;
  power = power * rest + 1.0f;
  const Vector<float> factor = (Vector<float>)(((Bits)counted << 23) + ((Bits)all(1.0f)));
  return power * factor;
}

#endif

inline Vector<double> exponential(Vector<double> x) {
  for (int i = 0; i < WIDTH<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}

// x·Φ(x), Φ the normal distribution: ½(1 + erf(x/√2)) (Hendrycks & Gimpel 2016, §2). Φ(−|x|) = 2^−p(|x|) with a
// polynomial p up to 6; from there on |x|·Φ(−|x|) is less than 10⁻⁸, and taken for 0.
inline Vector<float> gelu(Vector<float> x) {
  const Vector<float> edge = all(6.0f);
  const Vector<float> size = x < 0 ? -x : x;
  Vector<float> power = size * -1.83946295772e-7f + 4.41121697274e-6f;
  power = power * size + -4.19847920371e-5f;
  power = power * size + 1.72289867195e-4f;
  power = power * size + 2.03601580406e-4f;
  power = power * size + -7.17891614671e-3f;
  power = power * size + 5.25919095835e-2f;
  power = power * size + 0.459171194754f;
  power = power * size + 1.15111059082f;
  power = power * size + 0.999999872774f;
  const Vector<float> tail = size > edge ? Vector<float>{} : x * exponential(power * -0.693147180560f);
  return x < 0 ? tail : x - tail;
}

inline Vector<double> gelu(Vector<double> x) {
  for (int i = 0; i < WIDTH<double>; ++i) x[i] *= 0.5 * __builtin_erfc(-0.70710678118654752440 * x[i]);
  return x;
}

// x/(1 + e⁻ˣ) (Elfwing et al. 2018, eq. 6).
template <typename Real>
inline Vector<Real> silu(Vector<Real> x) {
  return x / (all(Real(1)) + exponential(-x));
}

}  // namespace
}  // namespace clearhead
