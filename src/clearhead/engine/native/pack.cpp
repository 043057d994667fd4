#define CLEARHEAD_LEVEL packing
#define CLEARHEAD_BYTES 16
#include "pack.h"

#include "operand.h"

namespace clearhead {
namespace {

constexpr int CHUNK = 256;  // numbers of a row that are turned into words at once

bool finite(const float* row, int in) { return largest_bits(row, in) < INFINITE_BITS; }

bool finite(const double* row, int in) {
  double sum = 0;  // x − x is 0 for a number, else it is none
  for (int k = 0; k < in; ++k) sum += row[k] - row[k];
  return sum == 0;
}

// Moves words of one row into its column of a panel, from its first group on.
template <typename Word>
void place(const Word* row, int count, Word* column) {
  for (int g = 0; g < count; ++g) column[size_t(g) * PANEL] = row[g];
}

// A row of f32 or f64. False if it is not finite; likewise the next two.
template <typename Real>
bool pack_plain(const Real* row, int in, Real* column) {
  if (!finite(row, in)) return false;
  place(row, in, column);
  return true;
}

bool pack_halves(const float* row, int in, uint32_t* column) {
  if (!finite(row, in)) return false;
  for (int k = 0; k < in; k += CHUNK) {
    const int some = in - k < CHUNK ? in - k : CHUNK;
    uint16_t halves[CHUNK] = {};
    uint32_t words[CHUNK / 2];
    prepare_halves(row + k, some, halves);
    std::memcpy(words, halves, sizeof words);
    place(words, (some + 1) / 2, column + size_t(k / 2) * PANEL);
  }
  return true;
}

bool pack_bytes(const float* row, int in, uint32_t* column, float* scale, int32_t* offset) {
  const Scaling how = scaling(row, in);
  if (!how.finite) return false;
  int32_t sum = 0;
  for (int k = 0; k < in; k += CHUNK) {
    const int some = in - k < CHUNK ? in - k : CHUNK;
    uint8_t bytes[CHUNK] = {};
    uint32_t words[CHUNK / 4];
    prepare_bytes(row + k, some, how.inverse, bytes);
    for (int i = 0; i < some; ++i) sum += bytes[i] - 128;
    std::memcpy(words, bytes, sizeof words);
    for (int i = 0; i < CHUNK / 4; ++i) words[i] ^= 0x80808080u;
    place(words, (some + 3) / 4, column + size_t(k / 4) * PANEL);
  }
  *scale = how.scale;
  *offset = -128 * sum;
  return true;
}

}  // namespace

size_t packed_bytes(Kind kind, int out, int in) {
  return size_t(panels(out)) * groups(kind, in) * PANEL * word_bytes(kind);
}

bool pack(Kind kind, const void* weight, int out, int in, void* words, float* scales, int32_t* offsets) {
  std::memset(words, 0, packed_bytes(kind, out, in));
  if (kind == Kind::int8) {
    std::memset(scales, 0, sizeof(float) * padded(out, PANEL));
    std::memset(offsets, 0, sizeof(int32_t) * padded(out, PANEL));
  }
  for (int n = 0; n < out; ++n) {
    const size_t from = size_t(n) * in;
    const size_t to = size_t(n / PANEL) * groups(kind, in) * PANEL + n % PANEL;
    const float* row = static_cast<const float*>(weight) + from;
    uint32_t* column = static_cast<uint32_t*>(words) + to;
    bool good;
    if (kind == Kind::f64) {
      good = pack_plain(static_cast<const double*>(weight) + from, in, static_cast<double*>(words) + to);
    } else if (kind == Kind::f32) {
      good = pack_plain(row, in, static_cast<float*>(words) + to);
    } else if (kind == Kind::bf16) {
      good = pack_halves(row, in, column);
    } else {
      good = pack_bytes(row, in, column, scales + n, offsets + n);
    }
    if (!good) return false;
  }
  return true;
}

}  // namespace clearhead
