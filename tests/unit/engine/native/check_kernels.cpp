// The kernels of rows, attention and choice against plain loops in long double: `check_kernels rows|attention|scan`.
//
// Compiled once per instruction set (CLEARHEAD_BYTES). Prints a line a check and returns 1 if one fails. Each check
// takes the kernel that it checks, so that it is also given a wrong one, which it must find out.
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "attend.h"
#include "rows.h"
#include "scan.h"

using namespace clearhead;

namespace {

typedef long double Wide;

int failures = 0;

void report(const std::string& name, bool holds) {
  std::printf("%s %s\n", holds ? "holds" : "FAILS", name.c_str());
  if (!holds) ++failures;
}

// Numbers in −1 … 1, the same in every run.
struct Source {
  uint64_t state = 88172645463325252u;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  double number() { return double(next() >> 11) / double(1ull << 52) - 1; }
  int below(int bound) { return int(next() % uint64_t(bound)); }
};

template <typename Real>
std::vector<Real> numbers(Source& source, size_t count, double size = 1) {
  std::vector<Real> values(count);
  for (Real& value : values) value = Real(size * source.number());
  return values;
}

template <typename Real>
bool same(const Real* a, const Real* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(Real)) == 0;
}

template <typename Real>
constexpr Wide UNIT = std::numeric_limits<Real>::epsilon();
template <typename Real>
constexpr Real INFINITE = std::numeric_limits<Real>::infinity();
template <typename Real>
constexpr Real NO_NUMBER = std::numeric_limits<Real>::quiet_NaN();
constexpr int GUARD = 7;  // numbers around a result that must stay as they were

// ---- rows

template <typename Real>
bool check_exponential() {
  constexpr int W = WIDTH<Real>;
  for (int i = 0; i < 200000; i += W) {
    Vector<Real> x;
    for (int j = 0; j < W; ++j) x[j] = Real(-87.0 + 175.0 * (i + j) / 200000);
    const Vector<Real> y = exponential(x);
    for (int j = 0; j < W; ++j) {
      const Wide truth = expl(Wide(x[j]));
      if (!(fabsl(Wide(y[j]) - truth) <= (2 + fabsl(Wide(x[j])) / 8) * UNIT<Real> * truth)) return false;
    }
  }
  Vector<Real> x{};
  x[0] = -INFINITE<Real>, x[1] = NO_NUMBER<Real>;
  Vector<Real> y = exponential(x);
  if (!(y[0] >= 0 && y[0] < Real(2e-38)) || y[1] == y[1]) return false;
  x[0] = -1000, x[1] = 0;
  y = exponential(x);
  return y[0] >= 0 && y[0] < Real(1e-37) && y[1] == 1;
}

template <typename Real>
using Norm = decltype(&norm<Real>);

