// Kernels of AVX-512 F, BW, VL, DQ and VNNI. Products of bf16 use the processor's own instruction where there is one
// (level_avx512bf16.cpp); else both operands are widened, and fp32 holds their products exactly.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // gcc before 13 takes _mm512_undefined_ps for a mistake
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#include <cpuid.h>

#define CLEARHEAD_LEVEL avx512
#define CLEARHEAD_BYTES 64
#include "level_avx512.h"
#include "attend.h"
#include "embed.h"
#include "product.h"
#include "rows.h"
#include "scan.h"

namespace clearhead {
namespace {

struct Single {
  typedef __m512 Sum;
  typedef __m512 Weights;
  typedef __m512 Factor;
  static constexpr int WORD = 4, WIDE = 16, BYTES = 64, ROWS = 6;
  static constexpr bool SCALED = false;
  static constexpr int across(int) { return 4; }
  static Sum start(const int32_t*, int) { return _mm512_setzero_ps(); }
  static Weights load(const char* words) { return _mm512_loadu_ps(words); }
  static Factor spread(const char* word) { return _mm512_castsi512_ps(_mm512_set1_epi32(word_at(word))); }
  static Sum step(Sum sum, Weights weights, Factor factor) { return _mm512_fmadd_ps(weights, factor, sum); }
  static Vector<float> numbers(Sum sum) { return sum; }
};

// Two numbers of bf16 to a word: the lower one is moved up, the upper one stands where a float has it.
struct Half {
  struct Pair {
    __m512 low, high;
  };
  typedef __m512 Sum;
  typedef Pair Weights;
  typedef Pair Factor;
  static constexpr int WORD = 4, WIDE = 16, BYTES = 64, ROWS = 5;
  static constexpr bool SCALED = false;
  static constexpr int across(int) { return 4; }
  static Sum start(const int32_t*, int) { return _mm512_setzero_ps(); }
  static Pair widen(__m512i words) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(int32_t(0xffff0000))))};
  }
  static Weights load(const char* words) { return widen(_mm512_loadu_si512(words)); }
  static Factor spread(const char* word) { return widen(_mm512_set1_epi32(word_at(word))); }
  static Sum step(Sum sum, const Weights& weights, const Factor& factor) {
    return _mm512_fmadd_ps(weights.high, factor.high, _mm512_fmadd_ps(weights.low, factor.low, sum));
  }
  static Vector<float> numbers(Sum sum) { return sum; }
};

struct Byte {
  typedef Integers Sum;  // not __m512i, which the compiler would keep a second time
  typedef __m512i Weights;
  typedef __m512i Factor;
  static constexpr int WORD = 4, WIDE = 16, BYTES = 64, ROWS = 6;
  static constexpr bool SCALED = true;
  static constexpr int across(int) { return 4; }
  static Sum start(const int32_t* offsets, int column) { return clearhead::load(offsets + column); }
  static Weights load(const char* words) { return _mm512_loadu_si512(words); }
  static Factor spread(const char* word) { return _mm512_set1_epi32(word_at(word)); }
  static Sum step(Sum sum, Weights weights, Factor factor) {
    return Integers(_mm512_dpbusd_epi32(__m512i(sum), factor, weights));
  }
  static Vector<float> numbers(Sum sum) { return __builtin_convertvector(sum, Vector<float>); }
};

// Asked of the processor itself: not every compiler that knows the instruction has a name for it here.
bool dots_of_halves() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return avx512_product_halves != nullptr && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
}

void product(const Matrix<float>& matrix, const void* words, size_t stride, const float* row_scales, int rows, float* y,
             size_t y_stride, int first, int last, bool relu) {
  static const bool dots = dots_of_halves();
  if (matrix.kind == Kind::f32) {
    multiply<Single>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else if (matrix.kind == Kind::int8) {
    multiply<Byte>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else if (dots) {
    avx512_product_halves(matrix, words, stride, rows, y, y_stride, first, last, relu);
  } else {
    multiply<Half>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  }
}

const Kernels<float> table = {
    "avx512", prepare, product, embed<float>, norm, bend, attend_past, attend_source, arrange, scan,
};

}  // namespace

const Kernels<float>* avx512_kernels() {
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
  return has ? &table : nullptr;
}

}  // namespace clearhead
