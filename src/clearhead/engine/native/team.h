// Threads that work on one thing, phase by phase.
#pragma once

#include <atomic>
#include <thread>

namespace clearhead {

// Lets nobody pass before all have come. Waiting spins, since a phase lasts microseconds; whoever waits long gives its
// processor away, so that too many threads are slow and no worse.
class Barrier {
 public:
  explicit Barrier(int size) : size_(size) {}

  void wait() {
    if (size_ == 1) return;
    const int phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int turns = 0; phase_.load(std::memory_order_acquire) == phase; ++turns) {
      if (turns < PATIENCE) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr int PATIENCE = 2000;  // some 50 µs

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  const int size_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> phase_{0};
};

// The part of `count` things that falls to member `me` of `size`: from first to last − 1, neighbours together.
struct Part {
  int first, last;
  Part(int count, int me, int size)
      : first(int(int64_t(count) * me / size)), last(int(int64_t(count) * (me + 1) / size)) {}
};

}  // namespace clearhead
