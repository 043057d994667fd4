// The choice among logits (see Kernels::scan).
#pragma once

#include "mathematics.h"

namespace clearhead {
namespace {

// Whether candidate (value, token) goes before what stands at `place`.
template <typename Real>
inline bool before(Real value, int32_t token, const Best<Real>& best, int place) {
  return value > best.values[place] || (value == best.values[place] && token < best.tokens[place]);
}

// Of two that are in the heap, the place of the worse.
template <typename Real>
inline int worse_of(const Best<Real>& best, int one, int other) {
  return before(best.values[one], best.tokens[one], best, other) ? other : one;
}

template <typename Real>
inline void exchange(const Best<Real>& best, int one, int other) {
  const Real value = best.values[one];
  const int32_t token = best.tokens[one];
  best.values[one] = best.values[other];
  best.tokens[one] = best.tokens[other];
  best.values[other] = value;
  best.tokens[other] = token;
}

// Into a heap whose every place is worse than the two below it.
template <typename Real>
inline void offer_to_heap(Real value, int32_t token, Best<Real>& best) {
  if (best.found < best.wanted) {
    int place = best.found++;
    best.values[place] = value;
    best.tokens[place] = token;
    for (; place > 0 && worse_of(best, place, (place - 1) / 2) == place; place = (place - 1) / 2) {
      exchange(best, place, (place - 1) / 2);
    }
    return;
  }
  if (!before(value, token, best, 0)) return;
  best.values[0] = value;
  best.tokens[0] = token;
  for (int place = 0, below = 1; below < best.found; below = 2 * place + 1) {
    if (below + 1 < best.found) below = worse_of(best, below, below + 1);
    if (worse_of(best, place, below) == place) return;
    exchange(best, place, below);
    place = below;
  }
}

template <typename Real>
inline void offer(Real value, int32_t token, Best<Real>& best) {
  if (best.wanted > SORTED) return offer_to_heap(value, token, best);
  if (best.found == best.wanted) {
    if (!before(value, token, best, best.found - 1)) return;
    --best.found;
  }
  int place = best.found++;
  for (; place > 0 && before(value, token, best, place - 1); --place) {
    best.values[place] = best.values[place - 1];
    best.tokens[place] = best.tokens[place - 1];
  }
  best.values[place] = value;
  best.tokens[place] = token;
}

// What a value must reach to be looked at: the worst of the best, which an equal one with a lower token displaces.
template <typename Real>
inline Real bar_of(const Best<Real>& best) {
  if (best.wanted == 0) return Real(__builtin_inf());
  if (best.found < best.wanted) return -Real(__builtin_inf());
  return best.values[best.wanted > SORTED ? 0 : best.wanted - 1];
}

// The maximum of logits first … last − 1, which compete for `best`; of numbers alone, −∞ if there are none.
template <typename Real>
inline Real choose(const Real* logits, int first, int last, int token, Best<Real>& best) {
  constexpr int W = WIDTH<Real>, STEP = 4 * W;
  const Vector<Real> nothing = all(-Real(__builtin_inf()));
  Vector<Real> top = nothing, bar = all(bar_of(best));
  int n = first;
  for (; n + STEP <= last; n += STEP) {
    const Vector<Real> parts[4] = {load(logits + n), load(logits + n + W), load(logits + n + 2 * W),
                                   load(logits + n + 3 * W)};
    // What is no number loses against a number, so it does not hide one.
    const Vector<Real> here = greater<Real>(greater<Real>(parts[0], greater<Real>(parts[1], nothing)),
                                            greater<Real>(parts[2], greater<Real>(parts[3], nothing)));
    top = greater<Real>(here, top);
    if (reaching<Real>(here, bar) == 0) continue;
    for (int part = 0; part < 4; ++part) {
      for (uint32_t lanes = reaching<Real>(parts[part], bar); lanes != 0; lanes &= lanes - 1) {
        const int i = n + part * W + __builtin_ctz(lanes);
        if (best.wanted > 0) offer(logits[i], token + i, best);
      }
      bar = all(bar_of(best));
    }
  }
  Real maximum = greatest_across<Real>(top)[0];
  for (; n < last; ++n) {
    if (logits[n] > maximum) maximum = logits[n];
    if (best.wanted > 0 && logits[n] >= bar_of(best)) offer(logits[n], token + n, best);
  }
  return maximum;
}

// The first `count` numbers, −∞ behind them.
template <typename Real>
inline Vector<Real> filled(const Real* from, int count) {
  Vector<Real> value = all(-Real(__builtin_inf()));
  for (int i = 0; i < count; ++i) value[i] = from[i];
  return value;
}

// Σ e^(x − maximum), registers in turns into four sums. What does not fill a register is filled up with −∞.
template <typename Real>
inline Real sum_of_exponentials(const Real* x, int count, Real maximum) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> sums[4] = {};
  int n = 0;
  for (; n + 4 * W <= count; n += 4 * W) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] += exponential(load(x + n + i * W) - maximum);
  }
  for (; n < count; n += W) sums[0] += exponential((count - n < W ? filled(x + n, count - n) : load(x + n)) - maximum);
  return sum_across<Real>((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

#if CLEARHEAD_BYTES == 64 && defined(__AVX512F__)

// The same with fewer instructions: not the maximum is taken away but a power of two beside it, which is made up for
// at the end, and a term is added before it is rounded.
inline float sum_of_exponentials(const float* x, int count, float maximum) {
  if (!(maximum < 1e6f && maximum > -1e6f)) return sum_of_exponentials<float>(x, count, maximum);
  const float power = float(int(maximum * LOG2_E));
  const __m512i sixteenths = _mm512_load_si512(SIXTEENTHS);
  const __m512 log2_e = _mm512_set1_ps(LOG2_E), units = _mm512_set1_ps(SIXTEENTH_UNITS - power);
  const __m512 lowest = _mm512_set1_ps(maximum - 86.0f);
  const auto add = [=](__m512& sum, __m512 logits) {
    const __m512 value = _mm512_max_ps(lowest, logits);
    const __m512 counted = _mm512_fmadd_ps(value, log2_e, units);
    const __m512 rest = _mm512_fmsub_ps(value, log2_e, _mm512_sub_ps(counted, units));
    const __m512i bits = _mm512_castps_si512(counted);
    const __m512 factor = _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_permutexvar_epi32(bits, sixteenths), _mm512_slli_epi32(bits, 19)));
    __m512 term = _mm512_fmadd_ps(rest, _mm512_set1_ps(0.05550595003f), _mm512_set1_ps(0.24023428827f));
    term = _mm512_fmadd_ps(term, rest, _mm512_set1_ps(0.69314718003f));
    term = _mm512_fmadd_ps(term, rest, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(term, factor, sum);
  };
  __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  int n = 0;
  for (; n + 64 <= count; n += 64) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) add(sums[i], _mm512_loadu_ps(x + n + 16 * i));
  }
  for (; n < count; n += 16) add(sums[0], (__m512)(count - n < 16 ? filled(x + n, count - n) : load(x + n)));
  const __m512 all_sums = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
  const double beside = 0.69314718055994530942 * (double(power) - double(maximum) * LOG2_E);
  return sum_across<float>((Vector<float>)all_sums)[0] * exponential(all(float(beside)))[0];
}

#endif

template <typename Real>
void scan(const Real* logits, int count, int token, int lowest, Best<Real>& best, Real& maximum, Real& sum) {
  const int first = lowest <= token ? 0 : lowest - token < count ? lowest - token : count;
  maximum = choose(logits, first, count, token, best);
  for (int n = 0; n < first; ++n) {
    if (logits[n] > maximum) maximum = logits[n];
  }
  // Of −∞ alone the sum is 0, unless there is what is no number.
  const bool nothing = maximum == -Real(__builtin_inf());
  sum = nothing ? sum_of_exponentials(logits, count, Real(0)) * 0 : sum_of_exponentials(logits, count, maximum);
}

}  // namespace
}  // namespace clearhead
