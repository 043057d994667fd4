// Threads that work on one thing, phase by phase.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace clearhead {

using Clock = std::chrono::steady_clock;

// Lets nobody pass before all have come. Waiting spins, since a phase lasts microseconds; whoever waits long gives its
// processor away, and that time is counted as lost.
class Barrier {
 public:
  explicit Barrier(int size) : size_(size) {}

  void wait() {
    if (size_ == 1) return;
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int turns = 0; turns < PATIENCE; ++turns) {
      if (phase_.load(std::memory_order_acquire) != phase) return;
      pause();
    }
    const Clock::time_point since = Clock::now();
    while (phase_.load(std::memory_order_acquire) == phase) std::this_thread::yield();
    lost_ += (Clock::now() - since).count();
  }

  // By one member, when no other will wait any more.
  void leave_one() { size_ = 1; }

  // How long members have waited beyond their patience, all together.
  Clock::duration lost() const { return Clock::duration(lost_.load()); }

 private:
  static constexpr int PATIENCE = 2000;  // some 50 µs

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  int size_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  std::atomic<Clock::rep> lost_{0};
};

// The part of `count` things that falls to member `me` of `size`: from first to last − 1, neighbours together.
struct Part {
  int first, last;
  Part(int count, int me, int size)
      : first(int(int64_t(count) * me / size)), last(int(int64_t(count) * (me + 1) / size)) {}
};

}  // namespace clearhead
