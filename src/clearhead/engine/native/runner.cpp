#include "runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace clearhead {

namespace {

bool takes_numbers(Kind kind) { return kind == Kind::f32 || kind == Kind::f64; }

}  // namespace

template <typename Real>
Runner<Real>::Runner(const Model<Real>& model, const Kernels<Real>& kernels, int members)
    : barrier(members), model_(model), kernels_(kernels), members_(members), member_(members) {}

template <typename Real>
void Runner<Real>::prepare_encode(const std::vector<Source<Real>*>& sources) {
  size_t tokens = 0, arranged = 0;
  int longest = 0;
  places_.clear();
  for (const Source<Real>* source : sources) {
    places_.push_back({tokens, arranged});
    tokens += size_t(source->length);
    arranged += Source<Real>::layer_size(model_, source->length);
    longest = std::max(longest, source->length);
  }
  const size_t rows = std::min(tokens, size_t(BLOCK));
  const size_t width = model_.row_width();
  for (Member& member : member_) {
    member.x.reserve(tokens * width);
    member.normed.reserve(rows * width);
    member.operand.reserve(rows * model_.operand_bytes());
    member.operand_scales.reserve(rows);
    member.scratch.reserve(4 * size_t(padded(longest, KEYS)));
  }
  wide_.reserve(tokens * model_.wide_width());
  spare_.reserve(tokens * padded(2 * model_.keys_width(), PANEL));
  arranged_.reserve(arranged);
  gate_.reserve(rows * model_.wide_width());
  context_.reserve(tokens * padded(model_.queries_width(), PANEL));
  narrow_.reserve(rows * width);
  pair_.reserve(rows * width);
}

template <typename Real>
void Runner<Real>::prepare_step(int rows, int longest_past, int longest_source, int candidates) {
  const size_t block = size_t(std::min(rows, BLOCK));
  const size_t width = model_.row_width();
  candidates_ = candidates;
  reached_ = 0;
  for (Member& member : member_) {
    member.x.reserve(block * width);
    member.normed.reserve(block * width);
    member.operand.reserve(block * model_.operand_bytes());
    member.operand_scales.reserve(block);
    member.scratch.reserve(4 * size_t(padded(std::max(longest_past + 1, longest_source), KEYS)));
    member.past.reserve(block * size_t(longest_past + 1));
    member.past_in_layer.reserve(size_t(longest_past + 1));
  }
  wide_.reserve(block * model_.wide_width());
  gate_.reserve(block * model_.wide_width());
  context_.reserve(block * padded(model_.queries_width(), PANEL));
  narrow_.reserve(block * width);
  pair_.reserve(block * width);
  logits_.reserve(size_t(members_) * BLOCK * CHUNK * PANEL);
  maxima_.reserve(size_t(rows) * model_.chunks());
  sums_.reserve(size_t(rows) * model_.chunks());
  wanted_.reserve(rows);
  best_values_.reserve(size_t(members_) * rows * candidates);
  best_tokens_.reserve(size_t(members_) * rows * candidates);
  best_found_.reserve(size_t(members_) * rows);
  merged_values_.reserve(size_t(rows) * candidates);
  merged_tokens_.reserve(size_t(rows) * candidates);
  next_.reserve(members_);
}

// The member's panels of a product; whoever reads the others' waits at the barrier first.
template <typename Real>
void Runner<Real>::product(int me, const Matrix<Real>& matrix, const Real* x, size_t stride, int rows, Real* y,
                           size_t y_stride, bool relu) {
  Member& member = member_[me];
  const void* operand = x;
  if (!takes_numbers(matrix.kind)) {
    // Each member for itself: that is sooner done than waited for.
    kernels_.prepare(matrix.kind, x, rows, matrix.in, stride, member.operand.data(), member.operand_scales.data());
    operand = member.operand.data();
    stride = size_t(groups(matrix.kind, matrix.in));
  }
  const Part part(panels(matrix.out), me, members_);
  kernels_.product(matrix, operand, stride, member.operand_scales.data(), rows, y, y_stride, part.first, part.last,
                   relu);
}

