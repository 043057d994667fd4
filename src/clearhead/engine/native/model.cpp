#include "model.h"

#include <algorithm>

namespace clearhead {

namespace {

template <typename Real>
Matrix<Real> matrix_of(const ch_matrix& from) {
  const Real* bias = static_cast<const Real*>(from.bias);
  return {Kind(from.kind), from.out, from.in, from.words, from.scales, from.offsets, bias};
}

template <typename Real>
Norm<Real> norm_of(const ch_norm& from) {
  return {static_cast<const Real*>(from.gain), static_cast<const Real*>(from.bias), Real(from.epsilon)};
}

}  // namespace

template <typename Real>
Model<Real>::Model(const ch_shape& shape)
    : d_model(shape.d_model),
      heads(shape.heads),
      kv_heads(shape.kv_heads),
      head_width(shape.head_width),
      pre_norm(shape.pre_norm != 0),
      bend(Bend(shape.bend)),
      scale(Real(shape.scale)),
      source_factor(Real(shape.source_factor)),
      target_factor(Real(shape.target_factor)),
      source(matrix_of<Real>(shape.source)),
      target(matrix_of<Real>(shape.target)),
      projection(matrix_of<Real>(shape.projection)),
      encoder_norm(norm_of<Real>(shape.encoder_norm)),
      decoder_norm(norm_of<Real>(shape.decoder_norm)) {
  for (int index = 0; index < shape.encoder_layers; ++index) {
    const ch_encoder_layer& from = shape.encoder[index];
    encoder.push_back({matrix_of<Real>(from.qkv), matrix_of<Real>(from.output), matrix_of<Real>(from.inner),
                       matrix_of<Real>(from.gate), matrix_of<Real>(from.outer), norm_of<Real>(from.attention),
                       norm_of<Real>(from.feedforward)});
  }
  for (int index = 0; index < shape.decoder_layers; ++index) {
    const ch_decoder_layer& from = shape.decoder[index];
    decoder.push_back({matrix_of<Real>(from.qkv), matrix_of<Real>(from.self_output), matrix_of<Real>(from.query),
                       matrix_of<Real>(from.keys_values), matrix_of<Real>(from.cross_output),
                       matrix_of<Real>(from.inner), matrix_of<Real>(from.gate), matrix_of<Real>(from.outer),
                       norm_of<Real>(from.self), norm_of<Real>(from.cross), norm_of<Real>(from.feedforward)});
  }
}

template <typename Real>
int Model<Real>::wide_width() const {
  int widest = 0;
  for (const auto& layer : encoder) widest = std::max({widest, layer.qkv.out, layer.inner.out});
  for (const auto& layer : decoder) {
    widest = std::max({widest, layer.qkv.out, layer.query.out, layer.keys_values.out, layer.inner.out});
  }
  return padded(widest, PANEL);
}

template <typename Real>
int64_t Model<Real>::step_size() const {
  const auto size = [](const Matrix<Real>& matrix) { return int64_t(matrix.out) * matrix.in; };
  int64_t total = size(projection);
  for (const auto& layer : decoder) {
    total += size(layer.qkv) + size(layer.self_output) + size(layer.query) + size(layer.cross_output);
    total += size(layer.inner) + size(layer.gate) + size(layer.outer);
  }
  return total;
}

template <typename Real>
size_t Model<Real>::operand_bytes() const {
  // No input is wider than the widest result or the model itself, and a word holds one number or more.
  return sizeof(Real) * size_t(std::max(wide_width(), row_width()));
}

template struct Model<float>;
template struct Model<double>;

}  // namespace clearhead
