#pragma once

#include "common/backoff.h"
#include "common/guarded.h"

#include <map>

namespace gnn::runtime {

/// Exponential back-off, separate for each key, so that an object that keeps failing delays only
/// itself.
/// Threads: every method may be called from any thread.
template <class K>
class KeyBackoff {
 public:
  explicit KeyBackoff(BackoffOptions options) : options_(options) {}

  [[nodiscard]] Duration next(const K& key, RandomSource& random) {
    return backoffs_.lock()->try_emplace(key, options_).first->second.next(random);
  }

  /// To be called when the key's work succeeded or the key is gone.
  void forget(const K& key) { backoffs_.lock()->erase(key); }

  [[nodiscard]] size_t size() const { return backoffs_.lock()->size(); }

 private:
  const BackoffOptions options_;
  mutable Guarded<std::map<K, Backoff>> backoffs_;
};

}  // namespace gnn::runtime
