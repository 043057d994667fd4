// Memory that starts at a cache line.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace clearhead {

// `size` numbers, not set to anything. Throws std::bad_alloc.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) { reserve(size); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  // Room for at least `size` numbers; what was there is lost when it grows.
  void reserve(size_t size) {
    if (size <= size_) return;
    const size_t bytes = (size * sizeof(T) + 63) / 64 * 64;
    void* fresh = std::aligned_alloc(64, bytes);
    if (fresh == nullptr) throw std::bad_alloc();
    std::free(data_);
    data_ = static_cast<T*>(fresh);
    size_ = size;
  }

  T* data() const { return data_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace clearhead
