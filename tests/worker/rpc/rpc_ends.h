#pragma once

#include "tests/support/must.h"
#include "worker/rpc/client.h"
#include "worker/rpc/server.h"

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace gnn::rpc {

inline constexpr int64_t kServingNode = 1;
inline constexpr auto kShortTimeout = std::chrono::seconds(1);

inline Identity identity_of(int64_t node) {
  return {.job_uid = "6f2c", .attempt = 3, .round = 1, .node = node, .rank = 0};
}

inline ServerOptions serving() {
  ServerOptions options;
  options.address = {.host = "127.0.0.1", .port = 0};
  options.identity = identity_of(kServingNode);
  options.num_threads = 2;
  options.peer_timeout = kShortTimeout;
  return options;
}

inline ClientOptions joining(
    uint16_t port, int64_t node = 0, Duration peer_timeout = kShortTimeout
) {
  ClientOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  options.node = kServingNode;
  options.identity = identity_of(node);
  options.peer_timeout = peer_timeout;
  return options;
}

/// The name of the server in messages.
inline std::string name_of_server(uint16_t port) {
  return "node 1 (127.0.0.1:" + std::to_string(port) + ")";
}

/// A call's result, when it is there.
inline std::future<Result<Reply>> begin_call(Client& client, Call call) {
  const auto promise = std::make_shared<std::promise<Result<Reply>>>();
  client.call(std::move(call), [promise](Result<Reply> result) {
    promise->set_value(std::move(result));
  });
  return promise->get_future();
}

/// Fails after a minute, which is for ever here.
inline Result<Reply> result_of(std::future<Result<Reply>> future) {
  if (future.wait_for(std::chrono::minutes(1)) != std::future_status::ready)
    throw std::runtime_error("a call hangs");
  return future.get();
}

}  // namespace gnn::rpc
