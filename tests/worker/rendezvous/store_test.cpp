#include "worker/rendezvous/store.h"

#include "tests/support/in_process_store.h"

#include <gtest/gtest.h>

namespace gnn::rendezvous {
namespace {

const Incarnation kHost{.job_uid = "6f0c", .attempt = 3, .round = 0};

class HandshakeTest : public ::testing::Test {
 protected:
  void announce() { ASSERT_TRUE(announce_identity(store_, kHost)); }
  void set_round(int64_t round) {
    ASSERT_TRUE(store_.set(attempt_prefix(kHost) + kRoundKey, std::to_string(round)));
  }
  int64_t refused() { return store_.add(kRefusedKey, 0).value(); }
  HandshakeAnswer agent(Incarnation incarnation) {
    return agent_handshake(store_, incarnation).value().answer;
  }
  HandshakeAnswer rank(Incarnation incarnation) {
    return rank_handshake(store_, incarnation).value().answer;
  }

  gnn::testing::InProcessStore store_;
};

TEST_F(HandshakeTest, WaitsForTheHostsIdentity) {
  EXPECT_EQ(agent(kHost), HandshakeAnswer::NotYet);
  EXPECT_EQ(refused(), 0);
}

TEST_F(HandshakeTest, WelcomesAgentsOfTheSameAttempt) {
  announce();
  EXPECT_EQ(agent(kHost), HandshakeAnswer::Welcome);
  EXPECT_EQ(refused(), 0);
}

TEST_F(HandshakeTest, RefusesAndCountsAnotherJob) {
  announce();
  EXPECT_EQ(agent({.job_uid = "other", .attempt = 3}), HandshakeAnswer::Refused);
  EXPECT_EQ(refused(), 1);
}

TEST_F(HandshakeTest, RefusesAnOlderAgentAndLetsANewerOneWait) {
  announce();
  EXPECT_EQ(agent({.job_uid = "6f0c", .attempt = 2}), HandshakeAnswer::Refused);
  EXPECT_EQ(agent({.job_uid = "6f0c", .attempt = 4}), HandshakeAnswer::NotYet);
  EXPECT_EQ(refused(), 1);
}

TEST_F(HandshakeTest, RefusesARankOfAnyOtherRound) {
  announce();
  set_round(1);
  EXPECT_EQ(rank({.job_uid = "6f0c", .attempt = 3, .round = 1}), HandshakeAnswer::Welcome);
  EXPECT_EQ(rank({.job_uid = "6f0c", .attempt = 3, .round = 0}), HandshakeAnswer::Refused);
  EXPECT_EQ(rank({.job_uid = "6f0c", .attempt = 3, .round = 2}), HandshakeAnswer::Refused);
  EXPECT_EQ(rank({.job_uid = "6f0c", .attempt = 4, .round = 1}), HandshakeAnswer::Refused);
  EXPECT_EQ(refused(), 3);
}

TEST_F(HandshakeTest, RefusesTheStoreOfAnotherProgram) {
  for (const char* identity : {"", "hello", "1", "1 3", "2 3 6f0c", "x 3 6f0c"}) {
    ASSERT_TRUE(store_.set(kIdentityKey, identity));
    EXPECT_EQ(agent(kHost), HandshakeAnswer::Refused) << identity;
  }
  EXPECT_EQ(refused(), 6);
}

TEST_F(HandshakeTest, FailsIfTheStoreIsLost) {
  announce();
  store_.fail_from_now_on();
  const auto handshake = agent_handshake(store_, kHost);
  ASSERT_FALSE(handshake);
  EXPECT_EQ(handshake.error().kind, ErrorKind::PeerLost);
}

}  // namespace
}  // namespace gnn::rendezvous
