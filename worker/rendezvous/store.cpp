#include "worker/rendezvous/store.h"

#include "common/contract.h"

#include <charconv>

namespace gnn::rendezvous {
namespace {

constexpr size_t kLongestIdentityShown = 200;

struct Identity {
  int contract = 0;
  int64_t attempt = 0;
  std::string job_uid;
};

// "<contract> <attempt> <job uid>". Anything else is another program's store.
std::string encode_identity(const Incarnation& incarnation) {
  return std::to_string(contract::kVersion) + " " + std::to_string(incarnation.attempt) + " " +
         incarnation.job_uid;
}

std::optional<Identity> decode_identity(const std::string& text) {
  Identity identity;
  const char* end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, identity.contract);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ' ') return std::nullopt;
  parsed = std::from_chars(parsed.ptr + 1, end, identity.attempt);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ' ') return std::nullopt;
  identity.job_uid.assign(parsed.ptr + 1, end);
  return identity;
}

Result<Handshake> refuse(Store& store, std::string reason) {
  GNN_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, store.add(kRefusedKey, 1));
  return Handshake{.answer = HandshakeAnswer::Refused, .reason = std::move(reason)};
}

}  // namespace

Status announce_identity(Store& store, const Incarnation& incarnation) {
  return store.set(kIdentityKey, encode_identity(incarnation));
}

std::string server_key(const std::string& job_uid, int64_t server) {
  return job_uid + "/servers/" + std::to_string(server);
}

std::string servers_key(const std::string& job_uid) {
  return job_uid + "/servers";
}

HostAttempt attempt_of_host(
    const std::optional<std::string>& identity, const std::string& job_uid
) {
  if (!identity) return {.reason = "the store's host has not announced itself yet"};
  const auto host = decode_identity(*identity);
  if (host && host->contract == contract::kVersion && host->job_uid == job_uid)
    return {.attempt = host->attempt};
  return {
      .reason = "the store belongs to '" + identity->substr(0, kLongestIdentityShown) +
                "', this process to job UID '" + job_uid + "'"
  };
}

Result<Handshake> agent_handshake(Store& store, const Incarnation& incarnation) {
  GNN_ASSIGN_OR_RETURN(const auto values, store.get({kIdentityKey}));
  if (!values[0])
    return Handshake{
        .answer = HandshakeAnswer::NotYet, .reason = "the store's host has not announced itself yet"
    };
  const auto host = decode_identity(*values[0]);
  const std::string found = "the store belongs to '" + *values[0] + "', this process to '" +
                            encode_identity(incarnation) + "' (contract, attempt, job UID)";
  if (!host || host->contract != contract::kVersion || host->job_uid != incarnation.job_uid)
    return refuse(store, found);
  if (host->attempt > incarnation.attempt)
    return refuse(store, "a newer attempt is running: " + found);
  if (host->attempt < incarnation.attempt)
    return Handshake{
        .answer = HandshakeAnswer::NotYet, .reason = "an older attempt is still running: " + found
    };
  return Handshake{.answer = HandshakeAnswer::Welcome, .reason = {}};
}

Result<Handshake> rank_handshake(Store& store, const Incarnation& incarnation) {
  GNN_ASSIGN_OR_RETURN(Handshake handshake, agent_handshake(store, incarnation));
  if (handshake.answer == HandshakeAnswer::Refused) return handshake;
  // Ranks start after the agents have met: "not yet" means that this is another job's store.
  if (handshake.answer == HandshakeAnswer::NotYet) return refuse(store, handshake.reason);
  GNN_ASSIGN_OR_RETURN(const auto values, store.get({attempt_prefix(incarnation) + kRoundKey}));
  const std::string current = values[0].value_or("none");
  if (current != std::to_string(incarnation.round))
    return refuse(
        store,
        "round " + current + " is running, this rank belongs to round " +
            std::to_string(incarnation.round)
    );
  return handshake;
}

}  // namespace gnn::rendezvous
