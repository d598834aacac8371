#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace gnn::testing {

/// Joins two network namespaces by a device in each. What one sends comes out of the other later, and
/// in order. Kernels without netem can have it too.
/// Threads: one thread at a time, except packets().
class SlowCable {
 public:
  /// The namespaces have files of these names in /run/netns. The devices, without address and down,
  /// go with the cable. Null where none can be made.
  [[nodiscard]] static std::unique_ptr<SlowCable> between(
      const std::string& first,
      const std::string& second,
      const std::string& device,
      std::chrono::milliseconds delay
  );
  ~SlowCable();
  SlowCable(const SlowCable&) = delete;
  SlowCable& operator=(const SlowCable&) = delete;

  /// That came out at either end.
  [[nodiscard]] int64_t packets() const { return packets_; }

 private:
  SlowCable(int first, int second, int wake, std::chrono::milliseconds delay);
  void carry();

  const int ends_[2];
  const int wake_;  // readable: the cable goes
  const std::chrono::milliseconds delay_;
  std::atomic<int64_t> packets_ = 0;
  std::thread thread_;
};

}  // namespace gnn::testing