template <typename Real>
bool check_norm(Norm<Real> function) {
  Source source;
  for (int width : {1, 3, 16, 17, 64, 100, 131, 512}) {
    const size_t stride = width + GUARD;
    const int rows = 3;
    const Real epsilon = Real(1e-5);
    std::vector<Real> x = numbers<Real>(source, rows * stride), plus = numbers<Real>(source, rows * stride, 3);
    for (Real& value : x) value += 20;  // a mean far from zero: one pass would lose the variance
    const std::vector<Real> gain = numbers<Real>(source, width), bias = numbers<Real>(source, width);
    for (int form = 0; form < 16; ++form) {
      const bool adds = form & 1, keeps = form & 2, norms = form & 4, in_place = form & 8;
      std::vector<Real> from = x, sum(rows * stride, -5), y(rows * stride, -7);
      Real* sum_to = !keeps ? nullptr : in_place ? from.data() : sum.data();
      Real* y_to = !norms ? nullptr : in_place && !keeps ? from.data() : y.data();
      function(from.data(), adds ? plus.data() : nullptr, gain.data(), bias.data(), epsilon, rows, width, stride,
               sum_to, y_to);
      for (int r = 0; r < rows; ++r) {
        std::vector<Wide> s(width);
        Wide mean = 0, variance = 0;
        for (int n = 0; n < width; ++n) {
          s[n] = Real(x[r * stride + n] + (adds ? plus[r * stride + n] : Real(0)));
          mean += s[n] / width;
        }
        for (Wide value : s) variance += (value - mean) * (value - mean) / width;
        for (int n = 0; n < width; ++n) {
          const size_t at = r * stride + n;
          if (sum_to != nullptr && Wide(sum_to[at]) != s[n]) return false;
          if (y_to == nullptr) continue;
          const Wide scaled = (s[n] - mean) / sqrtl(variance + Wide(epsilon)) * Wide(gain[n]);
          // A rounding of the mean, some 20, is worth this much of the result.
          const Wide allowed = UNIT<Real> * (8 + 60 / sqrtl(variance + Wide(epsilon)));
          if (!(fabsl(Wide(y_to[at]) - (scaled + Wide(bias[n]))) <= allowed)) return false;
        }
        for (int n = width; n < int(stride); ++n) {
          const size_t at = r * stride + n;
          if (sum[at] != -5 || y[at] != -7 || from[at] != x[at]) return false;
        }
        if (y_to != nullptr) {  // a row alone has the same bits
          std::vector<Real> alone(stride);
          const size_t at = r * stride;
          function(x.data() + at, adds ? plus.data() + at : nullptr, gain.data(), bias.data(), epsilon, 1, width,
                   stride, nullptr, alone.data());
          if (!same(alone.data(), y_to + at, width)) return false;
        }
      }
    }
  }
  return true;
}

template <typename Real>
void norm_in_one_pass(const Real* x, const Real* plus, const Real* gain, const Real* bias, Real epsilon, int rows,
                      int width, size_t stride, Real* sum, Real* y) {
  for (int r = 0; r < rows; ++r) {
    Real mean = 0, square = 0;
    for (int n = 0; n < width; ++n) {
      const size_t at = r * stride + n;
      const Real s = x[at] + (plus ? plus[at] : Real(0));
      mean += s / width, square += s * s / width;
      if (sum) sum[at] = s;
      if (y) y[at] = s;
    }
    for (int n = 0; y && n < width; ++n) {
      Real& value = y[r * stride + n];
      value = (value - mean) / std::sqrt(std::max(Real(0), square - mean * mean) + epsilon) * gain[n] + bias[n];
    }
  }
}

Wide bent(Bend bend, Wide x, Wide gate) {
  switch (bend) {
    case Bend::relu:
      return x > 0 ? x : 0;
    case Bend::gelu:
      return x / 2 * erfcl(-x / sqrtl(2));
    case Bend::silu:
      return x / (1 + expl(-x));
    default:
      return gate / (1 + expl(-gate)) * x;
  }
}

template <typename Real>
using Bends = decltype(&bend<Real>);

template <typename Real>
bool check_bend(Bends<Real> function, Bend which) {
  Source source;
  for (int width : {1, 7, 16, 33, 2000}) {
    const size_t stride = width + GUARD;
    std::vector<Real> x = numbers<Real>(source, 2 * stride, 12), gate = numbers<Real>(source, 2 * stride, 100);
    if (width > 1000) {
      for (int n = 0; n < width; ++n) x[n] = Real(-7 + 14.0 * n / width);
      x[0] = -200, x[1] = 200;
    }
    std::vector<Real> y = x;
    function(which, y.data(), which == Bend::swiglu ? gate.data() : nullptr, 2, width, stride);
    for (size_t at = 0; at < y.size(); ++at) {
      if (int(at % stride) >= width) {
        if (y[at] != x[at]) return false;
        continue;
      }
      const Wide truth = bent(which, x[at], gate[at]), size = std::max<Wide>(1, fabsl(truth));
      if (!(fabsl(Wide(y[at]) - truth) <= (which == Bend::swiglu ? 4 : 1) * UNIT<Real> * size)) return false;
    }
  }
  std::vector<Real> x(16, NO_NUMBER<Real>), gate(16, Real(0.5));
  function(which, x.data(), which == Bend::swiglu ? gate.data() : nullptr, 1, 16, 16);
  return std::none_of(x.begin(), x.end(), [](Real value) { return value == value; });
}

