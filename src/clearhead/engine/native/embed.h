// Preparing rows, and the rows of a matrix: what an instruction set's table takes as it is.
#pragma once

#include "kernels.h"
#include "operand.h"
#include "simd.h"

namespace clearhead {
namespace {

void prepare(Kind kind, const float* x, int rows, int in, size_t stride, void* words, float* scales) {
  const size_t row_words = groups(kind, in);
  for (int row = 0; row < rows; ++row) {
    char* to = static_cast<char*>(words) + row * row_words * 4;
    if (kind == Kind::int8) {
      const Scaling how = scaling(x + row * stride, in);
      prepare_bytes(x + row * stride, in, how.inverse, reinterpret_cast<uint8_t*>(to));
      scales[row] = how.scale;
    }
    if (kind == Kind::bf16) prepare_halves(x + row * stride, in, reinterpret_cast<uint16_t*>(to));
  }
}

// A row of the matrix, at a word's distance of PANEL words, as numbers.
template <typename Real>
void unpack_row(const Matrix<Real>& matrix, int id, Real* y) {
  const int column = id % PANEL;
  const int count = groups(matrix.kind, matrix.in);
  const size_t from = size_t(id / PANEL) * count * PANEL + column;
  if (matrix.kind == Kind::f32 || matrix.kind == Kind::f64) {
    const Real* words = static_cast<const Real*>(matrix.words) + from;
    for (int k = 0; k < count; ++k) y[k] = words[size_t(k) * PANEL];
    return;
  }
  const uint32_t* words = static_cast<const uint32_t*>(matrix.words) + from;
  const int each = per_word(matrix.kind);
  const float scale = matrix.kind == Kind::int8 ? matrix.scales[id] : 1.0f;
  for (int g = 0; g < count; ++g) {
    const uint32_t word = words[size_t(g) * PANEL];
    for (int i = 0; i < each && g * each + i < matrix.in; ++i) {
      float value;
      if (matrix.kind == Kind::int8) {
        value = float(int8_t(word >> (8 * i))) * scale;
      } else {
        const uint32_t bits = word >> (16 * i) << 16;
        std::memcpy(&value, &bits, sizeof value);
      }
      y[g * each + i] = Real(value);
    }
  }
}

template <typename Real>
void embed(const Matrix<Real>& matrix, const int32_t* ids, const int32_t* positions, int rows, Real factor,
           const Real* table, Real* y, size_t y_stride) {
  for (int row = 0; row < rows; ++row, y += y_stride) {
    unpack_row(matrix, ids[row], y);
    const Real* plus = table ? table + size_t(positions[row]) * matrix.in : nullptr;
    int k = 0;
    for (; k + WIDTH<Real> <= matrix.in; k += WIDTH<Real>) {
      const Vector<Real> value = settled(load(y + k) * all(factor));
      store(y + k, plus ? value + load(plus + k) : value);
    }
    for (; k < matrix.in; ++k) {
      const Real value = settled(y[k] * factor);
      y[k] = plus ? value + plus[k] : value;
    }
  }
}

}  // namespace
}  // namespace clearhead
