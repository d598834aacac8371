#pragma once

#include "common/result.h"
#include "worker/distributed/comm/rendezvous.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::comm {

/// The key-value store at which the agents of a job meet. Calls end within the deadline that the
/// implementation was made with; afterwards they give PeerLost, and so does every later call.
/// Threading: safe from any thread; calls are serialised.
class Store {
 public:
  virtual ~Store() = default;

  [[nodiscard]] virtual Status set(const std::string& key, const std::string& value) = 0;
  /// The values of `keys`, in their order; nullopt for a key that is not set. Does not wait for
  /// keys.
  [[nodiscard]] virtual Result<std::vector<std::optional<std::string>>> get(
      const std::vector<std::string>& keys
  ) = 0;
  /// Adds to a counter, made at zero if it is not there, and returns the sum.
  [[nodiscard]] virtual Result<int64_t> add(const std::string& key, int64_t by) = 0;
};

/// Key that says whose store this is; written by its host before anything else.
inline constexpr const char* kIdentityKey = "gnn/identity";
/// Counts those whom the handshake refused.
inline constexpr const char* kRefusedKey = "gnn/refused";
/// The attempt's current round, below attempt_prefix().
inline constexpr const char* kRoundKey = "round";

/// What a store answered to a handshake.
enum class HandshakeAnswer {
  Welcome,  ///< Same job, attempt and (for ranks) round.
  NotYet,   ///< The host has not said who it is, or is of an older attempt that will vanish: try
            ///< again.
  Refused,  ///< Another job, a newer attempt, or another round: leave. Counted under kRefusedKey.
};

/// Announces the host's job and attempt.
[[nodiscard]] Status announce_identity(Store& store, const Incarnation& incarnation);

struct Handshake {
  HandshakeAnswer answer = HandshakeAnswer::NotYet;
  std::string reason;  ///< Why not, for people.
};

/// Compares an agent's job and attempt with the host's.
[[nodiscard]] Result<Handshake> agent_handshake(Store& store, const Incarnation& incarnation);
/// Compares a rank's job, attempt and round with the host's.
[[nodiscard]] Result<Handshake> rank_handshake(Store& store, const Incarnation& incarnation);

}  // namespace gnn::comm
