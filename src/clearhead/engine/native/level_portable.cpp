// Kernels for any processor, in the compiler's own vectors; and those of double.
#define CLEARHEAD_LEVEL portable
#define CLEARHEAD_BYTES 16
#include "attend.h"
#include "embed.h"
#include "product.h"
#include "rows.h"
#include "scan.h"

namespace clearhead {
namespace {

// f32 and f64.
template <typename Real>
struct Plain {
  typedef Vector<Real> Sum;
  typedef Vector<Real> Weights;
  typedef Vector<Real> Factor;
  static constexpr int WORD = sizeof(Real), WIDE = WIDTH<Real>, BYTES = CLEARHEAD_BYTES, ROWS = 4;
  static constexpr bool SCALED = false;
  static constexpr int across(int rows) { return rows == 1 ? 8 : 2; }
  static Sum start(const int32_t*, int) { return Sum{}; }
  static Weights load(const char* words) { return clearhead::load(reinterpret_cast<const Real*>(words)); }
  static Factor spread(const char* word) {
    Real value;
    std::memcpy(&value, word, sizeof value);
    return all(value);
  }
  static Sum step(Sum sum, Weights weights, Factor factor) { return sum + weights * factor; }
  static Vector<Real> numbers(Sum sum) { return sum; }
};

inline Integers words_at(const char* words) { return load(reinterpret_cast<const int32_t*>(words)); }

// Two numbers of bf16 to a word: the lower one is moved up, the upper one stands where a float has it.
struct Half {
  struct Pair {
    Vector<float> low, high;
  };
  typedef Vector<float> Sum;
  typedef Pair Weights;
  typedef Pair Factor;
  static constexpr int WORD = 4, WIDE = INTEGERS, BYTES = CLEARHEAD_BYTES, ROWS = 4;
  static constexpr bool SCALED = false;
  static constexpr int across(int rows) { return rows == 1 ? 4 : 2; }
  static Sum start(const int32_t*, int) { return Sum{}; }
  static Pair widen(Integers words) {
    return {Vector<float>(words << 16), Vector<float>(words & integers(int32_t(0xffff0000)))};
  }
  static Weights load(const char* words) { return widen(words_at(words)); }
  static Factor spread(const char* word) { return widen(integers(word_at(word))); }
  static Sum step(Sum sum, const Weights& weights, const Factor& factor) {
    return sum + weights.low * factor.low + weights.high * factor.high;
  }
  static Vector<float> numbers(Sum sum) { return sum; }
};

// Four bytes to a word, multiplied as floats: a group's sum is at most 4·127² and so exact; groups are added up as
// integers.
struct Byte {
  struct Four {
    Vector<float> numbers[4];
  };
  typedef Integers Sum;
  typedef Four Weights;
  typedef Four Factor;
  static constexpr int WORD = 4, WIDE = INTEGERS, BYTES = CLEARHEAD_BYTES, ROWS = 4;
  static constexpr bool SCALED = true;
  static constexpr int across(int) { return 1; }
  static Sum start(const int32_t*, int) { return Sum{}; }
  static Four widen(Integers words) {
    return {{__builtin_convertvector(words << 24 >> 24, Vector<float>),
             __builtin_convertvector(words << 16 >> 24, Vector<float>),
             __builtin_convertvector(words << 8 >> 24, Vector<float>),
             __builtin_convertvector(words >> 24, Vector<float>)}};
  }
  static Weights load(const char* words) { return widen(words_at(words)); }
  static Factor spread(const char* word) { return widen(integers(word_at(word) ^ int32_t(0x80808080))); }
  static Sum step(Sum sum, const Weights& weights, const Factor& factor) {
    Vector<float> group = weights.numbers[0] * factor.numbers[0];
#pragma GCC unroll 3
    for (int i = 1; i < 4; ++i) group = group + weights.numbers[i] * factor.numbers[i];
    return sum + __builtin_convertvector(group, Integers);
  }
  static Vector<float> numbers(Sum sum) { return __builtin_convertvector(sum, Vector<float>); }
};

void product(const Matrix<float>& matrix, const void* words, size_t stride, const float* row_scales, int rows, float* y,
             size_t y_stride, int first, int last, bool relu) {
  if (matrix.kind == Kind::f32) {
    multiply<Plain<float>>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else if (matrix.kind == Kind::int8) {
    multiply<Byte>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  } else {
    multiply<Half>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
  }
}

void product_double(const Matrix<double>& matrix, const void* words, size_t stride, const float* row_scales, int rows,
                    double* y, size_t y_stride, int first, int last, bool relu) {
  multiply<Plain<double>>(matrix, words, stride, row_scales, rows, y, y_stride, first, last, relu);
}

// An operand of f64 is the row itself.
void prepare_double(Kind, const double*, int, int, size_t, void*, float*) {}

const Kernels<float> table = {
    "portable", prepare, product, embed<float>, norm, bend, attend_past, attend_source, arrange, scan,
};
const Kernels<double> double_table = {
    "double", prepare_double, product_double, embed<double>, norm, bend, attend_past, attend_source, arrange, scan,
};

}  // namespace

const Kernels<float>* portable_kernels() { return &table; }
const Kernels<double>* double_kernels() { return &double_table; }

}  // namespace clearhead
