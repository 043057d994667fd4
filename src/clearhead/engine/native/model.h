// A Transformer of packed matrices (Vaswani et al. 2017, §3): encoding sources, and one decoder step of many rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "api.h"
#include "kernels.h"
#include "memory.h"
#include "team.h"

namespace clearhead {

// Rows that go through a stack together: their hidden layers (4·d_model wide, say) stay in the second cache.
constexpr int BLOCK = 96;
// Panels of the vocabulary that are multiplied, then searched for the best while the cache still has them.
constexpr int CHUNK = 16;

template <typename Real>
struct Norm {
  const Real* gain;
  const Real* bias;
  Real epsilon;
};

template <typename Real>
struct EncoderLayer {
  Matrix<Real> qkv, output, inner, gate, outer;
  Norm<Real> attention, feedforward;
};

template <typename Real>
struct DecoderLayer {
  Matrix<Real> qkv, self_output, query, keys_values, cross_output, inner, gate, outer;
  Norm<Real> self, cross, feedforward;
};

template <typename Real>
struct Model {
  explicit Model(const ch_shape& shape);

  int d_model, heads, kv_heads, head_width;
  bool pre_norm;
  Bend bend;
  Real scale, source_factor, target_factor;
  Matrix<Real> source, target, projection;
  Norm<Real> encoder_norm, decoder_norm;
  std::vector<EncoderLayer<Real>> encoder;
  std::vector<DecoderLayer<Real>> decoder;

  int queries_width() const { return heads * head_width; }
  int keys_width() const { return kv_heads * head_width; }
  int row_width() const { return padded(d_model, PANEL); }
  int wide_width() const;     // of the widest result inside a layer
  size_t operand_bytes() const;  // of one row prepared for the product that needs most
  int chunks() const { return padded(panels(projection.out), CHUNK) / CHUNK; }
};

// What a sentence keeps of its source: for each decoder layer keys and values as `attend_source` reads them.
template <typename Real>
struct Source {
  int length = 0;
  Buffer<Real> keys_values;

  static size_t keys_size(const Model<Real>& model, int length) {
    return size_t(model.keys_width()) * padded(length, KEYS);
  }
  static size_t layer_size(const Model<Real>& model, int length) {
    return keys_size(model, length) + size_t(model.keys_width()) * length;
  }
  Real* keys(const Model<Real>& model, int layer) const { return keys_values.data() + layer * layer_size(model, length); }
  Real* values(const Model<Real>& model, int layer) const { return keys(model, layer) + keys_size(model, length); }
};

// Keys and values of what was written, one slot a token and hypothesis. A slot never moves and is never copied: a
// hypothesis is the list of its slots, and hypotheses with a common beginning share it.
template <typename Real>
class Pool {
 public:
  explicit Pool(const Model<Real>& model)
      : row_(2 * size_t(model.keys_width()) + STAGGER), layers_(int(model.decoder.size())) {}

