#include "worker/rpc/handshake.h"

#include "common/hash.h"
#include "worker/rpc/wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

namespace gnn::rpc {
namespace {

constexpr uint32_t kChallengeMark = 0x644e4e47;  // "GNNd"
constexpr size_t kSignatureBytes = 32;
constexpr size_t kNonceBytes = 16;
// What stands before the signature in proof and verdict.
constexpr size_t kSignedBytes = 32;

// So that no signature of one side passes for one of the other.
constexpr std::string_view kClientLabel = "gnn data client";
constexpr std::string_view kServerLabel = "gnn data server";

enum class VerdictCode : uint8_t { Welcome = 0, OtherKey = 1, OtherIncarnation = 2, OtherRole = 3 };

using Signature = std::array<std::byte, kSignatureBytes>;

Signature sign(
    const Key& key,
    std::string_view label,
    std::initializer_list<std::span<const std::byte>> messages,
    std::string_view job_uid
) {
  // All parts but the last are of fixed size, so that no two texts are the same.
  std::vector<unsigned char> text(label.begin(), label.end());
  for (const auto message : messages) {
    const auto* begin = reinterpret_cast<const unsigned char*>(message.data());
    text.insert(text.end(), begin, begin + message.size());
  }
  text.insert(text.end(), job_uid.begin(), job_uid.end());
  Signature signature{};
  unsigned int size = 0;
  const auto* made = HMAC(
      EVP_sha256(),
      key.bytes().data(),
      static_cast<int>(key.bytes().size()),
      text.data(),
      text.size(),
      reinterpret_cast<unsigned char*>(signature.data()),
      &size
  );
  GNN_ASSERT(made != nullptr && size == signature.size(), "OpenSSL has SHA-256");
  return signature;
}

std::span<const std::byte> signed_part(std::span<const std::byte, kProofBytes> message) {
  return message.first(kSignedBytes);
}

bool is_signed(std::span<const std::byte, kProofBytes> message, const Signature& signature) {
  // In a time that does not tell how much of it is right.
  return CRYPTO_memcmp(message.subspan(kSignedBytes).data(), signature.data(), signature.size()) ==
         0;
}

std::string incarnation_text(int64_t attempt, int64_t round) {
  return "attempt " + std::to_string(attempt) + ", round " + std::to_string(round);
}

std::string role_text(uint8_t role) {
  switch (static_cast<Role>(role)) {
    case Role::Rank:
      return "a rank that asks no sampling servers";
    case Role::Server:
      return "a sampling server";
    case Role::Client:
      return "a rank that asks sampling servers";
  }
  return "of an unknown role";
}

// Ranks of one attempt ask each other; sampling servers are asked by their clients and by each other.
bool may_ask(uint8_t role, Role server) {
  if (server == Role::Rank) return role == static_cast<uint8_t>(Role::Rank);
  return server == Role::Server &&
         (role == static_cast<uint8_t>(Role::Client) || role == static_cast<uint8_t>(Role::Server));
}

}  // namespace

Status check_identity(const Identity& identity) {
  const auto check = [](std::string_view name, int64_t value, int64_t most) -> Status {
    if (value >= 0 && value <= most) return {};
    return fail(
        ErrorKind::Configuration,
        "the identity's " + std::string(name) + " is " + std::to_string(value) +
            ", expected a number from 0 to " + std::to_string(most)
    );
  };
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  GNN_RETURN_IF_ERROR(check("attempt", identity.attempt, kMost));
  GNN_RETURN_IF_ERROR(check("round", identity.round, kMost));
  GNN_RETURN_IF_ERROR(check("node", identity.node, kMost));
  return check("rank", identity.rank, std::numeric_limits<uint16_t>::max());
}

Result<ServerHandshake> ServerHandshake::begin(const Identity& own, const Key& key) {
  std::array<std::byte, kChallengeBytes - 16> nonce{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    return fail(ErrorKind::Internal, "the system has no random numbers for a handshake");
  ServerHandshake handshake(own, key);
  WireWriter writer(handshake.challenge_);
  writer.put(kChallengeMark);
  writer.put(kProtocolVersion);
  writer.put(uint16_t{0});
  writer.put(fnv1a(own.job_uid));
  writer.put(nonce);
  return handshake;
}

ServerHandshake::Judgement ServerHandshake::judge(const ProofBytes& proof) const {
  Judgement judgement{};
  WireWriter writer(judgement.verdict);
  if (!is_signed(proof, sign(key_, kClientLabel, {challenge_, signed_part(proof)}, own_.job_uid))) {
    judgement.reason = "it does not hold this job's key";
    // Unsigned: a signature of ours is for those who hold the key.
    writer.put(static_cast<uint8_t>(VerdictCode::OtherKey));
    return judgement;
  }
  WireReader reader(std::span<const std::byte>(proof).subspan(kNonceBytes));
  const int64_t attempt = reader.get<uint32_t>();
  const int64_t round = reader.get<uint32_t>();
  const int64_t node = reader.get<uint32_t>();
  const int64_t rank = reader.get<uint16_t>();
  const auto role = reader.get<uint8_t>();
  VerdictCode code = VerdictCode::Welcome;
  if (!may_ask(role, own_.role)) {
    code = VerdictCode::OtherRole;
    judgement.reason =
        "it is " + role_text(role) + ", and this is " + role_text(static_cast<uint8_t>(own_.role));
  } else if (own_.role == Role::Rank && (attempt != own_.attempt || round != own_.round)) {
    code = VerdictCode::OtherIncarnation;
    judgement.reason = "it is node " + std::to_string(node) + " of " +
                       incarnation_text(attempt, round) + ", and this is " +
                       incarnation_text(own_.attempt, own_.round);
  } else {
    judgement.welcome = true;
    judgement.peer = {
        .role = static_cast<Role>(role),
        .attempt = attempt,
        .round = round,
        .node = node,
        .rank = rank,
        .address = {}
    };
  }
  writer.put(static_cast<uint8_t>(code));
  writer.put(static_cast<uint8_t>(own_.role));
  writer.put(uint16_t{0});
  writer.put(static_cast<uint32_t>(own_.attempt));
  writer.put(static_cast<uint32_t>(own_.round));
  writer.put(static_cast<uint32_t>(own_.node));
  const Signature signature =
      sign(key_, kServerLabel, {challenge_, proof, signed_part(judgement.verdict)}, own_.job_uid);
  std::ranges::copy(signature, judgement.verdict.begin() + kSignedBytes);
  return judgement;
}

Result<ProofBytes> ClientHandshake::prove(const ChallengeBytes& challenge) {
  challenge_ = challenge;
  WireReader reader(challenge);
  if (reader.get<uint32_t>() != kChallengeMark)
    return fail(ErrorKind::PeerLost, "it is no data server of this product");
  const auto version = reader.get<uint16_t>();
  std::ignore = reader.get<uint16_t>();
  // First: the address may belong to a job of another image. All versions have this in its place.
  if (reader.get<uint64_t>() != fnv1a(own_.job_uid))
    return fail(ErrorKind::PeerLost, "it serves another job than " + own_.job_uid);
  if (version != kProtocolVersion) {
    return fail(
        ErrorKind::Configuration,
        "it speaks version " + std::to_string(version) +
            " of the data protocol, this process version " + std::to_string(kProtocolVersion) +
            ": all nodes must run the same image"
    );
  }
  std::array<std::byte, kNonceBytes> nonce{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    return fail(ErrorKind::Internal, "the system has no random numbers for a handshake");
  WireWriter writer(proof_);
  writer.put(nonce);
  writer.put(static_cast<uint32_t>(own_.attempt));
  writer.put(static_cast<uint32_t>(own_.round));
  writer.put(static_cast<uint32_t>(own_.node));
  writer.put(static_cast<uint16_t>(own_.rank));
  writer.put(static_cast<uint8_t>(own_.role));
  writer.put(uint8_t{0});
  writer.put(sign(key_, kClientLabel, {challenge_, signed_part(proof_)}, own_.job_uid));
  return proof_;
}

Status ClientHandshake::check(const VerdictBytes& verdict) const {
  WireReader reader(verdict);
  const auto code = reader.get<uint8_t>();
  if (code == static_cast<uint8_t>(VerdictCode::OtherKey)) {
    return fail(
        ErrorKind::Configuration,
        "it holds another data key than this process: all nodes of job " + own_.job_uid +
            " must read the same key file"
    );
  }
  const Signature expected =
      sign(key_, kServerLabel, {challenge_, proof_, signed_part(verdict)}, own_.job_uid);
  if (!is_signed(verdict, expected))
    return fail(ErrorKind::PeerLost, "it does not prove that it holds this job's data key");
  const auto role = reader.get<uint8_t>();
  std::ignore = reader.get<uint16_t>();
  const int64_t attempt = reader.get<uint32_t>();
  const int64_t round = reader.get<uint32_t>();
  const int64_t node = reader.get<uint32_t>();
  if (code == static_cast<uint8_t>(VerdictCode::OtherRole) ||
      role != static_cast<uint8_t>(server_role_)) {
    return fail(
        ErrorKind::PeerLost,
        "it is " + role_text(role) + ", and this process " +
            role_text(static_cast<uint8_t>(own_.role))
    );
  }
  if (code != static_cast<uint8_t>(VerdictCode::Welcome)) {
    return fail(
        ErrorKind::PeerLost,
        "it is of " + incarnation_text(attempt, round) + ", and this process of " +
            incarnation_text(own_.attempt, own_.round)
    );
  }
  if (node != server_node_)
    return fail(
        ErrorKind::PeerLost,
        std::string("the address now belongs to ") + counted_by(server_role_) + " " +
            std::to_string(node)
    );
  return {};
}

}  // namespace gnn::rpc
