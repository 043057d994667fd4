#include "api.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "pack.h"
#include "session.h"
#include "team.h"

using namespace clearhead;

namespace {

const Kernels<float>* named(const char* level) {
  for (const Kernels<float>* each : {avx512_kernels(), avx2_kernels(), portable_kernels()}) {
    if (each != nullptr && std::strcmp(each->name, level) == 0) return each;
  }
  return nullptr;
}

const Kernels<float>* best() {
  for (const Kernels<float>* each : {avx512_kernels(), avx2_kernels()}) {
    if (each != nullptr) return each;
  }
  return portable_kernels();
}

std::atomic<const Kernels<float>*>& chosen() {
  static std::atomic<const Kernels<float>*> kernels{best()};
  return kernels;
}

template <typename Real>
bool multiply(const Matrix<Real>& matrix, const Real* x, int rows, Real* y, int threads) {
  const Kernels<Real>& use = kernels<Real>();
  const Kind kind = matrix.kind;
  const bool prepared = kind == Kind::bf16 || kind == Kind::int8;
  try {
    Buffer<unsigned char> operand;
    Buffer<float> scales;
    size_t stride = size_t(matrix.in);
    const void* words = x;
    if (prepared) {
      stride = size_t(groups(kind, matrix.in));
      operand.reserve(size_t(rows) * stride * word_bytes(kind));
      scales.reserve(rows);
      use.prepare(kind, x, rows, matrix.in, size_t(matrix.in), operand.data(), scales.data());
      words = operand.data();
    }
    const size_t width = size_t(padded(matrix.out, PANEL));
    const auto part = [&](int me, int size) {
      const Part mine(panels(matrix.out), me, size);
      use.product(matrix, words, stride, scales.data(), rows, y, width, mine.first, mine.last, false);
    };
    // A thread costs as much as some millions of multiplications.
    const int64_t worthwhile = int64_t(rows) * matrix.out * matrix.in / 8'000'000 + 1;
    threads = int(std::min<int64_t>({threads, panels(matrix.out), worthwhile}));
    std::vector<std::thread> others;
    others.reserve(threads);
    int started = 1;
    try {
      for (; started < threads; ++started) others.emplace_back(part, started, threads);
    } catch (const std::exception&) {  // no more threads: their parts are done here
    }
    part(0, threads);
    for (; started < threads; ++started) part(started, threads);
    for (std::thread& each : others) each.join();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace

namespace clearhead {

template <>
const Kernels<float>& kernels<float>() {
  return *chosen().load();
}

template <>
const Kernels<double>& kernels<double>() {
  return *double_kernels();
}

}  // namespace clearhead

struct ch_model {
  std::unique_ptr<Model<float>> single;
  std::unique_ptr<Model<double>> twofold;
};

struct ch_session {
  std::unique_ptr<AnySession> session;
};

int32_t ch_version(void) { return 1; }

void ch_sizes(int32_t* sizes) {
  const size_t all[] = {sizeof(ch_matrix),        sizeof(ch_norm),  sizeof(ch_encoder_layer),
                        sizeof(ch_decoder_layer), sizeof(ch_shape), sizeof(ch_search)};
  for (const size_t size : all) *sizes++ = int32_t(size);
}

const char* ch_level(void) { return chosen().load()->name; }

int32_t ch_select(const char* level) {
  const Kernels<float>* found = named(level);
  if (found == nullptr) return 0;
  chosen() = found;
  return 1;
}

size_t ch_packed_bytes(int32_t kind, int32_t out, int32_t in) { return packed_bytes(Kind(kind), out, in); }

int32_t ch_pack(int32_t kind, const void* weight, int32_t out, int32_t in, void* words, float* scales,
                int32_t* offsets) {
  return pack(Kind(kind), weight, out, in, words, scales, offsets) ? 1 : 0;
}

int32_t ch_product(int32_t kind, const void* words, const float* scales, const int32_t* offsets, const void* bias,
                   int32_t out, int32_t in, const void* x, int32_t rows, void* y, int32_t threads) {
  threads = std::max(1, threads);
  if (Kind(kind) == Kind::f64) {
    const Matrix<double> matrix{Kind(kind), out, in, words, scales, offsets, static_cast<const double*>(bias)};
    return multiply(matrix, static_cast<const double*>(x), rows, static_cast<double*>(y), threads) ? 1 : 0;
  }
  const Matrix<float> matrix{Kind(kind), out, in, words, scales, offsets, static_cast<const float*>(bias)};
  return multiply(matrix, static_cast<const float*>(x), rows, static_cast<float*>(y), threads) ? 1 : 0;
}

void ch_embed(int32_t kind, const void* words, const float* scales, const int32_t* offsets, int32_t out, int32_t in,
                 const int32_t* ids, int32_t rows, void* y) {
  if (Kind(kind) == Kind::f64) {
    const Matrix<double> matrix{Kind(kind), out, in, words, scales, offsets, nullptr};
    kernels<double>().embed(matrix, ids, ids, rows, 1.0, nullptr, static_cast<double*>(y), size_t(in));
  } else {
    const Matrix<float> matrix{Kind(kind), out, in, words, scales, offsets, nullptr};
    kernels<float>().embed(matrix, ids, ids, rows, 1.0f, nullptr, static_cast<float*>(y), size_t(in));
  }
}

ch_model* ch_model_new(const ch_shape* shape) {
  try {
    auto made = std::make_unique<ch_model>();
    if (shape->is_double) {
      made->twofold = std::make_unique<Model<double>>(*shape);
    } else {
      made->single = std::make_unique<Model<float>>(*shape);
    }
    return made.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void ch_model_free(ch_model* model) { delete model; }

ch_session* ch_session_new(const ch_model* model, const ch_search* search) {
  try {
    auto made = std::make_unique<ch_session>();
    if (model->twofold) {
      made->session = std::make_unique<Session<double>>(*model->twofold, *search);
    } else {
      made->session = std::make_unique<Session<float>>(*model->single, *search);
    }
    return made.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

int32_t ch_session_run(ch_session* session, int32_t milliseconds) {
  try {
    return session->session->run(milliseconds);
  } catch (const std::exception&) {
    return -1;
  }
}

int64_t ch_session_counts(const ch_session* session, int32_t* counts, int64_t* steps) {
  int64_t tokens = 0;
  size_t number = 0;
  for (const AnySession::Result& result : session->session->results()) {
    counts[number++] = result.failed ? -1 : int32_t(result.ended.size());
    for (const Ended& each : result.ended) tokens += int64_t(each.tokens.size());
  }
  *steps = session->session->steps();
  return tokens;
}

void ch_session_read(const ch_session* session, int32_t* lengths, uint8_t* in_time, int32_t* tokens,
                     double* log_probs) {
  for (const AnySession::Result& result : session->session->results()) {
    for (const Ended& each : result.ended) {
      *lengths++ = int32_t(each.tokens.size());
      *in_time++ = each.in_time;
      for (const int32_t token : each.tokens) *tokens++ = token;
      for (const double log_prob : each.log_probs) *log_probs++ = log_prob;
    }
  }
}

void ch_session_free(ch_session* session) { delete session; }