  int take() {
    if (free_.empty()) grow();
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  // Room for a sentence's slots to be given back to is there already: this never throws.
  void give(const std::vector<int32_t>& slots) { free_.insert(free_.end(), slots.rbegin(), slots.rend()); }

  // Of the first layer; the next layer's is `layer_step` numbers further.
  Real* at(int slot) const { return chunks_[slot / SLOTS].data() + (slot % SLOTS) * row_; }
  size_t layer_step() const { return SLOTS * row_; }

 private:
  static constexpr int SLOTS = 64;
  // Numbers left free behind each slot: rows of 4,096 bytes would all fall on the same lines of the first cache.
  static constexpr int STAGGER = 32;

  void grow() {
    const int first = int(chunks_.size()) * SLOTS;
    free_.reserve(size_t(first) + SLOTS);
    chunks_.emplace_back(row_ * SLOTS * layers_);
    for (int slot = first + SLOTS - 1; slot >= first; --slot) free_.push_back(slot);
  }

  size_t row_;
  int layers_;
  std::vector<Buffer<Real>> chunks_;
  std::vector<int32_t> free_;
};

// One row of a decoder step: a hypothesis that reads `token` after the tokens whose slots it lists.
struct Row {
  int32_t token, position;
  const int32_t* past;  // [position] slots
  int32_t slot;         // where its own keys and values go
  int32_t lowest;       // tokens below it cannot be chosen
  int32_t wanted;       // a token whose logit is asked for, or −1
};

// Consecutive rows that read the same source.
template <typename Real>
struct Group {
  const Source<Real>* source;
  int first, count;
};

// What a step finds out of a row.
template <typename Real>
struct Choice {
  Best<Real> best;    // logits
  double normaliser;  // log Σ exp(logit); NaN if a logit is not a number
  Real wanted;        // the logit asked for
};

// A team that runs one model: the buffers of its members, and what they do together. All members call `encode` and `step`
// with the same arguments. Only `prepare_encode` and `prepare_step` allocate; one member calls them before.
//
// Results of products are shared, the members dividing the panels; hidden states (x) each member has for itself, since
// norms and operands are sooner made again than waited for. A shared buffer is filled again only after a barrier that
// comes behind its last reading.
template <typename Real>
class Runner {
 public:
  Runner(const Model<Real>& model, const Kernels<Real>& kernels, int members);

  // Each source has its `length` and room for its keys and values.
  void prepare_encode(const std::vector<Source<Real>*>& sources);
  // Fills the sources. `ids` and `positions`: one sentence after the other; `table`: positions, or null.
  void encode(int me, const std::vector<int32_t>& ids, const std::vector<int32_t>& positions,
              const std::vector<Source<Real>*>& sources, const Real* table);

  void prepare_step(int rows, int longest_past, int longest_source, int candidates);
  void step(int me, const std::vector<Row>& rows, const std::vector<Group<Real>>& groups, const Pool<Real>& pool,
            const Real* table);
  // After a step of so many rows and a barrier, by one member; good until the next step.
  Choice<Real> choice(int row, int rows);

  Barrier barrier;

 private:
  struct Member {
    Buffer<Real> x, normed, scratch;
    Buffer<unsigned char> operand;
    Buffer<float> operand_scales;
    Buffer<const Real*> past, past_in_layer;
  };
  struct Place {
    size_t token, arranged;
  };

  void product(int me, const Matrix<Real>& matrix, const Real* x, size_t stride, int rows, Real* y, size_t y_stride,
               bool relu = false);
  void feedforward(int me, const Matrix<Real>& inner, const Matrix<Real>& gate, const Matrix<Real>& outer,
                   const Real* x, int rows);
  void arrange(const Real* rows, size_t stride, int length, Real* keys);
  void remember(int me, int tokens, const std::vector<Source<Real>*>& sources);
  void decode_block(int me, int first, int rows, const std::vector<Row>& all, const std::vector<Group<Real>>& groups,
                    const Pool<Real>& pool, const Real* table);
  void choose_block(int me, int first, int rows, const std::vector<Row>& all);

  const Model<Real>& model_;
  const Kernels<Real>& kernels_;
  const int members_;
  std::vector<Member> member_;
  Buffer<Real> wide_, gate_, spare_, context_, narrow_, pair_;
  Buffer<Real> arranged_;  // of the sources that are being encoded
  std::vector<Place> places_;
  Buffer<Real> logits_;         // a chunk for each member
  Buffer<Real> maxima_, sums_;  // [rows, chunks]
  Buffer<Real> wanted_;         // [rows]
  int candidates_ = 0;
  Buffer<Real> best_values_;  // [members, rows, candidates]
  Buffer<int32_t> best_tokens_, best_found_;
  Buffer<Real> merged_values_;  // [rows, candidates]
  Buffer<int32_t> merged_tokens_;
  std::vector<int> next_;
};

}  // namespace clearhead
