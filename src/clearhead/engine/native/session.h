// The search of many sentences: who is searched when, and by which threads.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"
#include "beams.h"
#include "model.h"
#include "runner.h"

namespace clearhead {

// The kernels in use for this type of number.
template <typename Real>
const Kernels<Real>& kernels();

template <typename Real>
class Session;

// Sentences that are searched at once, and the team that does it. A sentence that is done leaves after any step, and
// others join in the order of the queue.
template <typename Real>
class Lane {
 public:
  Lane(Session<Real>& session, int members, int64_t budget);

  // What member `me` of the team does until the deadline, or until nothing is left.
  void work(int me, Clock::time_point deadline);
  int members() const { return members_; }
  // When no other member is at work, and none will be.
  void go_on_alone() {
    runner_.go_on_alone();
    members_ = 1;
  }

 private:
  enum class Command { stop, encode, step, dismiss };
  struct Active {
    Active(int number, int64_t cost, Beams<Real> beams) : number(number), cost(cost), beams(std::move(beams)) {}
    int number;
    int64_t cost;
    Beams<Real> beams;
    Source<Real> source;
  };

  Command plan(Clock::time_point deadline);
  bool wasteful() const;
  bool admit();
  void prepare_step();
  void choose();

  Session<Real>& session_;
  int members_;
  const int64_t budget_;
  Runner<Real> runner_;
  Pool<Real> pool_;
  Command command_ = Command::stop;
  bool stepping_ = false;  // a step was begun
  Clock::time_point begun_;
  Clock::duration lost_before_{};
  int64_t used_ = 0;
  std::vector<std::unique_ptr<Active>> active_;
  // Of the next encoding or step.
  std::vector<int32_t> ids_, positions_;
  std::vector<Source<Real>*> sources_;
  std::vector<Row> rows_;
  std::vector<Group<Real>> groups_;
  std::vector<Choice<Real>> choices_;
};

// What both types of numbers have in common.
class AnySession {
 public:
  virtual ~AnySession() = default;
  // See ch_session_run.
  virtual int run(int milliseconds) = 0;

  struct Result {
    bool failed = false;
    std::vector<Ended> ended;
  };
  const std::vector<Result>& results() const { return results_; }
  int64_t steps() const { return steps_; }

 protected:
  std::vector<Result> results_;
  std::atomic<int64_t> steps_{0};
};

template <typename Real>
class Session : public AnySession {
 public:
  Session(const Model<Real>& model, const ch_search& search);
  int run(int milliseconds) override;

 private:
  friend class Lane<Real>;

  struct Sentence {
    std::vector<int32_t> source, prefix;
    int shortest, longest;
    int64_t cost;
  };

  // The next sentence if it costs no more than `most`, or −1.
  int take(int64_t most);
  void run_team(Lane<Real>& team, Clock::time_point deadline);

  const Model<Real>& model_;
  const Kernels<Real>& kernels_;
  const Rules rules_;
  const Real* source_positions_;
  const Real* target_positions_;
  std::vector<Sentence> sentences_;
  std::mutex queue_;
  size_t next_ = 0;
  std::atomic<int> done_{0};
  std::atomic<bool> out_of_memory_{false};
  std::vector<std::unique_ptr<Lane<Real>>> lanes_;
};

}  // namespace clearhead