template <typename Real>
void bend_by_tanh(Bend, Real* x, const Real*, int rows, int width, size_t stride) {
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < width; ++n) {
      Real& value = x[r * stride + n];
      value = value / 2 * (1 + std::tanh(Real(0.7978845608) * (value + Real(0.044715) * value * value * value)));
    }
  }
}

template <typename Real>
void check_rows(const std::string& type) {
  report(type + " exponential", check_exponential<Real>());
  report(type + " norm", check_norm<Real>(norm<Real>));
  report(type + " norm in one pass is found out", !check_norm<Real>(norm_in_one_pass<Real>));
  report(type + " relu", check_bend<Real>(bend<Real>, Bend::relu));
  report(type + " gelu", check_bend<Real>(bend<Real>, Bend::gelu));
  report(type + " gelu by tanh is found out", !check_bend<Real>(bend_by_tanh<Real>, Bend::gelu));
  report(type + " silu", check_bend<Real>(bend<Real>, Bend::silu));
  report(type + " swiglu", check_bend<Real>(bend<Real>, Bend::swiglu));
}

// ---- attention

// Queries, and a source or past of rows of keys, then values.
template <typename Real>
struct Scene {
  int queries, length, heads, kv_heads, width;
  size_t stride, kv_stride;
  Real scale;
  std::vector<Real> query, rows;

  Scene(Source& source, int queries, int length, int heads, int kv_heads, int width, double size)
      : queries(queries), length(length), heads(heads), kv_heads(kv_heads), width(width),
        stride(heads * width + GUARD), kv_stride(2 * kv_heads * width + GUARD), scale(Real(1 / std::sqrt(width))),
        query(numbers<Real>(source, queries * stride, size)), rows(numbers<Real>(source, length * kv_stride, size)) {}

  const Real* key(int head, int s) const { return rows.data() + s * kv_stride + head / (heads / kv_heads) * width; }

  // Whether a context is what the definition gives. A score's error moves its weight by as much, relatively.
  bool agrees(const Real* context, int q, int head) const {
    const Real* from = query.data() + q * stride + head * width;
    std::vector<Wide> weights(length);
    Wide sum = 0, greatest = -INFINITE<Wide>, size = 0;
    for (int s = 0; s < length; ++s) {
      Wide score = 0, magnitude = 0;
      for (int n = 0; n < width; ++n) {
        score += Wide(from[n]) * Wide(key(head, s)[n]) * Wide(scale);
        magnitude += fabsl(Wide(from[n]) * Wide(key(head, s)[n]) * Wide(scale));
      }
      weights[s] = score, greatest = std::max(greatest, score), size = std::max(size, magnitude);
    }
    for (Wide& weight : weights) sum += weight = expl(weight - greatest);
    for (int n = 0; n < width; ++n) {
      Wide truth = 0, most = 0;
      for (int s = 0; s < length; ++s) {
        const Wide value = key(head, s)[kv_heads * width + n];
        truth += weights[s] / sum * value;
        most += weights[s] / sum * fabsl(value);
      }
      if (!(fabsl(Wide(context[n]) - truth) <= UNIT<Real> * (8 + 4 * size) * most)) return false;
    }
    return true;
  }
};

struct Shape {
  int queries, length, heads, kv_heads, width;
  double size;  // of the numbers: with large ones the scores go to hundreds
};

