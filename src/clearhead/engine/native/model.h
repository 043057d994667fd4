// A Transformer of packed matrices (Vaswani et al. 2017, §3), and what is kept while it is searched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "api.h"
#include "kernels.h"
#include "memory.h"

namespace clearhead {

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
  int64_t step_size() const;  // multiplications of a row in a decoder step, those of attention aside
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
  Real* keys(const Model<Real>& model, int layer) const {
    return keys_values.data() + layer * layer_size(model, length);
  }
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

}  // namespace clearhead
