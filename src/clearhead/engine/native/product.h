// Products of operands by a packed matrix: one source for every instruction set, which brings an arithmetic of its own.
//
// An arithmetic says how a word of an operand meets the words of a panel:
//   Sum, Weights, Factor   what a register of sums, of a panel's words, of one operand's word repeated holds
//   WORD, WIDE, BYTES      the bytes of a word; the columns of one register, and their bytes
//   ROWS                   the most rows that are multiplied at once
//   across(rows)           the registers side by side for so many rows; divides PANEL / WIDE
//   SCALED                 whether sums are integers, which scales turn into numbers
//   start                  a sum of nothing, for the columns from the given one on of a panel with these offsets
//   load, spread, step     words of a panel; a word of the operand in every lane; sum += weights · factor
//   numbers                sums as numbers
// A sum runs through the groups in order whatever the tile, so neither the number of rows nor where a row lies in its
// tile changes a bit of it.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace clearhead {
namespace {

// Where a panel meets some rows: all that a tile reads and writes.
template <typename Real>
struct Meeting {
  const char* panel;     // its words
  const float* scales;   // of its first column; likewise the next two
  const int32_t* offsets;
  const Real* bias;
  const char* operand;   // of the first row
  size_t operand_bytes;  // from row to row
  const float* row_scales;
  Real* y;               // the first row at the first column of the panel
  size_t y_stride;
  Real lowest;  // result that may be: 0 for relu, else −∞
  // What is read next, asked for while this is worked on: so many lines every STEP groups.
  const char* ahead;
  const char* ahead_end;
  int ahead_lines;
};

constexpr int LINE = 64;  // bytes of a line of the cache
constexpr int STEP = 8;   // groups between two looks ahead

#define INLINED __attribute__((always_inline))

template <int VALUE>
struct Constant {
  constexpr int operator()() const { return VALUE; }
};

// The same pointer, of which the compiler does not know that: it cannot read ahead of this place through it, which it
// would do until it runs out of registers and moves sums to memory.
template <typename T>
inline INLINED T* from_here(T* pointer) {
  __asm__("" : "+r"(pointer));
  return pointer;
}

// Calls `body` with 0 … COUNT − 1 as constants, so that an array which it indexes can live in registers.
template <int COUNT, typename Body>
inline INLINED void repeat(const Body& body) {
  if constexpr (COUNT > 0) {
    repeat<COUNT - 1>(body);
    body(Constant<COUNT - 1>{});
  }
}

// One group of all rows and of the columns from `words` on.
template <typename Arithmetic, int ROWS, int ACROSS>
inline INLINED void add_group(typename Arithmetic::Sum (&sums)[ROWS][ACROSS], const char* words, const char* operand,
                              size_t operand_bytes) {
  typename Arithmetic::Weights weights[ACROSS];
  repeat<ACROSS>([&](auto a) INLINED { weights[a()] = Arithmetic::load(words + a() * Arithmetic::BYTES); });
  repeat<ROWS>([&](auto r) INLINED {
    const typename Arithmetic::Factor factor = Arithmetic::spread(operand + r() * operand_bytes);
    repeat<ACROSS>([&](auto a) INLINED { sums[r()][a()] = Arithmetic::step(sums[r()][a()], weights[a()], factor); });
  });
}

// Writes the results of the columns from `column` of the panel on.
template <typename Arithmetic, int ROWS, int ACROSS, typename Real>
inline INLINED void finish(const Meeting<Real>& at, int column,
                           const typename Arithmetic::Sum (&sums)[ROWS][ACROSS]) {
  const Vector<Real> lowest = all(at.lowest);
  const float* scales = Arithmetic::SCALED ? at.scales + column : nullptr;
  const Real* bias = at.bias + column;
  const float* row_scales = at.row_scales;
  const size_t y_stride = at.y_stride;
  Real* y = at.y + column;
  repeat<ROWS>([&](auto r) INLINED {
    bias = from_here(bias);
    if constexpr (Arithmetic::SCALED) scales = from_here(scales);
    repeat<ACROSS>([&](auto a) INLINED {
      constexpr int n = a() * Arithmetic::WIDE;
      Vector<Real> value = Arithmetic::numbers(sums[r()][a()]);
      if constexpr (Arithmetic::SCALED) value = settled(value * load(scales + n) * all(row_scales[r()]));
      value = value + load(bias + n);
      store(y + n, value < lowest ? lowest : value);
    });
    y += y_stride;
  });
}

// All columns of a panel for ROWS rows.
template <typename Arithmetic, int ROWS, typename Real>
__attribute__((noinline)) void tile(const Meeting<Real>& at, int groups) {
  constexpr int ACROSS = Arithmetic::across(ROWS);
  constexpr int GROUP = PANEL * Arithmetic::WORD;
  const size_t operand_bytes = at.operand_bytes;
  const char* ahead = at.ahead;
  const char* const ahead_end = at.ahead_end;
  const int ahead_lines = at.ahead_lines;
  for (int column = 0; column < PANEL; column += ACROSS * Arithmetic::WIDE) {
    typename Arithmetic::Sum sums[ROWS][ACROSS];
    repeat<ACROSS>([&](auto a) INLINED {
      const typename Arithmetic::Sum start = Arithmetic::start(at.offsets, column + a() * Arithmetic::WIDE);
      repeat<ROWS>([&](auto r) INLINED { sums[r()][a()] = start; });
    });
    const char* words = at.panel + column * Arithmetic::WORD;
    const char* operand = at.operand;
    const char* const end = words + size_t(groups) * GROUP;
    do {
      const char* const pause = end - words > STEP * GROUP ? words + STEP * GROUP : end;
      do {
        add_group<Arithmetic, ROWS, ACROSS>(sums, words, operand, operand_bytes);
        words += GROUP;
        operand += Arithmetic::WORD;
      } while (words != pause);
      if (ahead < ahead_end) {
        for (int line = 0; line < ahead_lines; ++line, ahead += LINE) __builtin_prefetch(ahead, 0, 2);
      }
    } while (words != end);
    finish<Arithmetic, ROWS, ACROSS>(at, column, sums);
  }
}

template <typename Arithmetic, int ROWS, typename Real>
inline void tile_of(int rows, const Meeting<Real>& at, int groups) {
  if constexpr (ROWS > 1) {
    if (rows < ROWS) return tile_of<Arithmetic, ROWS - 1, Real>(rows, at, groups);
  }
  tile<Arithmetic, ROWS, Real>(at, groups);
}

// A panel for all rows, then the next panel: a panel comes from far away once, and is near for all tiles but the first.
// Rows are shared out evenly among the fewest tiles.
template <typename Arithmetic, typename Real>
void multiply(const Matrix<Real>& matrix, const void* words, size_t stride, const float* row_scales, int rows, Real* y,
              size_t y_stride, int first, int last, bool relu) {
  static const Real no_bias[PANEL] = {};
  if (rows <= 0) return;
  const int count = groups(matrix.kind, matrix.in);
  const size_t panel_bytes = size_t(count) * PANEL * Arithmetic::WORD;
  const int tiles = (rows + Arithmetic::ROWS - 1) / Arithmetic::ROWS;
  const int share = (int(panel_bytes / LINE) + tiles - 1) / tiles;  // lines of the next panel that a tile asks for
  const int pauses = (count + STEP - 1) / STEP;
  Meeting<Real> at;
  at.operand_bytes = stride * Arithmetic::WORD;
  at.y_stride = y_stride;
  at.lowest = relu ? Real(0) : -Real(__builtin_inf());
  at.ahead_lines = (share + pauses - 1) / pauses;
  for (int panel = first; panel < last; ++panel) {
    const size_t column = size_t(panel) * PANEL;
    at.panel = static_cast<const char*>(matrix.words) + panel * panel_bytes;
    at.scales = Arithmetic::SCALED ? matrix.scales + column : nullptr;
    at.offsets = Arithmetic::SCALED ? matrix.offsets + column : nullptr;
    at.bias = matrix.bias ? matrix.bias + column : no_bias;
    for (int t = 0, row = 0; t < tiles; ++t) {
      const int end = int(int64_t(rows) * (t + 1) / tiles);
      at.operand = static_cast<const char*>(words) + row * at.operand_bytes;
      at.row_scales = Arithmetic::SCALED ? row_scales + row : nullptr;
      at.y = y + row * y_stride + column;
      // A single tile reads straight on, and the processor sees that by itself.
      at.ahead = at.panel + panel_bytes + size_t(t) * share * LINE;
      at.ahead_end = panel + 1 < last && tiles > 1 ? at.ahead + size_t(share) * LINE : at.ahead;
      tile_of<Arithmetic, Arithmetic::ROWS, Real>(end - row, at, count);
      row = end;
    }
  }
}

}  // namespace
}  // namespace clearhead
