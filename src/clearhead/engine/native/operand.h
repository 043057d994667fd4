// Rows of numbers as operands of a product.
#pragma once

#include "kernels.h"
#include "simd.h"

#if CLEARHEAD_BYTES > 16
#include <immintrin.h>
#endif

namespace clearhead {
namespace {

typedef int32_t Integers __attribute__((vector_size(CLEARHEAD_BYTES)));
constexpr int INTEGERS = CLEARHEAD_BYTES / 4;
typedef uint8_t Bytes __attribute__((vector_size(INTEGERS)));
typedef uint16_t Halves __attribute__((vector_size(2 * INTEGERS)));

// One word of an operand.
inline int32_t word_at(const char* word) {
  int32_t value;
  std::memcpy(&value, word, sizeof value);
  return value;
}

inline Integers integers(int32_t value) { return value - Integers{}; }

inline Integers larger(Integers a, Integers b) { return a > b ? a : b; }

// The lowest byte of each integer.
inline Bytes lowest_bytes(Integers value) {
#if CLEARHEAD_BYTES == 64
  return Bytes(_mm512_cvtepi32_epi8(__m512i(value)));
#elif CLEARHEAD_BYTES == 32
  const __m256i bytes = _mm256_shuffle_epi8(__m256i(value), _mm256_set1_epi32(0x0c080400));
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  Bytes result;
  std::memcpy(&result, &both, sizeof result);
  return result;
#else
  return __builtin_convertvector(value, Bytes);
#endif
}

// The lower half of each integer.
inline Halves lower_halves(Integers value) {
#if CLEARHEAD_BYTES == 64
  return Halves(_mm512_cvtepi32_epi16(__m512i(value)));
#else
  return __builtin_convertvector(value, Halves);
#endif
}

// `count` numbers from `from` on, then zeros; fewer than a register holds.
inline Vector<float> load_some(const float* from, int count) {
  Vector<float> value{};
  std::memcpy(&value, from, sizeof(float) * size_t(count > 0 ? count : 0));
  return value;
}

constexpr int32_t INFINITE_BITS = 0x7f800000;

// The largest magnitude as the bits of a float: INFINITE_BITS or more if one is not finite.
inline int32_t largest_bits(const float* x, int in) {
  const Integers magnitude = integers(0x7fffffff);
  Integers most[2] = {};
  int k = 0;
  for (; k + 2 * INTEGERS <= in; k += 2 * INTEGERS) {
    most[0] = larger(most[0], Integers(load(x + k)) & magnitude);
    most[1] = larger(most[1], Integers(load(x + k + INTEGERS)) & magnitude);
  }
  if (k + INTEGERS <= in) {
    most[0] = larger(most[0], Integers(load(x + k)) & magnitude);
    k += INTEGERS;
  }
  most[1] = larger(most[1], Integers(load_some(x + k, in - k)) & magnitude);
  most[0] = larger(most[0], most[1]);
  int32_t lanes[INTEGERS];
  std::memcpy(lanes, &most[0], sizeof lanes);
  for (int step = INTEGERS / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] = lanes[i] > lanes[i + step] ? lanes[i] : lanes[i + step];
  }
  return lanes[0];
}

// How one row becomes integers of −127 … 127: value = integer · scale, integer = round(value · inverse).
struct Scaling {
  bool finite;
  float scale, inverse;  // 0 and 0 where all numbers are 0, or too small for an inverse
};

inline Scaling scaling(const float* x, int in) {
  const int32_t bits = largest_bits(x, in);
  if (bits >= INFINITE_BITS) return {false, __builtin_nanf(""), 0.0f};
  float most;
  std::memcpy(&most, &bits, sizeof most);
  const float inverse = 127.0f / most;
  if (!(inverse <= 3.4028235e38f)) return {true, 0.0f, 0.0f};
  return {true, most / 127.0f, inverse};
}

// 128 + round(x · inverse): the sum with 1.5·2²³ + 128 rounds to an integer, ties to even, and holds it in its lowest
// byte.
inline Bytes to_bytes(Vector<float> x, Vector<float> inverse) {
  return lowest_bytes(Integers(settled(x * inverse) + all(12583040.0f)));
}

// Numbers as bytes 128 + integer, up to a whole word.
inline void prepare_bytes(const float* x, int in, float inverse, uint8_t* bytes) {
  const int count = padded(in, 4);
  int k = 0;
  for (; k + INTEGERS <= in; k += INTEGERS) {
    const Bytes some = to_bytes(load(x + k), all(inverse));
    std::memcpy(bytes + k, &some, sizeof some);
  }
  if (k < count) {
    const Bytes some = to_bytes(load_some(x + k, in - k), all(inverse));
    std::memcpy(bytes + k, &some, size_t(count - k));
  }
}

// The upper halves of floats, rounded to nearest, ties to even; what is not a number stays so.
inline Halves to_halves(Vector<float> x) {
  const Integers bits = Integers(x);
  const Integers rounded = bits + integers(0x7fff) + ((bits >> 16) & integers(1));
  const Integers quiet = bits | integers(0x400000);
  return lower_halves(((bits & integers(0x7fffffff)) > integers(INFINITE_BITS) ? quiet : rounded) >> 16);
}

// Numbers as halves, up to a whole word.
inline void prepare_halves(const float* x, int in, uint16_t* words) {
  int k = 0;
  for (; k + INTEGERS <= in; k += INTEGERS) {
    const Halves some = to_halves(load(x + k));
    std::memcpy(words + k, &some, sizeof some);
  }
  if (k < padded(in, 2)) {
    const Halves some = to_halves(load_some(x + k, in - k));
    std::memcpy(words + k, &some, sizeof(uint16_t) * size_t(padded(in, 2) - k));
  }
}

}  // namespace
}  // namespace clearhead
