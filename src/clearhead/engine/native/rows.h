// Norm and bend of rows, each row by itself (see Kernels::norm, Kernels::bend).
#pragma once

#include "mathematics.h"

namespace clearhead {
namespace {

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

// The sum of term(vector, place) over a row: registers in turns into four sums, the rest of the row behind them.
// `term` gets the place and how many numbers there are, WIDTH but for the rest.
template <typename Real, typename Term>
inline __attribute__((always_inline)) Real sum_of(int width, Term term) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> sums[4] = {};
  int n = 0;
  for (; n + 4 * W <= width; n += 4 * W) {
    for (int i = 0; i < 4; ++i) sums[i] += term(n + i * W, W);
  }
  for (; n < width; n += W) sums[0] += term(n, width - n < W ? width - n : W);
  return sum_across<Real>((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

template <typename Real>
inline Vector<Real> load_up_to(const Real* from, int count) {
  return count == WIDTH<Real> ? load(from) : load_rest(from, count);
}

template <typename Real>
inline void store_up_to(Real* to, Vector<Real> value, int count) {
  if (count == WIDTH<Real>) {
    store(to, value);
  } else {
    store_rest(to, value, count);
  }
}

// The lanes from `count` on set to zero.
template <typename Real>
inline Vector<Real> only(Vector<Real> value, int count) {
  for (int i = count; i < WIDTH<Real>; ++i) value[i] = 0;
  return value;
}

template <typename Real>
void norm(const Real* x, const Real* plus, const Real* gain, const Real* bias, Real epsilon, int rows, int width,
          size_t stride, Real* sum, Real* y) {
  for (int r = 0; r < rows; ++r) {
    const Real* from = x + r * stride;
    const Real* more = plus == nullptr ? nullptr : plus + r * stride;
    Real* to = y == nullptr ? nullptr : y + r * stride;
    Real* kept = sum == nullptr ? to : sum + r * stride;  // y serves as a place for s where nobody asks for it
    if (kept == nullptr) continue;
    const Real total = sum_of<Real>(width, [=](int n, int count) {
      Vector<Real> value = load_up_to(from + n, count);
      if (more != nullptr) value += load_up_to(more + n, count);
      store_up_to(kept + n, value, count);
      return value;
    });
    if (to == nullptr) continue;
    const Real mean = total / width;
    const Real squares = sum_of<Real>(width, [=](int n, int count) {
      const Vector<Real> value = only<Real>(load_up_to<Real>(kept + n, count) - mean, count);
      return value * value;
    });
    const Real factor = 1 / root(squares / width + epsilon);
    for (int n = 0; n < width; n += WIDTH<Real>) {
      const int count = width - n < WIDTH<Real> ? width - n : WIDTH<Real>;
      const Vector<Real> value = (load_up_to<Real>(kept + n, count) - mean) * factor;
      store_up_to<Real>(to + n, value * load_up_to(gain + n, count) + load_up_to(bias + n, count), count);
    }
  }
}

template <typename Real, typename Function>
inline __attribute__((always_inline)) void bend_rows(Real* x, const Real* gate, int rows, int width, size_t stride,
                                                     Function function) {
  for (int r = 0; r < rows; ++r) {
    Real* row = x + r * stride;
    const Real* gates = gate == nullptr ? row : gate + r * stride;
    for (int n = 0; n < width; n += WIDTH<Real>) {
      const int count = width - n < WIDTH<Real> ? width - n : WIDTH<Real>;
      const Vector<Real> value = load_up_to<Real>(row + n, count);
      store_up_to<Real>(row + n, function(value, load_up_to(gates + n, count)), count);
    }
  }
}

template <typename Real>
void bend(Bend bend, Real* x, const Real* gate, int rows, int width, size_t stride) {
  typedef Vector<Real> Values;
  switch (bend) {
    case Bend::relu:
      return bend_rows(x, gate, rows, width, stride, [](Values value, Values) { return value < 0 ? Values{} : value; });
    case Bend::gelu:
      return bend_rows(x, gate, rows, width, stride, [](Values value, Values) { return gelu(value); });
    case Bend::silu:
      return bend_rows(x, gate, rows, width, stride, [](Values value, Values) { return silu<Real>(value); });
    case Bend::swiglu:
      return bend_rows(x, gate, rows, width, stride,
                       [](Values value, Values other) { return silu<Real>(other) * value; });
  }
}

}  // namespace
}  // namespace clearhead
