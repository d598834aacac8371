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

/// Compares an agent's job and attempt with those of the host.
[[nodiscard]] Result<Handshake> agent_handshake(Store& store, const Incarnation& incarnation);
/// Compares a rank's job, attempt and round with those of the host.
[[nodiscard]] Result<Handshake> rank_handshake(Store& store, const Incarnation& incarnation);

}  // namespace gnn::rendezvous
