// Vectors of numbers, by the compiler's own vector types: one source for every instruction set and for double.
//
// A file level_*.cpp names its namespace (CLEARHEAD_LEVEL) and the width of its registers in bytes (CLEARHEAD_BYTES),
// then includes the kernels. Everything here has internal linkage, so that no code of one level can end up in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.h"

namespace clearhead {
namespace {

template <typename Real>
struct VectorOf {
  typedef Real Type __attribute__((vector_size(CLEARHEAD_BYTES)));
};
template <typename Real>
using Vector = typename VectorOf<Real>::Type;

// Numbers in one register; divides LANES, KEYS and PANEL.
template <typename Real>
constexpr int WIDTH = CLEARHEAD_BYTES / int(sizeof(Real));

template <typename Real>
inline Vector<Real> load(const Real* from) {
  Vector<Real> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename Real>
inline void store(Real* to, Vector<Real> value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename Real>
inline Vector<Real> all(Real value) {
  return value - Vector<Real>{};
}

// The value, rounded: a product that passes here is not fused with the sum that follows, so that every instruction set
// gives the same bits where the specification says that product and sum are rounded each.
template <typename Value>
inline Value settled(Value value) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(value));
#elif defined(__SSE2__)
  __asm__("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__("" : "+w"(value));
#else
  __asm__("" : "+m"(value));
#endif
  return value;
}

}  // namespace
}  // namespace clearhead
