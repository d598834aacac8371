#pragma once

#include "common/guarded.h"
#include "common/thread_pool.h"
#include "worker/shards/peer.h"
#include "worker/shards/service.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gnn::shards {

/// A node of the same process, which answers on threads of its own.
class InProcessPeer final : public Peer {
 public:
  InProcessPeer(std::shared_ptr<const Service> service, int64_t node)
      : service_(std::move(service)), node_(node), threads_(std::make_unique<ThreadPool>(2)) {}

  [[nodiscard]] std::string name() const override { return "node " + std::to_string(node_); }

  void call(PeerCall call, Callback callback) override {
    calls_.fetch_add(1);
    auto answer = [this, call = std::move(call), callback = std::move(callback)]() mutable {
      callback(answer_to(call));
    };
    {
      const auto state = state_.lock();
      if (state->held) {
        state->waiting.emplace_back(std::move(answer));
        state_.notify_all();
        return;
      }
    }
    std::ignore = threads_->submit(std::move(answer));
  }

  /// Ends its threads, when nobody calls any more: the last reference may go on one of them.
  void close() { threads_.reset(); }

  /// From now on calls wait.
  void hold() { state_.lock()->held = true; }
  /// Waits until so many calls do.
  void wait_for_held(size_t calls) {
    auto state = state_.lock();
    state.wait([calls](const State& now) { return now.waiting.size() >= calls; });
  }
  /// Breaks the connection: calls that wait fail, and all later ones.
  void lose() {
    lost_.store(true);
    release();
  }
  void release() {
    std::vector<std::function<void()>> waiting;
    {
      const auto state = state_.lock();
      state->held = false;
      waiting.swap(state->waiting);
    }
    for (const auto& answer : waiting) answer();
  }
  /// Replaces replies before they are delivered.
  void spoil(std::function<void(std::vector<std::byte>&)> change) { spoil_ = std::move(change); }

  [[nodiscard]] int64_t calls() const { return calls_.load(); }
  /// Of replies.
  [[nodiscard]] int64_t payload_bytes() const { return payload_bytes_.load(); }

 private:
  struct State {
    bool held = false;
    std::vector<std::function<void()>> waiting;
  };

  Result<PeerReply> answer_to(PeerCall& call) {
    if (lost_.load()) return fail(ErrorKind::PeerLost, name() + ": closed the connection");
    auto answered = service_->answer(call.method, call.request);
    if (!answered) return tl::unexpected(with_context(std::move(answered).error(), name()));
    std::vector<std::byte> bytes;
    for (const auto& segment : answered->segments)
      bytes.insert(bytes.end(), segment.begin(), segment.end());
    if (spoil_) spoil_(bytes);
    payload_bytes_.fetch_add(static_cast<int64_t>(bytes.size()));
    PeerReply reply{.size = static_cast<int64_t>(bytes.size()), .rest = {}};
    size_t at = 0;
    for (const std::span<std::byte>& into : call.into) {
      const size_t size = std::min(into.size(), bytes.size() - at);
      if (size > 0) std::memcpy(into.data(), bytes.data() + at, size);
      at += size;
    }
    reply.rest.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
    if (static_cast<int64_t>(reply.rest.size()) > call.most_rest)
      return fail(ErrorKind::PeerLost, name() + ": sent more than it was asked for");
    return reply;
  }

  const std::shared_ptr<const Service> service_;
  const int64_t node_;
  Guarded<State> state_;
  std::function<void(std::vector<std::byte>&)> spoil_;
  std::atomic<bool> lost_ = false;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> payload_bytes_ = 0;
  std::unique_ptr<ThreadPool> threads_;  // last: its threads use all of the above
};

}  // namespace gnn::shards
