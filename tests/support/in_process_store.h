#pragma once

#include "common/guarded.h"
#include "worker/rendezvous/store.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gnn::testing {

/// A store inside one process, whose host can die.
class InProcessStore final : public rendezvous::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    auto state = state_.lock();
    if (state->failed) return lost();
    state->values[key] = value;
    return {};
  }

  Result<std::vector<std::optional<std::string>>> get(const std::vector<std::string>& keys
  ) override {
    auto state = state_.lock();
    if (state->failed) return lost();
    std::vector<std::optional<std::string>> values;
    for (const std::string& key : keys) {
      const auto found = state->values.find(key);
      values.push_back(found == state->values.end() ? std::nullopt : std::optional(found->second));
    }
    return values;
  }

  Result<int64_t> add(const std::string& key, int64_t by) override {
    auto state = state_.lock();
    if (state->failed) return lost();
    std::string& value = state->values.try_emplace(key, "0").first->second;
    const int64_t sum = std::stoll(value) + by;
    value = std::to_string(sum);
    return sum;
  }

  /// From now on every call gives PeerLost, as when the host of the store died.
  void fail_from_now_on() { state_.lock()->failed = true; }

 private:
  static tl::unexpected<Error> lost() { return fail(ErrorKind::PeerLost, "the store is lost"); }

  struct State {
    std::map<std::string, std::string> values;
    bool failed = false;
  };
  Guarded<State> state_;
};

}  // namespace gnn::testing
