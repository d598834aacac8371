#pragma once

#include "common/backoff.h"

#include <map>
#include <mutex>

namespace gnn::runtime {

/// Exponential back-off for each key alone, so that a poison object slows nobody but itself.
/// Threading: every method may be called from any thread.
template <class K>
class KeyBackoff {
 public:
  explicit KeyBackoff(BackoffOptions options) : options_(options) {}

  [[nodiscard]] Duration next(const K& key, RandomSource& random) {
    const std::lock_guard lock(mutex_);
    return backoffs_.try_emplace(key, options_).first->second.next(random);
  }

  /// The key's work succeeded, or the key is gone.
  void forget(const K& key) {
    const std::lock_guard lock(mutex_);
    backoffs_.erase(key);
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return backoffs_.size();
  }

 private:
  const BackoffOptions options_;
  mutable std::mutex mutex_;
  std::map<K, Backoff> backoffs_;
};

}  // namespace gnn::runtime
