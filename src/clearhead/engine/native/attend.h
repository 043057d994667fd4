// Attention of queries over a past or a source (see Kernels::attend_past, Kernels::attend_source, Kernels::arrange).
//
// A score is added up along the width, a context along the positions, in an order that is the same for any number of
// queries and heads: of the source each as two sums, of the even and of the odd places.
#pragma once

#include "mathematics.h"

namespace clearhead {
namespace {

// 0, 1, 2, …: the lanes' own numbers.
template <typename Real>
struct Counted {
  Real numbers[WIDTH<Real>];
  constexpr Counted() : numbers() {
    for (int i = 0; i < WIDTH<Real>; ++i) numbers[i] = Real(i);
  }
};
template <typename Real>
constexpr Counted<Real> COUNTED{};

// Scores to e^(score − greatest), in place, and their sum, which is 1 or more. There is room for `length` padded to
// LANES; what stands behind `length` adds less than the sum can show. (Writing −∞ there number by number, to be read as
// a register, would make the reader wait.)
template <typename Real>
inline Real weigh(Real* scores, int length) {
  constexpr int W = WIDTH<Real>;
  const int rest = (length - 1) / W * W;
  const Vector<Real> nothing = all(-Real(__builtin_inf()));
  const Vector<Real> final = load(COUNTED<Real>.numbers) < Real(length - rest) ? load(scores + rest) : nothing;
  Vector<Real> top = final;
  for (int s = 0; s < rest; s += W) top = greater<Real>(load(scores + s), top);
  const Vector<Real> greatest = greatest_across<Real>(top);
  Vector<Real> sum = exponential(final - greatest);
  store(scores + rest, sum);
  for (int s = 0; s < rest; s += W) {
    const Vector<Real> weights = exponential(load(scores + s) - greatest);
    store(scores + s, weights);
    sum += weights;
  }
  return sum_across<Real>(sum)[0];
}

// ---- a past whose positions lie anywhere; V, the registers of a head, is 0 where only `width` says it

// The products of a query and a key, not yet added up across the lanes.
template <typename Real, int V>
inline __attribute__((always_inline)) Vector<Real> meet(const Real* query, const Real* key, int width) {
  const int registers = V == 0 ? width / WIDTH<Real> : V;
  Vector<Real> sum = load(query) * load(key);
#pragma GCC unroll 16
  for (int v = 1; v < registers; ++v) sum += load(query + v * WIDTH<Real>) * load(key + v * WIDTH<Real>);
  return sum;
}

// The products of COUNT positions from FIRST on, added up as a tree: with COUNT = WIDTH lane i holds the score of
// position i. Nothing is read for the positions from LIMIT on; behind `final` the last position stands in.
template <typename Real, int V, int LIMIT, int FIRST = 0, int COUNT = WIDTH<Real>>
inline __attribute__((always_inline)) Vector<Real> score_tree(const Real* query, const Real* const* past, int final,
                                                              size_t at, int width) {
  if constexpr (FIRST >= LIMIT) {
    return Vector<Real>{};
  } else if constexpr (COUNT == 1) {
    return meet<Real, V>(query, past[FIRST < final ? FIRST : final] + at, width);
  } else {
    return pair_of_sums<Real, COUNT>(
        score_tree<Real, V, LIMIT, FIRST, COUNT / 2>(query, past, final, at, width),
        score_tree<Real, V, LIMIT, FIRST + COUNT / 2, COUNT / 2>(query, past, final, at, width));
  }
}

template <typename Real, int V>
inline void score_past(const Real* query, Real scale, const Real* const* past, int length, size_t at, int width,
                       Real* scores) {
  constexpr int W = WIDTH<Real>;
  for (int s = 0; s < length; s += W) {
    const int final = length - s < W ? length - s - 1 : W - 1;
    Vector<Real> sums;
    if (final == W - 1) {
      sums = score_tree<Real, V, W>(query, past + s, W, at, width);
    } else if (final < W / 4) {
      sums = score_tree<Real, V, W / 4>(query, past + s, final, at, width);
    } else if (final < W / 2) {
      sums = score_tree<Real, V, W / 2>(query, past + s, final, at, width);
    } else {
      sums = score_tree<Real, V, W>(query, past + s, final, at, width);
    }
    store<Real>(scores + s, sums * scale);
  }
}

// V registers of the contexts of H heads, V registers apart, from the values at `at` of each position.
template <typename Real, int V, int H>
inline __attribute__((always_inline)) void read_past(const Real* weights, size_t room, const Real* factors,
                                                     const Real* const* past, int length, const size_t* at,
                                                     Real* context) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> sums[H][V] = {};
  for (int s = 0; s < length; ++s) {
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const Real weight = weights[h * room + s];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sums[h][v] += load(past[s] + at[h] + v * W) * weight;
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) store<Real>(context + (h * V + v) * W, sums[h][v] * factors[h]);
  }
}

