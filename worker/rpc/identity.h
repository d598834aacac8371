#pragma once

#include <cstdint>
#include <string>

namespace gnn::rpc {

/// What a process is to the others of its job.
enum class Role : uint8_t {
  Rank = 0,    ///< of nodes that serve each other; asks those of the same attempt and round
  Server = 1,  ///< a sampling server: it outlives attempts and rounds, and is of none
  Client = 2,  ///< a rank that asks sampling servers
};

/// Who a process is. Both ends of a connection prove theirs to each other with the job's key.
struct Identity {
  std::string job_uid;
  Role role = Role::Rank;
  int64_t attempt = 0;  ///< below 2^32, like round and node; a server's counts for nothing
  int64_t round = 0;
  int64_t node = 0;  ///< a server's own number
  int64_t rank = 0;  ///< within its node; below 2^16
};

/// "node" or "server": what `Identity::node` counts.
[[nodiscard]] constexpr const char* counted_by(Role role) {
  return role == Role::Server ? "server" : "node";
}

/// The process at the other end of a connection, which has proved to be of the same job, and, where
/// both are ranks, of the same attempt and round.
struct Peer {
  Role role = Role::Rank;
  int64_t attempt = 0;  ///< of a server nothing
  int64_t round = 0;
  int64_t node = 0;
  int64_t rank = 0;     ///< within its node
  std::string address;  ///< "10.0.0.7:29600"

  /// "node 1 (10.0.0.7:29600)", "server 1 (10.0.0.7:29600)": how messages name it.
  [[nodiscard]] std::string name() const {
    return std::string(counted_by(role)) + " " + std::to_string(node) + " (" + address + ")";
  }
};

}  // namespace gnn::rpc
