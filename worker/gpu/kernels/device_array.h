#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gnn::gpu {

/// An array in the memory of a device, which grows and never shrinks. `Device` allocates and copies;
/// it outlives the array.
template <class Device, class T>
class DeviceArray {
 public:
  explicit DeviceArray(Device& device) : device_(&device) {}
  ~DeviceArray() { release(); }
  DeviceArray(DeviceArray&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        asked_(std::exchange(other.asked_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(asked_, other.asked_);
    return *this;
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  /// Makes room for `count` elements and keeps the first `used`. Whether it grew.
  bool reserve(int64_t count, int64_t used = 0) {
    asked_ = std::max(asked_, count);
    if (count <= capacity_) return false;
    // By half at least, so that batches which differ a little don't each make it grow.
    const int64_t capacity = std::max(count, capacity_ + capacity_ / 2);
    auto* const grown =
        static_cast<T*>(device_->allocate(static_cast<size_t>(capacity) * sizeof(T)));
    try {
      if (used > 0) device_->copy_within(grown, data_, static_cast<size_t>(used) * sizeof(T));
    } catch (...) {
      device_->free(grown);
      throw;
    }
    release();
    data_ = grown;
    capacity_ = capacity;
    return true;
  }

  /// Sets all bytes of all elements.
  void fill(int byte) { device_->fill(data_, byte, static_cast<size_t>(capacity_) * sizeof(T)); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] int64_t capacity() const { return capacity_; }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(capacity_) * sizeof(T); }
  /// The most elements that room was asked for.
  [[nodiscard]] int64_t asked() const { return asked_; }
  [[nodiscard]] size_t asked_bytes() const { return static_cast<size_t>(asked_) * sizeof(T); }

 private:
  void release() {
    if (data_ != nullptr) device_->free(data_);
  }

  Device* device_;
  T* data_ = nullptr;
  int64_t capacity_ = 0;
  int64_t asked_ = 0;
};

/// An array in memory of the host that the device copies from and to without a stop.
template <class Device, class T>
class PinnedArray {
 public:
  explicit PinnedArray(Device& device) : device_(&device) {}
  ~PinnedArray() { release(); }
  PinnedArray(PinnedArray&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        asked_(std::exchange(other.asked_, 0)) {}
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  PinnedArray& operator=(PinnedArray&&) = delete;

  /// Makes room for `count` elements and keeps the first `used`.
  void reserve(int64_t count, int64_t used = 0) {
    asked_ = std::max(asked_, count);
    if (count <= capacity_) return;
    const int64_t capacity = std::max(count, capacity_ + capacity_ / 2);
    auto* const grown =
        static_cast<T*>(device_->allocate_host(static_cast<size_t>(capacity) * sizeof(T)));
    std::copy_n(data_, used, grown);
    release();
    data_ = grown;
    capacity_ = capacity;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(capacity_) * sizeof(T); }
  /// The most elements that room was asked for.
  [[nodiscard]] int64_t asked() const { return asked_; }
  [[nodiscard]] size_t asked_bytes() const { return static_cast<size_t>(asked_) * sizeof(T); }

 private:
  void release() {
    if (data_ != nullptr) device_->free_host(data_);
  }

  Device* device_;
  T* data_ = nullptr;
  int64_t capacity_ = 0;
  int64_t asked_ = 0;
};

}  // namespace gnn::gpu
