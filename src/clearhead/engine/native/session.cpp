#include "session.h"

#include <algorithm>
#include <exception>
#include <thread>

namespace clearhead {

namespace {

// Tokens of the sources that are encoded together, unless one alone has more: enough for full tiles, few enough for the
// caches.
constexpr size_t ENCODED_TOGETHER = 512;
// Each lane should have so many sentences to begin with; fewer are searched by one team, which reads the weights once,
// unless the model is too small for a team.
constexpr int FOR_A_LANE = 3;

// A step in which each member multiplies less than this is sooner done by fewer: they would mostly wait.
constexpr int64_t FOR_A_MEMBER = 6'000'000;

int members(int threads, int64_t step) { return int(std::min<int64_t>(threads, step / FOR_A_MEMBER + 1)); }

// What a sentence takes of the budget: the tokens of its source, but a quarter at least of the longest that it can come
// to, so that the slots of all that is searched are never more than four times the budget.
int64_t cost(int64_t source, int64_t longest, int64_t beam) { return std::max(source, (source + longest) / 4) * beam; }

}  // namespace

template <typename Real>
Lane<Real>::Lane(Session<Real>& session, int members, int64_t budget)
    : session_(session),
      members_(members),
      budget_(budget),
      runner_(session.model_, session.kernels_, members),
      pool_(session.model_) {}

template <typename Real>
void Lane<Real>::work(int me, Clock::time_point deadline) {
  if (me == 0) {
    begun_ = Clock::now();
    lost_before_ = runner_.barrier.lost();
  }
  while (true) {
    if (me == 0) {
      try {
        command_ = plan(deadline);
      } catch (const std::exception&) {  // only memory can fail here
        session_.out_of_memory_ = true;
        command_ = Command::stop;
      }
    }
    runner_.barrier.wait();
    switch (command_) {
      case Command::stop:
        return;
      case Command::dismiss:
        runner_.barrier.wait();  // all have read the command: the next one comes without them
        if (me != 0) return;
        go_on_alone();
        break;
      case Command::encode:
        runner_.encode(me, ids_, positions_, sources_, session_.source_positions_);
        break;
      case Command::step:
        runner_.step(me, rows_, groups_, pool_, session_.target_positions_, deadline);
        break;
    }
  }
}

template <typename Real>
typename Lane<Real>::Command Lane<Real>::plan(Clock::time_point deadline) {
  const bool done = stepping_ && runner_.reached() == int(rows_.size());
  if (done) choose();
  if (session_.out_of_memory_ || Clock::now() >= deadline) return Command::stop;
  if (stepping_) return Command::step;
  if (wasteful()) return Command::dismiss;
  if (admit()) return Command::encode;
  if (active_.empty()) return Command::stop;
  prepare_step();
  return Command::step;
}

// Whether the members of the team mostly wait: other work has their processors, and one of them alone is sooner done.
template <typename Real>
bool Lane<Real>::wasteful() const {
  if (members_ == 1) return false;
  const double elapsed = std::chrono::duration<double>(Clock::now() - begun_).count();
  const double lost = std::chrono::duration<double>(runner_.barrier.lost() - lost_before_).count();
  return elapsed > 0.003 && members_ - lost / elapsed < 1.3;
}

// Takes up sentences when there is room for several, so that their encoding fills the tiles of the products.
template <typename Real>
bool Lane<Real>::admit() {
  if (!active_.empty() && budget_ - used_ < budget_ / 8) return false;
  ids_.clear();
  positions_.clear();
  sources_.clear();
  while (ids_.size() < ENCODED_TOGETHER) {
    const int number = session_.take(active_.empty() ? INT64_MAX : budget_ - used_);
    if (number < 0) break;
    const auto& sentence = session_.sentences_[number];
    Beams<Real> beams(session_.rules_, sentence.prefix, sentence.shortest, sentence.longest);
    active_.push_back(std::make_unique<Active>(number, sentence.cost, std::move(beams)));
    used_ += sentence.cost;
    Source<Real>& source = active_.back()->source;
    source.length = int(sentence.source.size());
    const size_t layer = Source<Real>::layer_size(session_.model_, source.length);
    source.keys_values.reserve(session_.model_.decoder.size() * layer);
    sources_.push_back(&source);
    for (int position = 0; position < source.length; ++position) {
      ids_.push_back(sentence.source[position]);
      positions_.push_back(position);
    }
  }
  if (sources_.empty()) return false;
  runner_.prepare_encode(sources_);
  return true;
}

template <typename Real>
void Lane<Real>::prepare_step() {
  rows_.clear();
  groups_.clear();
  int longest_past = 0, longest_source = 0;
  for (const auto& each : active_) {
    groups_.push_back({&each->source, int(rows_.size()), each->beams.living()});
    each->beams.add_rows(pool_, rows_);
    longest_past = std::max(longest_past, each->beams.position());
    longest_source = std::max(longest_source, each->source.length);
  }
  runner_.prepare_step(int(rows_.size()), longest_past, longest_source, 2 * session_.rules_.beam);
  session_.steps_ += int64_t(active_.size());
  stepping_ = true;
}

template <typename Real>
void Lane<Real>::choose() {
  stepping_ = false;
  for (size_t index = 0; index < active_.size(); ++index) {
    Active& each = *active_[index];
    choices_.clear();
    for (int row = groups_[index].first; row < groups_[index].first + groups_[index].count; ++row) {
      choices_.push_back(runner_.choice(row, int(rows_.size())));
    }
    if (!each.beams.advance(choices_.data())) continue;
    auto& result = session_.results_[each.number];
    result.failed = each.beams.failed();
    if (!result.failed) result.ended = each.beams.ended();
    each.beams.release(pool_);
    used_ -= each.cost;
    active_[index].reset();
    ++session_.done_;
  }
  active_.erase(std::remove(active_.begin(), active_.end(), nullptr), active_.end());
}

template <typename Real>
Session<Real>::Session(const Model<Real>& model, const ch_search& search)
    : model_(model),
      kernels_(kernels<Real>()),
      rules_{search.beam, search.n_best, search.penalty, search.alpha},
      source_positions_(static_cast<const Real*>(search.source_positions)),
      target_positions_(static_cast<const Real*>(search.target_positions)) {
  int64_t source = 0, prefix = 0, total = 0;
  for (int number = 0; number < search.sentences; ++number) {
    const int64_t source_end = search.source_ends[number], prefix_end = search.prefix_ends[number];
    sentences_.push_back({{search.sources + source, search.sources + source_end},
                          {search.prefixes + prefix, search.prefixes + prefix_end},
                          search.shortest[number],
                          search.longest[number],
                          cost(source_end - source, search.longest[number], search.beam)});
    total += sentences_.back().cost;
    source = source_end;
    prefix = prefix_end;
  }
  results_.resize(sentences_.size());
  const int threads = std::max(1, search.threads);
  const int together = search.team > 0 ? search.team : members(threads, model.step_size());
  const bool many = search.sentences >= threads * (together > 1 ? FOR_A_LANE : 1);
  const int lanes = many ? threads : 1;
  const int64_t budget = std::min<int64_t>(std::max<int64_t>(1, search.budget), (total + lanes - 1) / lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    lanes_.push_back(std::make_unique<Lane<Real>>(*this, many ? 1 : together, budget));
  }
}

template <typename Real>
int Session<Real>::take(int64_t most) {
  const std::lock_guard<std::mutex> lock(queue_);
  if (next_ == sentences_.size() || sentences_[next_].cost > most) return -1;
  return int(next_++);
}

template <typename Real>
int Session<Real>::run(int milliseconds) {
  const auto until = [milliseconds] { return Clock::now() + std::chrono::milliseconds(milliseconds); };
  if (lanes_[0]->members() > 1) {
    run_team(*lanes_[0], until());
    return out_of_memory_ ? -1 : done_.load();
  }
  std::vector<std::thread> others;
  others.reserve(lanes_.size());
  size_t started = 1;
  try {
    for (; started < lanes_.size(); ++started) {
      others.emplace_back([lane = lanes_[started].get(), deadline = until()] { lane->work(0, deadline); });
    }
  } catch (const std::exception&) {  // no more threads, or no memory for them: those lanes are worked here, in turn
  }
  lanes_[0]->work(0, until());
  for (; started < lanes_.size(); ++started) lanes_[started]->work(0, until());
  for (std::thread& each : others) each.join();
  return out_of_memory_ ? -1 : done_.load();
}

// A team must be complete, since its barrier counts its members: none begins before all are there. Where the system has
// no more threads, one goes on alone.
template <typename Real>
void Session<Real>::run_team(Lane<Real>& team, Clock::time_point deadline) {
  std::vector<std::thread> others;
  others.reserve(team.members());
  std::atomic<int> begin{0};
  bool complete = true;
  try {
    for (int me = 1; me < team.members(); ++me) {
      others.emplace_back([&team, &begin, me, deadline] {
        int word;
        while ((word = begin.load(std::memory_order_acquire)) == 0) std::this_thread::yield();
        if (word > 0) team.work(me, deadline);
      });
    }
  } catch (const std::exception&) {
    complete = false;
  }
  begin.store(complete ? 1 : -1, std::memory_order_release);
  if (!complete) team.go_on_alone();
  team.work(0, deadline);
  for (std::thread& each : others) each.join();
}

template class Session<float>;
template class Session<double>;

}  // namespace clearhead
