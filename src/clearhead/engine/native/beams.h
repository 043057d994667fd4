// The beam search of one sentence: which hypotheses live, which have ended, and when it is over.
//
// The rules are those of decoding/beam.py, which is the twin of this file, to the order of ties: a step looks at the
// 2·beam best continuations; EOS among the first `beam` of them ends a hypothesis, and the best `beam` of the others
// live on.
#pragma once

#include <cstdint>
#include <vector>

#include "runner.h"

namespace clearhead {

constexpr int32_t BOS = 2;
constexpr int32_t EOS = 3;  // the lowest token that may be chosen

// What the search is asked for.
struct Rules {
  int beam, n_best, penalty;
  double alpha;

  // By what a log-probability of `length` tokens, EOS included, is divided (decoding/penalties.py).
  double divisor(int length) const;
};

struct Ended {
  double score;
  std::vector<int32_t> tokens;  // forced ones included, EOS not
  std::vector<double> log_probs;  // of the tokens, then of EOS
  bool in_time;

  // Whether it ranks before the other: higher score, then shorter, then lower tokens.
  bool before(const Ended& other) const;
};

// The search of one sentence. A step reads `rows()` rows, one a living hypothesis, and `advance` takes what was found.
template <typename Real>
class Beams {
 public:
  Beams(const Rules& rules, std::vector<int32_t> prefix, int shortest, int longest);

  int living() const { return int(living_.size()); }
  int position() const { return position_; }
  bool failed() const { return failed_; }
  const std::vector<Ended>& ended() const { return ended_; }

  // The rows of the next step, each with a fresh slot.
  void add_rows(Pool<Real>& pool, std::vector<Row>& rows);
  // Reads the choice made for each of its rows, in their order; true if the search is over.
  bool advance(const Choice<Real>* choices);
  // Every slot that was taken goes back.
  void release(Pool<Real>& pool);

 private:
  struct Living {
    int32_t token;
    double log_prob;
    int node;                    // its last token in `nodes_`, or −1
    std::vector<int32_t> slots;  // of the tokens read
  };
  struct Node {
    int parent;
    int32_t token;
    double log_prob;
  };
  struct Candidate {
    double total;
    int32_t token;
    int origin;
    double log_prob;
  };

  int held() const { return position_; }  // tokens of a hypothesis, EOS and BOS not counted: it has read BOS and them
  bool forced() const { return size_t(position_) < prefix_.size(); }
  void force(const Choice<Real>& choice);
  void collect(const Choice<Real>* choices);
  void end(const Candidate& candidate);
  void survive();
  bool over() const;

  Rules rules_;
  std::vector<int32_t> prefix_;
  int shortest_, longest_;
  int position_ = 0;  // tokens read before the next step; the hypotheses are all as long
  bool failed_ = false;
  std::vector<Living> living_, next_;
  std::vector<Node> nodes_;
  std::vector<Ended> ended_;
  std::vector<int32_t> taken_;
  std::vector<Candidate> candidates_;
};

}  // namespace clearhead
