#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <thread>

namespace gnn::rpc::internal {

/// Asio's loop and the thread that runs it. All sockets and timers of the module belong to it, and
/// are touched by its thread alone.
class LoopContext {
 public:
  LoopContext() : work_(io.get_executor()), thread_([this] { io.run(); }) {}
  ~LoopContext() {
    work_.reset();
    io.stop();
    thread_.join();
  }
  LoopContext(const LoopContext&) = delete;
  LoopContext& operator=(const LoopContext&) = delete;

  asio::io_context io{1};  // one thread runs it

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace gnn::rpc::internal
