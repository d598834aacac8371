#pragma once

#include "common/result.h"
#include "worker/rpc/identity.h"
#include "worker/rpc/key.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

/// How the two ends of a new connection prove to each other that they hold the job's key, without
/// sending it: each signs, by HMAC-SHA-256, numbers that the other has drawn, and who it is itself.
///
///   server -> client  challenge: "GNNd", version, digest of the job's UID, 32 random bytes
///   client -> server  proof: 16 random bytes, attempt, round, node, rank, role, signature
///   server -> client  verdict: a code, the server's role, attempt, round and node, signature
///
/// Signatures cover all that was sent before, and the job's UID. Each message has a fixed size.
namespace gnn::rpc {

/// Of handshake and frames together. A client of another version refuses.
inline constexpr uint16_t kProtocolVersion = 2;

inline constexpr size_t kChallengeBytes = 48;
inline constexpr size_t kProofBytes = 64;  ///< all that a server reads of a stranger
inline constexpr size_t kVerdictBytes = 64;

using ChallengeBytes = std::array<std::byte, kChallengeBytes>;
using ProofBytes = std::array<std::byte, kProofBytes>;
using VerdictBytes = std::array<std::byte, kVerdictBytes>;

/// Errors: Configuration if a number of the identity does not fit its field.
[[nodiscard]] Status check_identity(const Identity& identity);

/// A server's side of one handshake.
/// Threads: one thread.
class ServerHandshake {
 public:
  /// Errors: Internal if the system has no random numbers.
  [[nodiscard]] static Result<ServerHandshake> begin(const Identity& own, const Key& key);

  [[nodiscard]] const ChallengeBytes& challenge() const { return challenge_; }

  struct Judgement {
    VerdictBytes verdict;
    bool welcome = false;
    /// Who it is, without its address; it counts only if it is welcome.
    Peer peer;
    std::string reason;  ///< why it is not welcome
  };
  [[nodiscard]] Judgement judge(const ProofBytes& proof) const;

 private:
  ServerHandshake(const Identity& own, const Key& key) : own_(own), key_(key) {}
  Identity own_;
  Key key_;
  ChallengeBytes challenge_{};
};

/// A client's side of one handshake.
/// Threads: one thread.
class ClientHandshake {
 public:
  /// `server_role`, `server_node`: who the server must be.
  ClientHandshake(
      const Identity& own, int64_t server_node, const Key& key, Role server_role = Role::Rank
  )
      : own_(own), server_role_(server_role), server_node_(server_node), key_(key) {}

  /// The answer to a challenge.
  /// Errors: PeerLost if the server is of another job, or speaks another protocol; Configuration if
  /// it has another version of this one.
  [[nodiscard]] Result<ProofBytes> prove(const ChallengeBytes& challenge);
  /// Errors: Configuration if the server has another key; PeerLost if it is of another role,
  /// attempt, round or node than expected, or does not prove that it holds the key.
  [[nodiscard]] Status check(const VerdictBytes& verdict) const;

 private:
  Identity own_;
  Role server_role_;
  int64_t server_node_;
  Key key_;
  ChallengeBytes challenge_{};
  ProofBytes proof_{};
};

}  // namespace gnn::rpc
