// What happens across the lanes of a register: sums, maxima, transposes, a look whether any lane holds.
#pragma once

#include "simd.h"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // gcc before 13 takes _mm512_undefined_ps for a mistake
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace clearhead {
namespace {

// Lanes of the two registers that `pick` reads, those of the second counted from WIDTH on.
template <int... LANE>
struct Order {};

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define CLEARHEAD_SHUFFLEVECTOR
#endif
#endif

template <typename Real, int... LANE>
inline Vector<Real> pick(Vector<Real> a, Vector<Real> b, Order<LANE...>) {
#ifdef CLEARHEAD_SHUFFLEVECTOR
  return __builtin_shufflevector(a, b, LANE...);
#else  // gcc before 12
  typedef decltype(a < b) Mask;
  return __builtin_shuffle(a, b, Mask{LANE...});
#endif
}

// Pattern::lane(0) … Pattern::lane(COUNT − 1) as an order.
template <typename Pattern, int COUNT, int... LANE>
struct Listed : Listed<Pattern, COUNT - 1, Pattern::lane(COUNT - 1), LANE...> {};
template <typename Pattern, int... LANE>
struct Listed<Pattern, 0, LANE...> {
  typedef Order<LANE...> Type;
};
template <typename Real, typename Pattern>
using Ordered = typename Listed<Pattern, WIDTH<Real>>::Type;

// Numbers in 16 bytes, within which registers shuffle at the least cost.
template <typename Real>
constexpr int QUARTER = 16 / int(sizeof(Real));

// The even or the odd numbers of a, then of b, in each 16 bytes.
template <typename Real, int ODD>
struct Alternate {
  static constexpr int lane(int i) {
    constexpr int SIZE = QUARTER<Real>;
    const int place = i % SIZE, half = SIZE / 2;
    return i - place + (place < half ? 2 * place : WIDTH<Real> + 2 * (place - half)) + ODD;
  }
};

// The even or the odd 16 bytes of a, then of b.
template <typename Real, int ODD>
struct AlternateQuarters {
  static constexpr int lane(int i) {
    constexpr int SIZE = QUARTER<Real>;
    const int place = i % SIZE, quarter = i / SIZE, half = WIDTH<Real> / SIZE / 2;
    return ((quarter < half ? 2 * quarter : 2 * (quarter - half)) + ODD) * SIZE + place +
           (quarter < half ? 0 : WIDTH<Real>);
  }
};

// Lanes exchanged in pairs: i with i ± DISTANCE.
template <typename Real, int DISTANCE>
struct Turned {
  static constexpr int lane(int i) { return i ^ DISTANCE; }
};

// The first (or second) halves of a and b, number by number in turns.
template <typename Real, int SECOND>
struct Interleaved {
  static constexpr int lane(int i) { return SECOND * WIDTH<Real> / 2 + i / 2 + (i % 2) * WIDTH<Real>; }
};

// One step of a tree that adds up COUNT registers across their lanes: what became of the first half and of the second.
template <typename Real, int COUNT>
inline __attribute__((always_inline)) Vector<Real> pair_of_sums(Vector<Real> low, Vector<Real> high) {
  if constexpr (COUNT <= QUARTER<Real>) {
    return pick<Real>(low, high, Ordered<Real, Alternate<Real, 0>>{}) +
           pick<Real>(low, high, Ordered<Real, Alternate<Real, 1>>{});
  } else {
    return pick<Real>(low, high, Ordered<Real, AlternateQuarters<Real, 0>>{}) +
           pick<Real>(low, high, Ordered<Real, AlternateQuarters<Real, 1>>{});
  }
}

// The greater of each pair; where one is not a number, `b`.
template <typename Real>
inline Vector<Real> greater(Vector<Real> a, Vector<Real> b) {
  return a > b ? a : b;
}

// The sum of all lanes, in every lane.
template <typename Real, int DISTANCE = WIDTH<Real> / 2>
inline Vector<Real> sum_across(Vector<Real> value) {
  value += pick<Real>(value, value, Ordered<Real, Turned<Real, DISTANCE>>{});
  if constexpr (DISTANCE > 1) value = sum_across<Real, DISTANCE / 2>(value);
  return value;
}

// The greatest of all lanes, in every lane.
template <typename Real, int DISTANCE = WIDTH<Real> / 2>
inline Vector<Real> greatest_across(Vector<Real> value) {
  value = greater<Real>(value, pick<Real>(value, value, Ordered<Real, Turned<Real, DISTANCE>>{}));
  if constexpr (DISTANCE > 1) value = greatest_across<Real, DISTANCE / 2>(value);
  return value;
}

// Rows and columns of WIDTH registers exchanged, in place: a perfect shuffle repeated until every lane is home.
template <typename Real, int LEFT = WIDTH<Real>>
inline __attribute__((always_inline)) void transpose(Vector<Real>* rows) {
  if constexpr (LEFT > 1) {
    constexpr int HALF = WIDTH<Real> / 2;
    Vector<Real> mixed[WIDTH<Real>];
    for (int i = 0; i < HALF; ++i) {
      mixed[2 * i] = pick<Real>(rows[i], rows[i + HALF], Ordered<Real, Interleaved<Real, 0>>{});
      mixed[2 * i + 1] = pick<Real>(rows[i], rows[i + HALF], Ordered<Real, Interleaved<Real, 1>>{});
    }
    transpose<Real, LEFT / 2>(mixed);
    for (int i = 0; i < WIDTH<Real>; ++i) rows[i] = mixed[i];
  }
}

// The first `count` numbers, fewer than WIDTH, and zeros behind them.
template <typename Real>
inline Vector<Real> load_rest(const Real* from, int count) {
  Vector<Real> value{};
  for (int i = 0; i < count; ++i) value[i] = from[i];
  return value;
}

template <typename Real>
inline void store_rest(Real* to, Vector<Real> value, int count) {
  for (int i = 0; i < count; ++i) to[i] = value[i];
}

// A bit for each lane in which a ≥ b.
template <typename Real>
inline uint32_t reaching(Vector<Real> a, Vector<Real> b) {
  uint32_t bits = 0;
  for (int i = 0; i < WIDTH<Real>; ++i) bits |= uint32_t(a[i] >= b[i]) << i;
  return bits;
}
#if CLEARHEAD_BYTES == 64 && defined(__AVX512F__)
template <>
inline uint32_t reaching<float>(Vector<float> a, Vector<float> b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
}
#elif CLEARHEAD_BYTES == 32 && defined(__AVX__)
template <>
inline uint32_t reaching<float>(Vector<float> a, Vector<float> b) {
  return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ)));
}
#elif CLEARHEAD_BYTES == 16 && defined(__SSE2__)
template <>
inline uint32_t reaching<float>(Vector<float> a, Vector<float> b) {
  return uint32_t(_mm_movemask_ps(_mm_cmpge_ps((__m128)a, (__m128)b)));
}
#endif

}  // namespace
}  // namespace clearhead
