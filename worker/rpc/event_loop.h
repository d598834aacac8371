#pragma once

#include <memory>

namespace gnn::rpc {

namespace internal {
class LoopContext;
}

/// The thread that does the input and output of all servers and clients which it is given to. They
/// keep it alive; a process needs one.
/// Threads: safe from any thread.
class EventLoop {
 public:
  EventLoop();
  /// Joins the thread, so never on it. Servers and clients are gone by then.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  [[nodiscard]] internal::LoopContext& context() const { return *context_; }

 private:
  std::unique_ptr<internal::LoopContext> context_;
};

}  // namespace gnn::rpc