// x → narrow_ by way of the hidden layer.
template <typename Real>
void Runner<Real>::feedforward(int me, const Matrix<Real>& inner, const Matrix<Real>& gate, const Matrix<Real>& outer,
                               const Real* x, int rows) {
  const size_t width = size_t(padded(inner.out, PANEL));
  product(me, inner, x, model_.row_width(), rows, wide_.data(), width, model_.bend == Bend::relu);
  const bool gated = gate.words != nullptr;
  if (gated) product(me, gate, x, model_.row_width(), rows, gate_.data(), width);
  barrier.wait();
  if (model_.bend != Bend::relu) {
    const Part part(rows, me, members_);
    const size_t from = part.first * width;
    kernels_.bend(model_.bend, wide_.data() + from, gated ? gate_.data() + from : nullptr, part.last - part.first,
                  inner.out, width);
    barrier.wait();
  }
  product(me, outer, wide_.data(), width, rows, narrow_.data(), model_.row_width());
  barrier.wait();
}

template <typename Real>
void Runner<Real>::encode(int me, const std::vector<int32_t>& ids, const std::vector<int32_t>& positions,
                          const std::vector<Source<Real>*>& sources, const Real* table) {
  Member& member = member_[me];
  const int tokens = int(ids.size());
  const size_t width = model_.row_width(), contexts = padded(model_.queries_width(), PANEL);
  const Part heads(model_.heads, me, members_);
  const auto normed = [&](const Norm<Real>& norm, Real* x, int rows) -> const Real* {
    if (!model_.pre_norm) return x;
    kernels_.norm(x, nullptr, norm.gain, norm.bias, norm.epsilon, rows, model_.d_model, width, nullptr,
                  member.normed.data());
    return member.normed.data();
  };
  const auto added = [&](const Norm<Real>& norm, Real* x, const Real* plus, int rows) {
    const bool pre = model_.pre_norm;
    kernels_.norm(x, plus, norm.gain, norm.bias, norm.epsilon, rows, model_.d_model, width, pre ? x : nullptr,
                  pre ? nullptr : x);
  };

  kernels_.embed(model_.source, ids.data(), positions.data(), tokens, model_.source_factor, table, member.x.data(),
                 width);
  for (const EncoderLayer<Real>& layer : model_.encoder) {
    const size_t qkv = size_t(padded(layer.qkv.out, PANEL));
    for (int first = 0; first < tokens; first += BLOCK) {
      const int rows = std::min(BLOCK, tokens - first);
      product(me, layer.qkv, normed(layer.attention, member.x.data() + first * width, rows), width, rows,
              wide_.data() + first * qkv, qkv);
    }
    barrier.wait();
    for (size_t index = me; index < sources.size(); index += members_) {
      arrange(wide_.data() + places_[index].token * qkv + model_.queries_width(), qkv, sources[index]->length,
              arranged_.data() + places_[index].arranged);
    }
    barrier.wait();
    for (size_t index = 0; index < sources.size(); ++index) {
      const int length = sources[index]->length;
      const Real* keys = arranged_.data() + places_[index].arranged;
      kernels_.attend_source(wide_.data() + places_[index].token * qkv, qkv, length, model_.scale, keys,
                             keys + Source<Real>::keys_size(model_, length), length, model_.heads, model_.kv_heads,
                             model_.head_width, heads.first, heads.last, member.scratch.data(),
                             context_.data() + places_[index].token * contexts, contexts);
    }
    barrier.wait();
    for (int first = 0; first < tokens; first += BLOCK) {
      const int rows = std::min(BLOCK, tokens - first);
      Real* x = member.x.data() + first * width;
      product(me, layer.output, context_.data() + first * contexts, contexts, rows, pair_.data(), width);
      barrier.wait();
      added(layer.attention, x, pair_.data(), rows);
      feedforward(me, layer.inner, layer.gate, layer.outer, normed(layer.feedforward, x, rows), rows);
      added(layer.feedforward, x, narrow_.data(), rows);
    }
  }
  remember(me, tokens, sources);
}