const Shape SHAPES[] = {{1, 1, 2, 2, 16, 1},  {2, 5, 4, 2, 32, 1},   {3, 16, 6, 1, 48, 1},  {4, 17, 2, 2, 64, 1},
                        {5, 33, 4, 4, 32, 8}, {7, 64, 2, 1, 112, 1}, {9, 100, 2, 2, 64, 8}, {6, 31, 3, 3, 128, 20},
                        {1, 600, 1, 1, 16, 1}, {4, 29, 8, 8, 32, 3}, {3, 14, 8, 4, 64, 3}};

template <typename Real>
using Past = decltype(&attend_past<Real>);

template <typename Real>
bool check_past(Past<Real> function) {
  Source source;
  for (const Shape& shape : SHAPES) {
    Scene<Real> scene(source, 1, shape.length, shape.heads, shape.kv_heads, shape.width, shape.size);
    std::vector<std::vector<Real>> places;  // each position by itself, so that reading beyond one is seen
    std::vector<const Real*> past;
    for (int s = 0; s < scene.length; ++s) {
      const Real* from = scene.rows.data() + s * scene.kv_stride;
      places.emplace_back(from, from + 2 * scene.kv_heads * scene.width);
    }
    for (const auto& place : places) past.push_back(place.data());
    const size_t size = scene.heads * scene.width;
    std::vector<Real> scratch(4 * padded(scene.length, LANES)), whole(size), parts(size, -3);
    function(scene.query.data(), scene.scale, past.data(), scene.length, scene.heads, scene.kv_heads, scene.width, 0,
             scene.heads, scratch.data(), whole.data());
    for (int h = 0; h < scene.heads; ++h) {
      if (!scene.agrees(whole.data() + h * scene.width, 0, h)) return false;
      for (size_t n = size_t(h) * scene.width; n < size; ++n) {
        if (parts[n] != -3) return false;  // a head not yet asked for
      }
      function(scene.query.data(), scene.scale, past.data(), scene.length, scene.heads, scene.kv_heads, scene.width, h,
               h + 1, scratch.data(), parts.data());
    }
    if (!same(parts.data(), whole.data(), size)) return false;
    scene.query[0] = NO_NUMBER<Real>;
    function(scene.query.data(), scene.scale, past.data(), scene.length, scene.heads, scene.kv_heads, scene.width, 0,
             scene.heads, scratch.data(), parts.data());
    if (parts[0] == parts[0] || !same(parts.data() + scene.width, whole.data() + scene.width, size - scene.width)) {
      return false;
    }
  }
  return true;
}

template <typename Real>
void past_without_last(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads,
                       int width, int first, int last, Real* scratch, Real* context) {
  attend_past(query, scale, past, std::max(1, length - 1), heads, kv_heads, width, first, last, scratch, context);
}

template <typename Real>
void past_of_other_heads(const Real* query, Real scale, const Real* const* past, int length, int heads, int kv_heads,
                         int width, int first, int last, Real* scratch, Real* context) {
  for (int h = first; h < last; ++h) {  // h % kv_heads instead of h / sharing
    const int read = h % kv_heads;
    std::vector<Real> moved(query, query + heads * width), result(heads * width);
    std::copy(query + h * width, query + (h + 1) * width, moved.begin() + read * (heads / kv_heads) * width);
    attend_past(moved.data(), scale, past, length, heads, kv_heads, width, read * (heads / kv_heads),
                read * (heads / kv_heads) + 1, scratch, result.data());
    std::copy_n(result.begin() + read * (heads / kv_heads) * width, width, context + h * width);
  }
}

template <typename Real>
using Arrange = decltype(&arrange<Real>);

