// Products of bf16 by the instruction for them. It takes numbers too small to be normal for zeros, and rounds in a way
// of its own: so its results differ in their last bits from those of the other sets.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // gcc before 13 takes _mm512_undefined_ps for a mistake
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#define CLEARHEAD_LEVEL avx512bf16
#define CLEARHEAD_BYTES 64
#include "level_avx512.h"
#include "product.h"

namespace clearhead {
namespace {

struct Half {
  typedef __m512 Sum;
  typedef __m512bh Weights;
  typedef __m512bh Factor;
  static constexpr int WORD = 4, WIDE = 16, BYTES = 64, ROWS = 6;
  static constexpr bool SCALED = false;
  static constexpr int across(int) { return 4; }
  static Sum start(const int32_t*, int) { return _mm512_setzero_ps(); }
  static Weights load(const char* words) { return (Weights)_mm512_loadu_si512(words); }
  static Factor spread(const char* word) {
    int32_t value;
    std::memcpy(&value, word, sizeof value);
    return (Factor)_mm512_set1_epi32(value);
  }
  static Sum step(Sum sum, Weights weights, Factor factor) { return _mm512_dpbf16_ps(sum, weights, factor); }
  static Vector<float> numbers(Sum sum) { return sum; }
};

}  // namespace

void avx512_product_halves(const Matrix<float>& matrix, const void* words, size_t stride, int rows, float* y,
                           size_t y_stride, int first, int last, bool relu) {
  multiply<Half>(matrix, words, stride, nullptr, rows, y, y_stride, first, last, relu);
}

}  // namespace clearhead
