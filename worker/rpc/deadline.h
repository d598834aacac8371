#pragma once

#include "common/clock.h"
#include "common/running_time.h"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace gnn::rpc::internal {

/// Calls a function once when a time has passed in which this process ran.
/// Threads: the event loop's.
class Deadline : public std::enable_shared_from_this<Deadline> {
 public:
  Deadline(asio::io_context& io, Duration limit, std::function<void()> expired)
      : timer_(io), running_(now()), until_(now() + limit), expired_(std::move(expired)) {}

  void start() {
    timer_.expires_after(RunningTime::kLongestStep / 5);
    timer_.async_wait([self = shared_from_this()](std::error_code) { self->look(); });
  }
  /// Nothing is called any more.
  void cancel() {
    expired_ = nullptr;
    timer_.cancel();
  }

 private:
  static MonotonicPoint now() { return std::chrono::steady_clock::now(); }

  void look() {
    if (!expired_) return;
    if (running_.advance(now()) < until_) return start();
    std::exchange(expired_, nullptr)();
  }

  asio::steady_timer timer_;
  RunningTime running_;
  MonotonicPoint until_;
  std::function<void()> expired_;
};

}  // namespace gnn::rpc::internal