template <typename Real>
void Runner<Real>::arrange(const Real* rows, size_t stride, int length, Real* keys) {
  kernels_.arrange(rows, stride, length, model_.kv_heads, model_.head_width, keys,
                   keys + Source<Real>::keys_size(model_, length));
}

// What every decoder layer will read of the sources, whose last hidden states are in x.
template <typename Real>
void Runner<Real>::remember(int me, int tokens, const std::vector<Source<Real>*>& sources) {
  Member& member = member_[me];
  const size_t width = model_.row_width();
  if (model_.pre_norm) {
    const Norm<Real>& norm = model_.encoder_norm;
    kernels_.norm(member.x.data(), nullptr, norm.gain, norm.bias, norm.epsilon, tokens, model_.d_model, width, nullptr,
                  member.x.data());
  }
  for (size_t index = 0; index < model_.decoder.size(); ++index) {
    const Matrix<Real>& matrix = model_.decoder[index].keys_values;
    const size_t both = size_t(padded(matrix.out, PANEL));
    // Two buffers in turn: one layer's is arranged while the next layer's is filled.
    Real* found = index % 2 == 0 ? wide_.data() : spare_.data();
    for (int first = 0; first < tokens; first += BLOCK) {
      const int rows = std::min(BLOCK, tokens - first);
      product(me, matrix, member.x.data() + first * width, width, rows, found + first * both, both);
    }
    barrier.wait();
    for (size_t place = 0; place < sources.size(); ++place) {
      if ((index + place) % members_ != size_t(me)) continue;
      arrange(found + places_[place].token * both, both, sources[place]->length, sources[place]->keys(model_, index));
    }
  }
  barrier.wait();
}

