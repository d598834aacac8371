#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gnn {

/// Memory of whole pages, which grows without copying where the kernel can move pages and asks for
/// huge pages from 2 MiB on. New bytes are zero.
/// Errors: std::bad_alloc.
class PageBuffer {
 public:
  PageBuffer() = default;
  ~PageBuffer() { release(); }
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

  /// Makes at least `bytes` usable and keeps what was written.
  void reserve(size_t bytes);
  void release() noexcept;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A PageBuffer as an array of T, for types that are valid if all their bytes are zero.
template <class T>
class Buffer {
 public:
  void reserve(int64_t count) {
    if (static_cast<size_t>(count) * sizeof(T) > pages_.bytes())
      pages_.reserve(static_cast<size_t>(count) * sizeof(T));
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(pages_.data()); }
  [[nodiscard]] int64_t capacity() const {
    return static_cast<int64_t>(pages_.bytes() / sizeof(T));
  }
  [[nodiscard]] size_t bytes() const { return pages_.bytes(); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  PageBuffer pages_;
};

}  // namespace gnn
