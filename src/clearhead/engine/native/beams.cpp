#include "beams.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace clearhead {

double Rules::divisor(int length) const {
  if (penalty == 0) return std::pow((5.0 + length) / 6.0, alpha);
  if (penalty == 1) return std::pow(double(length), alpha);
  return 1.0;
}

bool Ended::before(const Ended& other) const {
  if (score != other.score) return score > other.score;
  if (tokens.size() != other.tokens.size()) return tokens.size() < other.tokens.size();
  return tokens < other.tokens;
}

template <typename Real>
Beams<Real>::Beams(const Rules& rules, std::vector<int32_t> prefix, int shortest, int longest)
    : rules_(rules), prefix_(std::move(prefix)), shortest_(shortest), longest_(longest) {
  living_.push_back({BOS, 0.0, -1, {}});
}

template <typename Real>
void Beams<Real>::add_rows(Pool<Real>& pool, std::vector<Row>& rows) {
  for (Living& each : living_) {
    const int slot = pool.take();
    taken_.push_back(slot);
    const bool must_end = held() >= longest_, may_end = held() >= shortest_;
    Row row{each.token, position_, each.slots.data(), slot, may_end ? EOS : EOS + 1, -1};
    if (forced()) {
      row.wanted = prefix_[position_];
    } else if (must_end) {
      row.wanted = EOS;
    }
    rows.push_back(row);
  }
}

template <typename Real>
bool Beams<Real>::advance(const Choice<Real>* choices) {
  for (size_t row = 0; row < living_.size(); ++row) {
    if (std::isnan(choices[row].normaliser) || std::isinf(choices[row].normaliser)) {
      failed_ = true;
      return true;
    }
    living_[row].slots.push_back(taken_[taken_.size() - living_.size() + row]);
  }
  if (forced()) {
    force(choices[0]);
    ++position_;
    return false;
  }
  collect(choices);
  const size_t first = std::min(candidates_.size(), size_t(rules_.beam));
  for (size_t place = 0; place < first; ++place) {
    if (candidates_[place].token == EOS) end(candidates_[place]);
  }
  survive();
  ++position_;
  return over();
}

// The only hypothesis takes the next token of the prefix, whatever it costs.
template <typename Real>
void Beams<Real>::force(const Choice<Real>& choice) {
  Living& only = living_[0];
  const double log_prob = double(choice.wanted) - choice.normaliser;
  only.token = prefix_[position_];
  only.log_prob += log_prob;
  nodes_.push_back({only.node, only.token, log_prob});
  only.node = int(nodes_.size()) - 1;
}

template <typename Real>
void Beams<Real>::collect(const Choice<Real>* choices) {
  candidates_.clear();
  const bool must_end = held() >= longest_;
  for (int origin = 0; origin < int(living_.size()); ++origin) {
    const Choice<Real>& choice = choices[origin];
    const double before = living_[origin].log_prob;
    if (must_end) {
      const double log_prob = double(choice.wanted) - choice.normaliser;
      candidates_.push_back({before + log_prob, EOS, origin, log_prob});
      continue;
    }
    for (int place = 0; place < choice.best.found; ++place) {
      const double log_prob = double(choice.best.values[place]) - choice.normaliser;
      candidates_.push_back({before + log_prob, choice.best.tokens[place], origin, log_prob});
    }
  }
  const auto impossible = [](const Candidate& each) { return each.total == -std::numeric_limits<double>::infinity(); };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), impossible), candidates_.end());
  const auto better = [](const Candidate& one, const Candidate& other) {
    if (one.total != other.total) return one.total > other.total;
    if (one.token != other.token) return one.token < other.token;
    return one.origin < other.origin;
  };
  const size_t wanted = std::min(candidates_.size(), size_t(2 * rules_.beam));
  std::partial_sort(candidates_.begin(), candidates_.begin() + wanted, candidates_.end(), better);
  candidates_.resize(wanted);
}

template <typename Real>
void Beams<Real>::end(const Candidate& candidate) {
  Ended found;
  for (int node = living_[candidate.origin].node; node >= 0; node = nodes_[node].parent) {
    found.tokens.push_back(nodes_[node].token);
    found.log_probs.push_back(nodes_[node].log_prob);
  }
  std::reverse(found.tokens.begin(), found.tokens.end());
  std::reverse(found.log_probs.begin(), found.log_probs.end());
  found.log_probs.push_back(candidate.log_prob);
  double total = 0.0;
  for (const double log_prob : found.log_probs) total += log_prob;
  found.score = total / rules_.divisor(int(found.tokens.size()) + 1);
  found.in_time = int(found.tokens.size()) < longest_;
  const auto worse = [&](const Ended& other) { return found.before(other); };
  const auto place = std::find_if(ended_.begin(), ended_.end(), worse);
  ended_.insert(place, std::move(found));
  if (ended_.size() > size_t(rules_.n_best)) ended_.pop_back();
}

template <typename Real>
void Beams<Real>::survive() {
  next_.clear();
  for (const Candidate& each : candidates_) {
    if (each.token == EOS) continue;
    if (next_.size() == size_t(rules_.beam)) break;
    const Living& origin = living_[each.origin];
    nodes_.push_back({origin.node, each.token, each.log_prob});
    next_.push_back({each.token, each.total, int(nodes_.size()) - 1, origin.slots});
  }
  living_.swap(next_);
}

// Whether no living hypothesis can still win a place among the n best: log-probabilities only fall, and the largest
// divisor still possible is that of the shortest or of the longest ending. Greedy search ends with its first ending.
template <typename Real>
bool Beams<Real>::over() const {
  if (living_.empty() || (rules_.beam == 1 && !ended_.empty())) return true;
  if (ended_.size() < size_t(rules_.n_best)) return false;
  const double best = living_[0].log_prob;  // they come by falling log-probability
  const double divisor =
      std::max(rules_.divisor(std::max(held(), shortest_) + 1), rules_.divisor(longest_ + 1));
  return best / divisor <= ended_.back().score;
}

template <typename Real>
void Beams<Real>::release(Pool<Real>& pool) {
  pool.give(taken_);
  taken_.clear();
}

template class Beams<float>;
template class Beams<double>;

}  // namespace clearhead
