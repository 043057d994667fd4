// Kernels of AVX2 and FMA.
#include <immintrin.h>

#define CLEARHEAD_LEVEL avx2
#define CLEARHEAD_BYTES 32
#include "attend.h"
#include "embed.h"
#include "product.h"
#include "rows.h"
#include "scan.h"

namespace clearhead {
namespace {

inline __m256i words_at(const char* words) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)); }

// There are 16 registers: few rows go through all columns of a panel at once, as they lie in memory; more rows take
// fewer columns.
struct Single {
  typedef __m256 Sum;
  typedef __m256 Weights;
  typedef __m256 Factor;
  static constexpr int WORD = 4, WIDE = 8, BYTES = 32, ROWS = 6;
  static constexpr bool SCALED = false;
  static constexpr int across(int rows) { return rows == 1 ? 8 : rows <= 3 ? 4 : 2; }
  static Sum start(const int32_t*, int) { return _mm256_setzero_ps(); }
  static Weights load(const char* words) { return _mm256_castsi256_ps(words_at(words)); }
  static Factor spread(const char* word) { return _mm256_castsi256_ps(_mm256_set1_epi32(word_at(word))); }
  static Sum step(Sum sum, Weights weights, Factor factor) { return _mm256_fmadd_ps(weights, factor, sum); }
  static Vector<float> numbers(Sum sum) { return sum; }
};

// Two numbers of bf16 to a word: the lower one is moved up, the upper one stands where a float has it.
struct Half {
  struct Pair {
    __m256 low, high;
  };
  typedef __m256 Sum;
  typedef Pair Weights;
  typedef Pair Factor;
  static constexpr int WORD = 4, WIDE = 8, BYTES = 32, ROWS = 4;
  static constexpr bool SCALED = false;
  static constexpr int across(int rows) { return rows == 1 ? 4 : 2; }
  static Sum start(const int32_t*, int) { return _mm256_setzero_ps(); }
  static Pair widen(__m256i words) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(int32_t(0xffff0000))))};
  }
  static Weights load(const char* words) { return widen(words_at(words)); }
  static Factor spread(const char* word) { return widen(_mm256_set1_epi32(word_at(word))); }
  static Sum step(Sum sum, const Weights& weights, const Factor& factor) {
    return _mm256_fmadd_ps(weights.high, factor.high, _mm256_fmadd_ps(weights.low, factor.low, sum));
  }
  static Vector<float> numbers(Sum sum) { return sum; }
};

// The instruction that multiplies bytes in pairs holds sums of 16 bits, and one of its operands has no sign. With
// magnitudes of at most 127, and the factor's sign given to the weight, no pair exceeds 2·127² = 32,258.
struct Byte {
  struct Signed {
    __m256i value, magnitude;
  };
  typedef Integers Sum;
  typedef __m256i Weights;
  typedef Signed Factor;
  static constexpr int WORD = 4, WIDE = 8, BYTES = 32, ROWS = 4;
  static constexpr bool SCALED = true;
  static constexpr int across(int rows) { return rows == 1 ? 8 : 2; }
  static Sum start(const int32_t*, int) { return Sum{}; }
  static Weights load(const char* words) { return words_at(words); }
  static Factor spread(const char* word) {
    const __m256i repeated = settled(_mm256_set1_epi32(word_at(word)));  // before the sign, so that memory repeats it
    const __m256i value = _mm256_xor_si256(repeated, _mm256_set1_epi32(int32_t(0x80808080)));
    return {value, _mm256_abs_epi8(value)};
  }
  static Sum step(Sum sum, Weights weights, const Factor& factor) {
    const __m256i pairs = _mm256_maddubs_epi16(factor.magnitude, _mm256_sign_epi8(weights, factor.value));
    return sum + Integers(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Vector<float> numbers(Sum sum) { return __builtin_convertvector(sum, Vector<float>); }
};

void product(const Matrix<float>& matrix, const void* words, size_t stride, const float* row_scales, int rows, float* y,
             size_t y_stride, int first, int last, bool relu) {
  if (matrix.kind == Kind::f32) {
    multiply<Single>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else if (matrix.kind == Kind::int8) {
    multiply<Byte>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else {
    multiply<Half>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  }
}

const Kernels<float> table = {
    "avx2", prepare, product, embed<float>, norm, bend, attend_past, attend_source, arrange, scan,
};

}  // namespace

const Kernels<float>* avx2_kernels() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &table : nullptr;
}

}  // namespace clearhead
