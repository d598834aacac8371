#include "worker/rpc/handshake.h"

#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gnn::rpc {
namespace {

using ::testing::HasSubstr;
using testing::must;

constexpr int64_t kServerNode = 3;

Identity server_identity() {
  return {.job_uid = "0b5e", .attempt = 7, .round = 2, .node = kServerNode, .rank = 0};
}
Identity client_identity() {
  return {.job_uid = "0b5e", .attempt = 7, .round = 2, .node = 1, .rank = 4};
}

Key key_of(uint8_t byte) {
  std::array<uint8_t, Key::kBytes> bytes{};
  bytes.fill(byte);
  return Key(bytes);
}

// A handshake of two that differ by their arguments from two that belong together.
struct Ends {
  Identity server = server_identity();
  Identity client = client_identity();
  Key server_key = key_of(1);
  Key client_key = key_of(1);
  int64_t expected_node = kServerNode;

  [[nodiscard]] Status shake() const {
    const auto serving = must(ServerHandshake::begin(server, server_key));
    ClientHandshake joining(client, expected_node, client_key);
    GNN_ASSIGN_OR_RETURN(const auto proof, joining.prove(serving.challenge()));
    const auto judgement = serving.judge(proof);
    // The two never disagree, but for the node, which the client alone expects.
    const auto checked = joining.check(judgement.verdict);
    EXPECT_TRUE(!checked || judgement.welcome);
    EXPECT_EQ(judgement.welcome, judgement.reason.empty());
    if (judgement.welcome) {
      EXPECT_EQ(judgement.peer.node, client.node);
      EXPECT_EQ(judgement.peer.rank, client.rank);
    }
    return checked;
  }
};

TEST(Handshake, RefusesForgedBytesAndWhoIsNotOfTheSameJobAttemptAndRoundAndSaysWhy) {
  EXPECT_TRUE(Ends().shake());

  struct Case {
    std::function<void(Ends&)> change;
    ErrorKind kind;
    std::string reason;
  };
  const std::vector<Case> cases{
      {[](Ends& ends) { ends.client_key = key_of(2); },
       ErrorKind::Configuration,
       "it holds another data key than this process: all nodes of job 0b5e must read the same key "
       "file"},
      {[](Ends& ends) { ends.server.job_uid = "77aa"; },
       ErrorKind::PeerLost,
       "it serves another job than 0b5e"},
      {[](Ends& ends) { ends.server.attempt = 8; },
       ErrorKind::PeerLost,
       "it is of attempt 8, round 2, and this process of attempt 7, round 2"},
      {[](Ends& ends) { ends.client.round = 3; },
       ErrorKind::PeerLost,
       "it is of attempt 7, round 2, and this process of attempt 7, round 3"},
      {[](Ends& ends) { ends.expected_node = 5; },
       ErrorKind::PeerLost,
       "the address now belongs to node 3"},
  };
  for (const Case& each : cases) {
    Ends ends;
    each.change(ends);
    const auto status = ends.shake();
    ASSERT_FALSE(status) << each.reason;
    EXPECT_EQ(status.error(), (Error{.kind = each.kind, .message = each.reason}));
  }
  Identity large = client_identity();
  large.round = int64_t{1} << 32;
  EXPECT_THAT(
      check_identity(large).error().message, HasSubstr("the identity's round is 4294967296")
  );

  const Key key = key_of(9);
  const auto serving = must(ServerHandshake::begin(server_identity(), key));
  ClientHandshake joining(client_identity(), kServerNode, key);
  const auto proof = must(joining.prove(serving.challenge()));
  const auto verdict = serving.judge(proof).verdict;
  ASSERT_TRUE(joining.check(verdict));

  for (size_t i = 0; i < proof.size(); ++i) {
    ProofBytes forged = proof;
    forged[i] ^= std::byte{1};
    EXPECT_FALSE(serving.judge(forged).welcome) << i;
  }
  for (size_t i = 0; i < verdict.size(); ++i) {
    VerdictBytes forged = verdict;
    forged[i] ^= std::byte{1};
    EXPECT_FALSE(joining.check(forged)) << i;
  }
  // An answer to one challenge is none to another one, and a client's signature none of a server.
  EXPECT_FALSE(must(ServerHandshake::begin(server_identity(), key)).judge(proof).welcome);
  EXPECT_FALSE(joining.check(proof));
  // Nor is a server's answer to one client one to another.
  ClientHandshake again(client_identity(), kServerNode, key);
  must(again.prove(serving.challenge()));
  EXPECT_FALSE(again.check(verdict));
  // A server of another version or protocol is refused before anything is signed.
  for (const size_t i : {size_t{0}, size_t{4}, size_t{8}}) {
    ChallengeBytes forged = serving.challenge();
    forged[i] ^= std::byte{1};
    const auto refused = ClientHandshake(client_identity(), kServerNode, key).prove(forged);
    ASSERT_FALSE(refused) << i;
    // Of another job, its version says nothing.
    forged[8] ^= std::byte{i == 8 ? uint8_t{0} : uint8_t{1}};
    const auto other_job = ClientHandshake(client_identity(), kServerNode, key).prove(forged);
    EXPECT_EQ(other_job.error().kind, ErrorKind::PeerLost);
    if (i != 4) continue;
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(refused.error().message, HasSubstr("all nodes must run the same image"));
  }
}

TEST(Handshake, LetsClientsAndServersOfAnyAttemptAskSamplingServersAndRanksAloneAskRanks) {
  const Key key = key_of(3);
  // Whether `asks` may ask `asked`, where it expects `expected`.
  const auto shake = [&](Role asks, Role asked, Role expected
                     ) -> Result<ServerHandshake::Judgement> {
    Identity client = client_identity();
    client.role = asks;
    Identity server = server_identity();
    server.role = asked;
    if (asks != Role::Rank) client.attempt = 9;  // a server has no attempt
    const auto serving = must(ServerHandshake::begin(server, key));
    ClientHandshake joining(client, kServerNode, key, expected);
    auto judgement = serving.judge(must(joining.prove(serving.challenge())));
    GNN_RETURN_IF_ERROR(joining.check(judgement.verdict));
    return judgement;
  };
  for (const Role asks : {Role::Rank, Role::Server, Role::Client}) {
    for (const Role asked : {Role::Rank, Role::Server, Role::Client}) {
      const bool may = asked == Role::Rank     ? asks == Role::Rank
                       : asked == Role::Server ? asks != Role::Rank
                                               : false;
      const auto judged = shake(asks, asked, asked);
      ASSERT_EQ(judged.has_value(), may) << static_cast<int>(asks) << static_cast<int>(asked);
      if (!may) {
        EXPECT_EQ(judged.error().kind, ErrorKind::PeerLost);
        continue;
      }
      EXPECT_EQ(judged->peer.role, asks);
      EXPECT_EQ(judged->peer.attempt, client_identity().attempt + (asks == Role::Rank ? 0 : 2));
      EXPECT_EQ(judged->peer.round, client_identity().round);
    }
  }
  EXPECT_EQ(
      shake(Role::Rank, Role::Server, Role::Rank).error().message,
      "it is a sampling server, and this process a rank that asks no sampling servers"
  );
  // Node 3 is not server 3.
  EXPECT_FALSE(shake(Role::Client, Role::Server, Role::Rank));
}

}  // namespace
}  // namespace gnn::rpc