// H heads from head h on. They lie side by side in each position, so that it is read in long pieces.
template <typename Real, int V, int H>
inline void past_of_heads(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads,
                          int width, int h, Real* scratch, Real* context) {
  const size_t room = padded(length, LANES);
  size_t at[H];
  Real factors[H];
  for (int i = 0; i < H; ++i) {
    at[i] = size_t((h + i) / (heads / kv_heads)) * width;
    score_past<Real, V>(query + size_t(h + i) * width, scale, past, length, at[i], width, scratch + i * room);
  }
  for (int i = 0; i < H; ++i) {
    at[i] += size_t(kv_heads) * width;
    factors[i] = 1 / weigh(scratch + i * room, length);
  }
  Real* to = context + size_t(h) * width;
  if constexpr (V > 0) {
    read_past<Real, V, H>(scratch, room, factors, past, length, at, to);
  } else {
    for (int n = 0; n < width; n += WIDTH<Real>, at[0] += WIDTH<Real>) {
      read_past<Real, 1, 1>(scratch, room, factors, past, length, at, to + n);
    }
  }
}

template <typename Real, int V>
inline void past_of_width(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads,
                          int width, int first, int last, Real* scratch, Real* context) {
  constexpr int ROOM = CLEARHEAD_BYTES == 64 ? 16 : 8;  // registers for sums; as many heads at once as they hold
  constexpr int H = V == 0 || V > ROOM / 2 ? 1 : V > ROOM / 4 ? 2 : 4;
  int h = first;
  for (; h + H <= last; h += H) {
    past_of_heads<Real, V, H>(query, scale, past, length, heads, kv_heads, width, h, scratch, context);
  }
  for (; h < last; ++h) {
    past_of_heads<Real, V, 1>(query, scale, past, length, heads, kv_heads, width, h, scratch, context);
  }
}

template <int COUNT>
struct Registers {
  static constexpr int value = COUNT;
};

template <typename Real>
void attend_past(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads, int width,
                 int first, int last, Real* scratch, Real* context) {
  constexpr int W = WIDTH<Real>;
  const auto attend = [=](auto registers) {
    past_of_width<Real, decltype(registers)::value>(query, scale, past, length, heads, kv_heads, width, first, last,
                                                    scratch, context);
  };
  if (width == 32) {
    attend(Registers<32 / W>{});
  } else if (width == 64) {
    attend(Registers<64 / W>{});
  } else {
    attend(Registers<0>{});
  }
}

// ---- a source, arranged

template <typename Real>
void arrange(const Real* rows, size_t stride, int length, int kv_heads, int width, Real* keys, Real* values) {
  constexpr int W = WIDTH<Real>;
  for (int h = 0; h < kv_heads; ++h) {
    for (int s = 0; s < padded(length, KEYS); s += W) {
      Real* block = keys + (size_t(h) * padded(length, KEYS) + s / KEYS * KEYS) * width + s % KEYS;
      for (int n = 0; n < width; n += W) {
        Vector<Real> square[W] = {};
        for (int i = 0; i < W && s + i < length; ++i) square[i] = load(rows + (s + i) * stride + size_t(h) * width + n);
        transpose<Real>(square);
        for (int i = 0; i < W; ++i) store(block + size_t(n + i) * KEYS, square[i]);
      }
    }
    for (int s = 0; s < length; ++s) {
      std::memcpy(values + (size_t(h) * length + s) * width, rows + s * stride + size_t(kv_heads + h) * width,
                  width * sizeof(Real));
    }
  }
}