template <typename Real>
void Runner<Real>::decode_block(int me, int first, int rows, const std::vector<Row>& all,
                                const std::vector<Group<Real>>& groups, const Pool<Real>& pool, const Real* table) {
  Member& member = member_[me];
  const size_t width = model_.row_width(), contexts = padded(model_.queries_width(), PANEL);
  const Part heads(model_.heads, me, members_), mine(rows, me, members_);
  const size_t kept = 2 * size_t(model_.keys_width());
  Real* x = member.x.data();
  int32_t ids[BLOCK], positions[BLOCK];
  size_t begins[BLOCK];
  size_t total = 0;
  for (int row = 0; row < rows; ++row) {
    const Row& one = all[first + row];
    ids[row] = one.token;
    positions[row] = one.position;
    begins[row] = total;
    for (int step = 0; step < one.position; ++step) member.past.data()[total++] = pool.at(one.past[step]);
  }
  const auto normed = [&](const Norm<Real>& norm) -> const Real* {
    if (!model_.pre_norm) return x;
    kernels_.norm(x, nullptr, norm.gain, norm.bias, norm.epsilon, rows, model_.d_model, width, nullptr,
                  member.normed.data());
    return member.normed.data();
  };
  const auto added = [&](const Norm<Real>& norm, const Real* plus) {
    const bool pre = model_.pre_norm;
    kernels_.norm(x, plus, norm.gain, norm.bias, norm.epsilon, rows, model_.d_model, width, pre ? x : nullptr,
                  pre ? nullptr : x);
  };

  kernels_.embed(model_.target, ids, positions, rows, model_.target_factor, table, x, width);
  for (size_t index = 0; index < model_.decoder.size(); ++index) {
    const DecoderLayer<Real>& layer = model_.decoder[index];
    const size_t qkv = size_t(padded(layer.qkv.out, PANEL)), further = index * pool.layer_step();
    product(me, layer.qkv, normed(layer.self), width, rows, wide_.data(), qkv);
    barrier.wait();
    for (int row = mine.first; row < mine.last; ++row) {  // read from the next step on
      std::memcpy(pool.at(all[first + row].slot) + further, wide_.data() + row * qkv + model_.queries_width(),
                  kept * sizeof(Real));
    }
    for (int row = 0; row < rows; ++row) {
      const int length = all[first + row].position;
      const Real* const* begin = member.past.data() + begins[row];
      const Real** past = member.past_in_layer.data();
      for (int step = 0; step < length; ++step) past[step] = begin[step] + further;
      past[length] = wide_.data() + row * qkv + model_.queries_width();
      kernels_.attend_past(wide_.data() + row * qkv, model_.scale, past, length + 1, model_.heads, model_.kv_heads,
                           model_.head_width, heads.first, heads.last, member.scratch.data(),
                           context_.data() + row * contexts);
    }
    barrier.wait();
    product(me, layer.self_output, context_.data(), contexts, rows, narrow_.data(), width);
    barrier.wait();
    added(layer.self, narrow_.data());

    const size_t queries = size_t(padded(layer.query.out, PANEL));
    product(me, layer.query, normed(layer.cross), width, rows, wide_.data(), queries);
    barrier.wait();
    for (const Group<Real>& group : groups) {  // a group may lie in two blocks
      const int from = std::max(group.first, first) - first;
      const int to = std::min(group.first + group.count, first + rows) - first;
      if (from >= to) continue;
      kernels_.attend_source(wide_.data() + from * queries, queries, to - from, model_.scale,
                             group.source->keys(model_, index), group.source->values(model_, index),
                             group.source->length, model_.heads, model_.kv_heads, model_.head_width, heads.first,
                             heads.last, member.scratch.data(), context_.data() + from * contexts, contexts);
    }
    barrier.wait();
    product(me, layer.cross_output, context_.data(), contexts, rows, pair_.data(), width);
    barrier.wait();
    added(layer.cross, pair_.data());
    feedforward(me, layer.inner, layer.gate, layer.outer, normed(layer.feedforward), rows);
    added(layer.feedforward, narrow_.data());
  }
  if (model_.pre_norm) {
    const Norm<Real>& norm = model_.decoder_norm;
    kernels_.norm(x, nullptr, norm.gain, norm.bias, norm.epsilon, rows, model_.d_model, width, nullptr, x);
  }
}

// Logits chunk by chunk, each searched while the cache has it; they are never all in memory.
template <typename Real>
void Runner<Real>::choose_block(int me, int first, int rows, const std::vector<Row>& all) {
  Member& member = member_[me];
  const Matrix<Real>& matrix = model_.projection;
  const int chunks = model_.chunks(), last_panel = panels(matrix.out), total = int(all.size());
  const void* operand = member.x.data();
  size_t stride = model_.row_width();
  if (!takes_numbers(matrix.kind)) {
    kernels_.prepare(matrix.kind, member.x.data(), rows, matrix.in, stride, member.operand.data(),
                     member.operand_scales.data());
    operand = member.operand.data();
    stride = size_t(groups(matrix.kind, matrix.in));
  }
  const size_t chunk_width = size_t(CHUNK) * PANEL;
  Real* logits = logits_.data() + size_t(me) * BLOCK * chunk_width;
  const size_t beside = (size_t(me) * total + first) * candidates_;
  for (int row = 0; row < rows; ++row) best_found_.data()[size_t(me) * total + first + row] = 0;
  const Part part(chunks, me, members_);
  for (int chunk = part.first; chunk < part.last; ++chunk) {
    const int from = chunk * CHUNK, to = std::min(from + CHUNK, last_panel), token = from * PANEL;
    const int count = std::min(to * PANEL, int(matrix.out)) - token;
    kernels_.product(matrix, operand, stride, member.operand_scales.data(), rows, logits - size_t(token), chunk_width,
                     from, to, false);
    for (int row = 0; row < rows; ++row) {
      const Row& one = all[first + row];
      const size_t place = size_t(first + row) * chunks + chunk;
      Best<Real> best{candidates_, best_found_.data()[size_t(me) * total + first + row],
                      best_values_.data() + beside + size_t(row) * candidates_,
                      best_tokens_.data() + beside + size_t(row) * candidates_};
      const Real* mine = logits + row * chunk_width;
      kernels_.scan(mine, count, token, one.lowest, best, maxima_.data()[place], sums_.data()[place]);
      best_found_.data()[size_t(me) * total + first + row] = best.found;
      if (one.wanted >= token && one.wanted < token + count) wanted_.data()[first + row] = mine[one.wanted - token];
    }
  }
}

