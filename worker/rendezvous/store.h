#pragma once

#include "common/result.h"
#include "worker/rendezvous/rendezvous.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::rendezvous {

/// The key-value store through which the agents of an attempt find each other. A call that exceeds
/// the implementation's deadline fails with PeerLost, and so does every later call.
/// Threads: safe from any thread; calls are serialised.
class Store {
 public:
  virtual ~Store() = default;

  [[nodiscard]] virtual Status set(const std::string& key, const std::string& value) = 0;
  /// The values of `keys`, in their order; nullopt for a key that is not set. Never waits for a key
  /// to be set.
  [[nodiscard]] virtual Result<std::vector<std::optional<std::string>>> get(
      const std::vector<std::string>& keys
  ) = 0;
  /// Adds to a counter, which starts at zero, and returns the sum.
  [[nodiscard]] virtual Result<int64_t> add(const std::string& key, int64_t by) = 0;
};

/// Names the job and attempt of the store's host, which writes it before anything else.
inline constexpr const char* kIdentityKey = "gnn/identity";
/// Counts the handshakes that were refused.
inline constexpr const char* kRefusedKey = "gnn/refused";
/// The attempt's current round, under attempt_prefix().
inline constexpr const char* kRoundKey = "round";
/// Node 0's directive, under attempt_prefix().
inline constexpr const char* kDirectiveKey = "directive";

/// Sampling servers outlive attempts, and write to the store of whichever runs: "<job uid>/servers/<n>"
/// is server n's.
[[nodiscard]] std::string server_key(const std::string& job_uid, int64_t server);
/// One more than the highest number of a server that has come: how many such keys are to be read.
[[nodiscard]] std::string servers_key(const std::string& job_uid);

/// The store's answer to a handshake.
enum class HandshakeAnswer {
  Welcome,  ///< same job, attempt and (for ranks) round
  /// The host has not said who it is, or is of an older attempt that will vanish: try again.
  NotYet,
  /// Another job, a newer attempt, or another round: leave. Counted under kRefusedKey.
  Refused,
};

/// Writes the host's job and attempt to the store.
[[nodiscard]] Status announce_identity(Store& store, const Incarnation& incarnation);

struct Handshake {
  HandshakeAnswer answer = HandshakeAnswer::NotYet;
  std::string reason;  ///< why a process is not welcome
};

/// What the host's identity tells a process of any attempt.
struct HostAttempt {
  std::optional<int64_t> attempt{};  ///< nothing while it is no host of this job
  std::string reason{};              ///< why it is none
};
/// Reads what kIdentityKey says; `identity` is nothing before the host has announced itself.
[[nodiscard]] HostAttempt attempt_of_host(
    const std::optional<std::string>& identity, const std::string& job_uid
);

/// Compares an agent's job and attempt with those of the host.
[[nodiscard]] Result<Handshake> agent_handshake(Store& store, const Incarnation& incarnation);
/// Compares a rank's job, attempt and round with those of the host.
[[nodiscard]] Result<Handshake> rank_handshake(Store& store, const Incarnation& incarnation);

}  // namespace gnn::rendezvous
