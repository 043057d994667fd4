// What an instruction set must supply: one table of functions per set, chosen once when the library is loaded.
//
// Every function works on the rows it is given and on nothing else, and adds up each result in an order that depends
// neither on how many rows there are nor on how the work is shared among threads. So a sentence gets the same bits
// alone, in any batch, and with any number of threads.
//
// Nothing here allocates, and nothing here may use a template of the standard library: these functions are compiled
// once per instruction set, and the linker would keep only one copy of a shared template, perhaps the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clearhead {

// How the numbers of a matrix are stored. Activations are float, or double for f64.
enum class Kind : int32_t { f32 = 0, bf16 = 1, int8 = 2, f64 = 3 };

// Output columns of one panel: all matrices are padded to whole panels with zeros, and results are written panel by
// panel, so a row of results needs room for whole panels.
constexpr int PANEL = 64;
// Keys of one block of remembered source keys.
constexpr int KEYS = 16;
// The width of a head is padded to a multiple of this with zeros.
constexpr int LANES = 16;

constexpr int padded(int size, int step) { return (size + step - 1) / step * step; }

// Numbers of the inner dimension that share one word of a panel (a word is 4 bytes, of f64 8).
constexpr int per_word(Kind kind) { return kind == Kind::bf16 ? 2 : kind == Kind::int8 ? 4 : 1; }
constexpr int word_bytes(Kind kind) { return kind == Kind::f64 ? 8 : 4; }
constexpr int groups(Kind kind, int in) { return padded(in, per_word(kind)) / per_word(kind); }
constexpr int panels(int out) { return padded(out, PANEL) / PANEL; }

// A packed weight W [out, in] of y = x·Wᵀ + b. All arrays are aligned to 64 bytes.
template <typename Real>
struct Matrix {
  Kind kind;
  int32_t out, in;
  const void* words;       // [panels][groups][PANEL] words
  const float* scales;     // int8 alone: by what a column's numbers are multiplied, [panels·PANEL]; 0 in the padding
  const int32_t* offsets;  // int8 alone: −128·Σ_k w[n, k], since activations are stored with 128 added, [panels·PANEL]
  const Real* bias;        // [panels·PANEL], or null
};

// The best candidates among logits seen so far: higher value first, of equal values the lower token. Where more than
// SORTED are wanted they stand in a heap instead, the worst of them first: sorting each in would take too long.
constexpr int SORTED = 64;

template <typename Real>
struct Best {
  int32_t wanted, found;
  Real* values;     // [wanted]
  int32_t* tokens;  // [wanted]
};

// What bends the hidden layer of the feed-forward net.
enum class Bend : int32_t { relu = 0, gelu = 1, swiglu = 2, silu = 3 };

template <typename Real>
struct Kernels {
  const char* name;

  // ---- products

  // Rows x [rows, in] (`stride` numbers apart) as operands of `product`. int8: of each row scale = amax/127 and
  // u = 128 + round(x·(127/amax)), ties to even, four to a word; a row of zeros has scale 0; a row with a NaN or an
  // infinity has scale NaN. bf16: rounded to nearest even, two to a word. `words` [rows][groups]; `scales` [rows], int8
  // alone. f32 and f64 need no preparation: x itself is the operand.
  void (*prepare)(Kind kind, const Real* x, int rows, int in, size_t stride, void* words, float* scales);

  // y[r, n] = Σ_k x[r, k]·W[n, k] + b[n] for the columns of the panels first … last − 1, max(0, ·) if `relu`.
  // int8: (float(Σ) · scales[n]) · row_scales[r] + b[n], the sum being exact. `stride` is that of the operand in words.
  void (*product)(const Matrix<Real>& matrix, const void* words, size_t stride, const float* row_scales, int rows,
                  Real* y, size_t y_stride, int first, int last, bool relu);

  // y[r] = W[ids[r], :]·factor + table[positions[r], :] (table null: nothing added); y [rows, in of W].
  void (*embed)(const Matrix<Real>& matrix, const int32_t* ids, const int32_t* positions, int rows, Real factor,
                const Real* table, Real* y, size_t y_stride);

  // ---- rows

  // s = x + plus (plus null: s = x), kept in `sum` unless it is null; y = (s − mean)/√(variance + epsilon)·gain + bias
  // unless y is null. Biased variance, two passes. All of one stride; y, sum, x may be the same.
  void (*norm)(const Real* x, const Real* plus, const Real* gain, const Real* bias, Real epsilon, int rows, int width,
               size_t stride, Real* sum, Real* y);

  // The hidden layer bent in place (relu is done by `product`): gelu with erf; silu; swiglu: x[r, n] = silu(gate[r, n])
  // · x[r, n]. `gate` is null but for swiglu.
  void (*bend)(Bend bend, Real* x, const Real* gate, int rows, int width, size_t stride);

  // ---- attention; heads lie side by side, each `width` (a multiple of LANES) wide; query head h reads key/value head
  // h / (heads / kv_heads)

  // One query reads a past whose keys and values lie anywhere: past[s] points to keys [kv_heads·width], followed by
  // values [kv_heads·width], of position s. For the heads first … last − 1: context[h] = Σ_s
  // softmax_s(scale·q·k_s)·v_s. `scratch` holds 4 · (`length` padded to LANES) numbers.
  void (*attend_past)(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads,
                      int width, int first, int last, Real* scratch, Real* context);

  // Several queries (rows `stride` apart; contexts likewise) read one source, for the heads first … last − 1.
  // `keys` [kv_heads][blocks][width][KEYS], zero behind `length`; `values` [kv_heads][length][width].
  // `scratch` holds 4 · (`length` padded to KEYS) numbers.
  void (*attend_source)(const Real* query, size_t stride, int queries, Real scale, const Real* keys, const Real* values,
                        int length, int heads, int kv_heads, int width, int first, int last, Real* scratch,
                        Real* context, size_t context_stride);

  // Keys and values of one source, rows [length] of keys [kv_heads·width] then values [kv_heads·width], `stride` apart,
  // as `attend_source` wants them.
  void (*arrange)(const Real* rows, size_t stride, int length, int kv_heads, int width, Real* keys, Real* values);

  // ---- choice

  // Reads `count` logits, of the tokens token … token + count − 1: their maximum and Σ exp(logit − maximum); tokens
  // from `lowest` on compete for `best`, which keeps what it held. NaN anywhere: the sum is NaN. Whatever the order in
  // which parts are scanned, `best` ends the same.
  void (*scan)(const Real* logits, int count, int token, int lowest, Best<Real>& best, Real& maximum, Real& sum);
};

// Null where this processor, or the compiler that built the library, does not have the set.
const Kernels<float>* avx512_kernels();  // F, BW, VL, DQ, VNNI; BF16 where the processor has it
const Kernels<float>* avx2_kernels();    // AVX2, FMA
const Kernels<float>* portable_kernels();
const Kernels<double>* double_kernels();  // portable, for checking all the rest

}  // namespace clearhead