// The scores of Q queries and the keys of N registers from register `column` on.
template <typename Real, int Q, int N>
inline __attribute__((always_inline)) void score_tile(const Real* query, size_t stride, Real scale, const Real* keys,
                                                      int column, int width, Real* scores, size_t scores_stride) {
  constexpr int W = WIDTH<Real>;
  const Real* columns[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    const int key = (column + i) * W;
    columns[i] = keys + size_t(key / KEYS) * KEYS * width + key % KEYS;
  }
  Vector<Real> even[Q][N] = {}, odd[Q][N] = {};
  for (int n = 0; n < width; n += 2) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      const Vector<Real> one = load(columns[i] + n * KEYS), two = load(columns[i] + (n + 1) * KEYS);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) {
        even[q][i] += one * query[q * stride + n];
        odd[q][i] += two * query[q * stride + n + 1];
      }
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      store<Real>(scores + q * scores_stride + (column + i) * W, (even[q][i] + odd[q][i]) * scale);
    }
  }
}

// N registers of the contexts of Q queries.
template <typename Real, int Q, int N>
inline __attribute__((always_inline)) void context_tile(const Real* weights, size_t weights_stride,
                                                        const Real* factors, const Real* values, int length, int width,
                                                        Real* context, size_t context_stride) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> even[Q][N] = {}, odd[Q][N] = {};
  int s = 0;
  for (; s + 2 <= length; s += 2) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      const Vector<Real> one = load(values + size_t(s) * width + i * W);
      const Vector<Real> two = load(values + size_t(s + 1) * width + i * W);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) {
        even[q][i] += one * weights[q * weights_stride + s];
        odd[q][i] += two * weights[q * weights_stride + s + 1];
      }
    }
  }
  if (s < length) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      const Vector<Real> one = load(values + size_t(s) * width + i * W);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) even[q][i] += one * weights[q * weights_stride + s];
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      store<Real>(context + q * context_stride + i * W, (even[q][i] + odd[q][i]) * factors[q]);
    }
  }
}

// Registers side by side: four queries fill the registers for sums with fewer of them than one.
template <int Q>
constexpr int SIDE_BY_SIDE = CLEARHEAD_BYTES == 64 ? (Q == 1 ? 4 : 2) : (Q == 1 ? 4 : Q == 2 ? 2 : 1);

// One head, Q queries.
template <typename Real, int Q>
inline void attend_head(const Real* query, size_t stride, Real scale, const Real* keys, const Real* values, int length,
                        int width, Real* scratch, Real* context, size_t context_stride) {
  constexpr int W = WIDTH<Real>, N = SIDE_BY_SIDE<Q>;
  const int room = padded(length, KEYS), columns = padded(length, W) / W;
  int c = 0;
  for (; c + N <= columns; c += N) score_tile<Real, Q, N>(query, stride, scale, keys, c, width, scratch, room);
  for (; c < columns; ++c) score_tile<Real, Q, 1>(query, stride, scale, keys, c, width, scratch, room);
  Real factors[Q];
  for (int q = 0; q < Q; ++q) factors[q] = 1 / weigh(scratch + q * room, length);
  int n = 0;
  for (; n + N * W <= width; n += N * W) {
    context_tile<Real, Q, N>(scratch, room, factors, values + n, length, width, context + n, context_stride);
  }
  for (; n < width; n += W) {
    context_tile<Real, Q, 1>(scratch, room, factors, values + n, length, width, context + n, context_stride);
  }
}

template <typename Real>
void attend_source(const Real* query, size_t stride, int queries, Real scale, const Real* keys, const Real* values,
                   int length, int heads, int kv_heads, int width, int first, int last, Real* scratch, Real* context,
                   size_t context_stride) {
  const int sharing = heads / kv_heads;
  for (int h = first; h < last; ++h) {
    const Real* head_keys = keys + size_t(h / sharing) * padded(length, KEYS) * width;
    const Real* head_values = values + size_t(h / sharing) * length * width;
    for (int q = 0; q < queries; q += 4) {
      const Real* from = query + q * stride + size_t(h) * width;
      Real* to = context + q * context_stride + size_t(h) * width;
      switch (queries - q) {
        case 1:
          attend_head<Real, 1>(from, stride, scale, head_keys, head_values, length, width, scratch, to, context_stride);
          break;
        case 2:
          attend_head<Real, 2>(from, stride, scale, head_keys, head_values, length, width, scratch, to, context_stride);
          break;
        case 3:
          attend_head<Real, 3>(from, stride, scale, head_keys, head_values, length, width, scratch, to, context_stride);
          break;
        default:
          attend_head<Real, 4>(from, stride, scale, head_keys, head_values, length, width, scratch, to, context_stride);
      }
    }
  }
}

}  // namespace
}  // namespace clearhead
