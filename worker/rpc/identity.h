#pragma once

#include <cstdint>
#include <string>

namespace gnn::rpc {

/// Who a process is. Both ends of a connection prove theirs to each other with the job's key.
struct Identity {
  std::string job_uid;
  int64_t attempt = 0;  ///< below 2^32, like round, node and rank
  int64_t round = 0;
  int64_t node = 0;
  int64_t rank = 0;  ///< within its node
};

/// The process at the other end of a connection, which has proved to be of the same job, attempt and
/// round.
struct Peer {
  int64_t node = 0;
  int64_t rank = 0;     ///< within its node
  std::string address;  ///< "10.0.0.7:29600"

  /// "node 1 (10.0.0.7:29600)": how messages name it.
  [[nodiscard]] std::string name() const {
    return "node " + std::to_string(node) + " (" + address + ")";
  }
};

}  // namespace gnn::rpc