template <typename Real>
void Runner<Real>::step(int me, const std::vector<Row>& rows, const std::vector<Group<Real>>& groups,
                        const Pool<Real>& pool, const Real* table, Clock::time_point deadline) {
  const int total = int(rows.size());  // behind the last barrier the rows may be those of the next step already
  for (int first = reached_; first < total;) {
    const int count = std::min(BLOCK, total - first);
    decode_block(me, first, count, rows, groups, pool, table);
    choose_block(me, first, count, rows);
    first += count;
    if (me == 0) {
      reached_ = first;
      goes_on_ = Clock::now() < deadline;
    }
    barrier.wait();
    if (!goes_on_) return;
  }
}

// The best of all that the members have in heaps.
template <typename Real>
Best<Real> Runner<Real>::sorted(Best<Real> best, int row, int rows) {
  heaped_.clear();
  for (int member = 0; member < members_; ++member) {
    const size_t first = (size_t(member) * rows + row) * candidates_;
    for (int place = 0; place < best_found_.data()[size_t(member) * rows + row]; ++place) {
      heaped_.emplace_back(-best_values_.data()[first + place], best_tokens_.data()[first + place]);
    }
  }
  best.found = int(std::min(heaped_.size(), size_t(best.wanted)));
  std::partial_sort(heaped_.begin(), heaped_.begin() + best.found, heaped_.end());
  for (int place = 0; place < best.found; ++place) {
    best.values[place] = -heaped_[place].first;
    best.tokens[place] = heaped_[place].second;
  }
  return best;
}

// What the members found of one row, put together in one order however many they are.
template <typename Real>
Choice<Real> Runner<Real>::choice(int row, int rows) {
  const int chunks = model_.chunks();
  const Real* maxima = maxima_.data() + size_t(row) * chunks;
  const Real* sums = sums_.data() + size_t(row) * chunks;
  double maximum = maxima[0], sum = 0.0;
  for (int chunk = 1; chunk < chunks; ++chunk) maximum = std::max(maximum, double(maxima[chunk]));
  for (int chunk = 0; chunk < chunks; ++chunk) sum += double(sums[chunk]) * std::exp(double(maxima[chunk]) - maximum);

  Best<Real> best{candidates_, 0, merged_values_.data() + size_t(row) * candidates_,
                  merged_tokens_.data() + size_t(row) * candidates_};
  // Members have neighbouring tokens in rising order, so of equal values the earlier member's comes first.
  if (candidates_ > SORTED) return {sorted(best, row, rows), maximum + std::log(sum), wanted_.data()[row]};
  std::vector<int>& next = next_;
  next.assign(members_, 0);
  while (best.found < best.wanted) {
    int from = -1;
    Real highest = 0;
    for (int member = 0; member < members_; ++member) {
      if (next[member] >= best_found_.data()[size_t(member) * rows + row]) continue;
      const Real value = best_values_.data()[(size_t(member) * rows + row) * candidates_ + next[member]];
      if (from < 0 || value > highest) from = member, highest = value;
    }
    if (from < 0) break;
    const size_t place = (size_t(from) * rows + row) * candidates_ + next[from]++;
    best.values[best.found] = highest;
    best.tokens[best.found++] = best_tokens_.data()[place];
  }
  return {best, maximum + std::log(sum), wanted_.data()[row]};
}

template class Runner<float>;
template class Runner<double>;

}  // namespace clearhead