template <typename Real>
bool check_arrange(Arrange<Real> function) {
  Source source;
  for (const Shape& shape : SHAPES) {
    Scene<Real> scene(source, 1, shape.length, shape.heads, shape.kv_heads, shape.width, 1);
    const int width = scene.width, blocks = padded(scene.length, KEYS) / KEYS;
    std::vector<Real> keys(size_t(scene.kv_heads) * blocks * KEYS * width, -3);
    std::vector<Real> values(size_t(scene.kv_heads) * scene.length * width, -3);
    function(scene.rows.data(), scene.kv_stride, scene.length, scene.kv_heads, width, keys.data(), values.data());
    for (int h = 0; h < scene.kv_heads; ++h) {
      for (int s = 0; s < blocks * KEYS; ++s) {
        for (int n = 0; n < width; ++n) {
          const Real* row = scene.rows.data() + s * scene.kv_stride + h * width + n;
          const Real key = keys[((size_t(h) * blocks + s / KEYS) * width + n) * KEYS + s % KEYS];
          if (key != (s < scene.length ? *row : Real(0))) return false;
          if (s < scene.length && values[(size_t(h) * scene.length + s) * width + n] != row[scene.kv_heads * width]) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

template <typename Real>
void arrange_without_padding(const Real* rows, size_t stride, int length, int kv_heads, int width, Real* keys,
                             Real* values) {
  std::vector<Real> before(keys, keys + size_t(kv_heads) * padded(length, KEYS) * width);
  arrange(rows, stride, length, kv_heads, width, keys, values);
  for (size_t i = 0; i < before.size(); ++i) {
    if (keys[i] == 0) keys[i] = before[i];
  }
}

template <typename Real>
using Sourced = decltype(&attend_source<Real>);

template <typename Real>
bool check_source(Sourced<Real> function) {
  Source source;
  for (const Shape& shape : SHAPES) {
    Scene<Real> scene(source, shape.queries, shape.length, shape.heads, shape.kv_heads, shape.width, shape.size);
    const int width = scene.width, room = padded(scene.length, KEYS);
    std::vector<Real> keys(size_t(scene.kv_heads) * room * width);
    std::vector<Real> values(size_t(scene.kv_heads) * scene.length * width);
    arrange(scene.rows.data(), scene.kv_stride, scene.length, scene.kv_heads, width, keys.data(), values.data());
    std::vector<Real> scratch(4 * room), whole(scene.queries * scene.stride, -3), parts = whole;
    const auto call = [&](int q, int queries, int first, int last, std::vector<Real>& to) {
      function(scene.query.data() + q * scene.stride, scene.stride, queries, scene.scale, keys.data(), values.data(),
               scene.length, scene.heads, scene.kv_heads, width, first, last, scratch.data(),
               to.data() + q * scene.stride, scene.stride);
    };
    call(0, scene.queries, 0, scene.heads, whole);
    for (int q = 0; q < scene.queries; ++q) {
      for (int h = 0; h < scene.heads; ++h) {
        if (!scene.agrees(whole.data() + q * scene.stride + h * width, q, h)) return false;
        call(q, 1, h, h + 1, parts);
      }
    }
    if (!same(parts.data(), whole.data(), whole.size())) return false;  // one query and head at a time; and the gaps
    for (int q = 0; q + 2 <= scene.queries; q += 2) call(q, 2, 0, scene.heads, parts);
    for (int q = 0; q + 3 <= scene.queries; q += 3) call(q, 3, 0, scene.heads, parts);
    if (!same(parts.data(), whole.data(), whole.size())) return false;
    scene.query[0] = NO_NUMBER<Real>;
    call(0, scene.queries, 0, scene.heads, parts);
    if (parts[0] == parts[0] || !same(parts.data() + width, whole.data() + width, whole.size() - width)) return false;
  }
  return true;
}

// Softmax without the maximum taken away.
template <typename Real>
void source_overflowing(const Real* query, size_t stride, int queries, Real scale, const Real* keys, const Real* values,
                        int length, int heads, int kv_heads, int width, int first, int last, Real*, Real* context,
                        size_t context_stride) {
  for (int q = 0; q < queries; ++q) {
    for (int h = first; h < last; ++h) {
      const int head = h / (heads / kv_heads);
      Real sum = 0;
      Real* to = context + q * context_stride + h * width;
      std::fill_n(to, width, Real(0));
      for (int s = 0; s < length; ++s) {
        Real score = 0;
        for (int n = 0; n < width; ++n) {
          score += query[q * stride + h * width + n] *
                   keys[((size_t(head) * padded(length, KEYS) + s / KEYS * KEYS) * width) + n * KEYS + s % KEYS];
        }
        const Real weight = std::exp(score * scale);
        sum += weight;
        for (int n = 0; n < width; ++n) to[n] += weight * values[(size_t(head) * length + s) * width + n];
      }
      for (int n = 0; n < width; ++n) to[n] /= sum;
    }
  }
}

// Right within rounding, but other bits for a query alone.
template <typename Real>
void source_of_other_bits(const Real* query, size_t stride, int queries, Real scale, const Real* keys,
                          const Real* values, int length, int heads, int kv_heads, int width, int first, int last,
                          Real* scratch, Real* context, size_t context_stride) {
  attend_source(query, stride, queries, scale, keys, values, length, heads, kv_heads, width, first, last, scratch,
                context, context_stride);
  if (queries == 1) context[first * width] = std::nextafter(context[first * width], Real(0));
}

template <typename Real>
void check_attention(const std::string& type) {
  report(type + " arrange", check_arrange<Real>(arrange<Real>));
  report(type + " arrange without zeros is found out", !check_arrange<Real>(arrange_without_padding<Real>));
  report(type + " attend_past", check_past<Real>(attend_past<Real>));
  report(type + " attend_past without the last position is found out", !check_past<Real>(past_without_last<Real>));
  report(type + " attend_past of other heads is found out", !check_past<Real>(past_of_other_heads<Real>));
  report(type + " attend_source", check_source<Real>(attend_source<Real>));
  if (sizeof(Real) == 4) {  // e^1000 fits a long double, e^89 no float
    report(type + " attend_source that overflows is found out", !check_source<Real>(source_overflowing<Real>));
  }
  report(type + " attend_source of other bits is found out", !check_source<Real>(source_of_other_bits<Real>));
}

// ---- choice

template <typename Real>
using Scan = decltype(&scan<Real>);

template <typename Real>
struct Choice {
  std::vector<Real> values;
  std::vector<int32_t> tokens;
};

// What a scan of `logits` in parts of this size, in this order, chooses; `holds` turns false where maximum or sum is
// wrong.
template <typename Real>
Choice<Real> scanned(Scan<Real> function, const std::vector<Real>& logits, int wanted, int lowest, int part,
                     bool backwards, bool& holds) {
  Choice<Real> choice{std::vector<Real>(wanted), std::vector<int32_t>(wanted)};
  Best<Real> best{wanted, 0, choice.values.data(), choice.tokens.data()};
  const int count = int(logits.size()), parts = (count + part - 1) / part;
  for (int i = 0; i < parts; ++i) {
    const int from = (backwards ? parts - 1 - i : i) * part, size = std::min(part, count - from);
    const std::vector<Real> here(logits.begin() + from, logits.begin() + from + size);
    Real maximum, sum;
    function(here.data(), size, from, lowest, best, maximum, sum);
    const Real truth = *std::max_element(here.begin(), here.end());
    Wide terms = 0;
    for (Real logit : here) terms += truth == -INFINITE<Real> ? 0 : expl(Wide(logit) - Wide(truth));
    if (maximum != truth || !(fabsl(Wide(sum) - terms) <= 8 * UNIT<Real> * terms)) holds = false;
  }
  choice.values.resize(best.found), choice.tokens.resize(best.found);
  return choice;
}

template <typename Real>
bool check_scan(Scan<Real> function) {
  Source source;
  for (int count : {1, 2, 15, 16, 63, 64, 65, 130, 1000, 4097}) {
    for (int wanted : {0, 1, 2, 8, 20}) {
      for (int kind = 0; kind < 4; ++kind) {  // all differ; many ties; ascending; −∞ among them
        std::vector<Real> logits = numbers<Real>(source, count, 10);
        for (int n = 0; n < count; ++n) {
          if (kind == 1) logits[n] = Real(int(logits[n]) / 3);
          if (kind == 2) logits[n] = Real(n) / 50;
          if (kind == 3 && n % 3 != 1) logits[n] = -INFINITE<Real>;
        }
        const int lowest = source.below(3) == 0 ? source.below(count + 1) : 0;
        std::vector<int32_t> order;
        for (int n = lowest; n < count; ++n) order.push_back(n);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
        order.resize(std::min<size_t>(order.size(), wanted));
        for (int part : {count, 64, 37}) {
          for (bool backwards : {false, true}) {
            bool holds = true;
            const Choice<Real> choice = scanned(function, logits, wanted, lowest, part, backwards, holds);
            if (!holds || choice.tokens != order) return false;
            for (size_t i = 0; i < order.size(); ++i) {
              if (choice.values[i] != logits[order[i]]) return false;
            }
          }
        }
      }
    }
  }
  for (int count : {5, 64, 200}) {  // one that is no number, anywhere
    for (int place = 0; place < count; ++place) {
      std::vector<Real> logits = numbers<Real>(source, count), values(3);
      std::vector<int32_t> tokens(3);
      logits[place] = NO_NUMBER<Real>;
      Best<Real> best{3, 0, values.data(), tokens.data()};
      Real maximum, sum;
      function(logits.data(), count, 0, 0, best, maximum, sum);
      if (sum == sum || best.found != 3) return false;
    }
  }
  return true;
}

// Of equal values the one that comes last.
template <typename Real>
void scan_keeping_later(const Real* logits, int count, int token, int lowest, Best<Real>& best, Real& maximum,
                        Real& sum) {
  scan(logits, count, token, INT_MAX, best, maximum, sum);
  for (int n = std::max(0, lowest - token); n < count; ++n) {
    if (best.found == best.wanted) {
      if (best.wanted == 0 || !(logits[n] >= best.values[best.found - 1])) continue;
      --best.found;
    }
    int place = best.found++;
    for (; place > 0 && logits[n] >= best.values[place - 1]; --place) {
      best.values[place] = best.values[place - 1], best.tokens[place] = best.tokens[place - 1];
    }
    best.values[place] = logits[n], best.tokens[place] = token + n;
  }
}

// Of equal values the one that is scanned first: wrong if parts come backwards.
template <typename Real>
void scan_keeping_first(const Real* logits, int count, int token, int lowest, Best<Real>& best, Real& maximum,
                        Real& sum) {
  scan(logits, count, token, INT_MAX, best, maximum, sum);
  for (int n = std::max(0, lowest - token); n < count; ++n) {
    if (best.found == best.wanted) {
      if (best.wanted == 0 || !(logits[n] > best.values[best.found - 1])) continue;
      --best.found;
    }
    int place = best.found++;
    for (; place > 0 && logits[n] > best.values[place - 1]; --place) {
      best.values[place] = best.values[place - 1], best.tokens[place] = best.tokens[place - 1];
    }
    best.values[place] = logits[n], best.tokens[place] = token + n;
  }
}

template <typename Real>
void check_choice(const std::string& type) {
  report(type + " scan", check_scan<Real>(scan<Real>));
  report(type + " scan that keeps the later of equals is found out", !check_scan<Real>(scan_keeping_later<Real>));
  report(type + " scan that keeps the first of equals is found out", !check_scan<Real>(scan_keeping_first<Real>));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string part = count == 2 ? arguments[1] : "";
  if (part == "rows") {
    check_rows<float>("float");
    if (CLEARHEAD_BYTES == 16) check_rows<double>("double");
  } else if (part == "attention") {
    check_attention<float>("float");
    if (CLEARHEAD_BYTES == 16) check_attention<double>("double");
  } else if (part == "scan") {
    check_choice<float>("float");
    if (CLEARHEAD_BYTES == 16) check_choice<double>("double");
  } else {
    std::fprintf(stderr, "check_kernels rows|attention|scan\n");
    return 2;
  }
  return failures == 0 ? 0 : 1;
}
