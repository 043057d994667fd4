// What a model does: encoding sources, and one decoder step of many rows, by a team of threads.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "team.h"

namespace clearhead {

// Rows that go through a stack together: their hidden layers (4·d_model wide, say) stay in the second cache.
constexpr int BLOCK = 96;

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

// A team that runs one model: the buffers of its members, and what they do together. All members call `encode` and
// `step` with the same arguments. Only `prepare_encode` and `prepare_step` allocate; one member calls them before.
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
  // Block by block until the deadline; called again, it goes on. All members have come when it returns.
  void step(int me, const std::vector<Row>& rows, const std::vector<Group<Real>>& groups, const Pool<Real>& pool,
            const Real* table, Clock::time_point deadline);
  // Rows of the step that are done.
  int reached() const { return reached_; }
  // After a whole step of so many rows, by one member; good until the next step.
  Choice<Real> choice(int row, int rows);

  // By one member, when the others have stopped for good.
  void go_on_alone() {
    barrier.leave_one();
    members_ = 1;
  }

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
  Best<Real> sorted(Best<Real> best, int row, int rows);
  void choose_block(int me, int first, int rows, const std::vector<Row>& all);

  const Model<Real>& model_;
  const Kernels<Real>& kernels_;
  int members_;
  std::vector<Member> member_;
  Buffer<Real> wide_, gate_, spare_, context_, narrow_, pair_;
  Buffer<Real> arranged_;  // of the sources that are being encoded
  std::vector<Place> places_;
  Buffer<Real> logits_;         // a chunk for each member
  Buffer<Real> maxima_, sums_;  // [rows, chunks]
  Buffer<Real> wanted_;         // [rows]
  int candidates_ = 0;
  int reached_ = 0;
  bool goes_on_ = true;
  Buffer<Real> best_values_;  // [members, rows, candidates]
  Buffer<int32_t> best_tokens_, best_found_;
  Buffer<Real> merged_values_;  // [rows, candidates]
  Buffer<int32_t> merged_tokens_;
  std::vector<int> next_;
  std::vector<std::pair<Real, int32_t>> heaped_;
};

}  // namespace clearhead
