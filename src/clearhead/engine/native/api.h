// The library's door: plain C functions, called from Python by way of ctypes (engine/library.py, engine/native.py).
//
// Kinds of matrices: 0 f32, 1 bf16, 2 int8, 3 f64. "Numbers" are floats, or doubles where the kind is f64. Whoever
// calls owns all memory that it hands in, and keeps it until the model or session that was given it is freed.
#pragma once

#include <cstddef>
#include <cstdint>

#define CH_EXPORT extern "C" __attribute__((visibility("default")))

struct ch_matrix {
  int32_t kind, out, in;
  const void* words;  // null: there is no such matrix
  const float* scales;
  const int32_t* offsets;
  const void* bias;
};

struct ch_norm {
  const void* gain;  // null: there is no such norm
  const void* bias;
  double epsilon;
};

struct ch_encoder_layer {
  ch_matrix qkv, output, inner, gate, outer;
  ch_norm attention, feedforward;
};

struct ch_decoder_layer {
  ch_matrix qkv, self_output, query, keys_values, cross_output, inner, gate, outer;
  ch_norm self, cross, feedforward;
};

struct ch_shape {
  int32_t is_double, d_model, heads, kv_heads, head_width, pre_norm, bend, encoder_layers, decoder_layers;
  double scale;                         // of the scores of attention
  double source_factor, target_factor;  // of the embeddings
  ch_matrix source, target, projection;
  ch_norm encoder_norm, decoder_norm;
  const ch_encoder_layer* encoder;
  const ch_decoder_layer* decoder;
};

struct ch_search {
  int32_t beam, n_best;
  int32_t penalty;  // 0 gnmt, 1 length, 2 none
  double alpha;
  int32_t threads;
  int32_t team;                  // how many threads share a few sentences; 0: as many as are worth it
  int64_t budget;                // source tokens · beam that each thread searches at once (session.cpp, `cost`)
  int32_t sentences;             // taken up in their order
  const int32_t* sources;        // ids, one sentence after the other, each with its EOS
  const int64_t* source_ends;    // [sentences]
  const int32_t* prefixes;       // forced first tokens
  const int64_t* prefix_ends;    // [sentences]
  const int32_t* shortest;       // fewest and most tokens of a hypothesis, EOS not counted, [sentences]
  const int32_t* longest;
  const void* source_positions;  // [at least the longest source, d_model], or null
  const void* target_positions;  // [at least the longest target and one more, d_model], or null
};

typedef struct ch_model ch_model;
typedef struct ch_session ch_session;

// Changes with every change of this file.
CH_EXPORT int32_t ch_version(void);
// The bytes of ch_matrix, ch_norm, ch_encoder_layer, ch_decoder_layer, ch_shape and ch_search, for comparison.
CH_EXPORT void ch_sizes(int32_t* sizes);

// The instruction set in use: "avx512", "avx2" or "portable".
CH_EXPORT const char* ch_level(void);
// Takes another for all that begins from now on; 0 if this processor or this build lacks it.
CH_EXPORT int32_t ch_select(const char* level);

CH_EXPORT size_t ch_packed_bytes(int32_t kind, int32_t out, int32_t in);
// 0 if a weight is not finite.
CH_EXPORT int32_t ch_pack(int32_t kind, const void* weight, int32_t out, int32_t in, void* words, float* scales,
                          int32_t* offsets);
// y [rows, out padded to whole panels] = x [rows, in]·Wᵀ + b; 0 if memory runs out.
CH_EXPORT int32_t ch_product(int32_t kind, const void* words, const float* scales, const int32_t* offsets,
                             const void* bias, int32_t out, int32_t in, const void* x, int32_t rows, void* y,
                             int32_t threads);
// The rows `ids` of the matrix.
CH_EXPORT void ch_embed(int32_t kind, const void* words, const float* scales, const int32_t* offsets, int32_t out,
                           int32_t in, const int32_t* ids, int32_t rows, void* y);

// Null if memory runs out.
CH_EXPORT ch_model* ch_model_new(const ch_shape* shape);
CH_EXPORT void ch_model_free(ch_model* model);

// A search that has not begun; null if memory runs out.
CH_EXPORT ch_session* ch_session_new(const ch_model* model, const ch_search* search);
// Goes on for about so many milliseconds; returns how many sentences are done in all, or −1 if memory ran out (then the
// session is only good for being freed).
CH_EXPORT int32_t ch_session_run(ch_session* session, int32_t milliseconds);
// How many hypotheses each sentence has ([sentences]; −1: its logits are not numbers), how many tokens all of them have
// together, and how many decoder steps were made for all sentences together.
CH_EXPORT int64_t ch_session_counts(const ch_session* session, int32_t* counts, int64_t* steps);
// All hypotheses, sentence by sentence, best first: for each its tokens (`lengths`, forced ones included) and whether
// it ended before its limit; all tokens; their log-probabilities, that of EOS last (one more a hypothesis than tokens).
CH_EXPORT void ch_session_read(const ch_session* session, int32_t* lengths, uint8_t* in_time, int32_t* tokens,
                               double* log_probs);
CH_EXPORT void ch_session_free(ch_session* session);
