#include "common/contract.h"

#include <gtest/gtest.h>

#include <set>

namespace gnn::contract {
namespace {

TEST(Contract, NamesOfChildrenAreDeterministic) {
  EXPECT_EQ(pod_name("job", 2, 1), "job-2-1");
  EXPECT_EQ(pod_name("job", 2, 1, 3), "job-2-1-3");
  EXPECT_EQ(pod_hostname("job", 1), "job-1");
  EXPECT_EQ(prepare_pod_name("job", 2), "job-prepare-2");
  EXPECT_EQ(child_name("job"), "job-gnn");
  EXPECT_EQ(master_address("job"), "job-0.job-gnn");
}

TEST(Contract, TheNameOfADataKeyTellsItsRandomPart) {
  const std::string suffix = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(suffix_of_data_key("a-key", data_key_name("a-key", suffix)), suffix);
  for (const std::string& other :
       {std::string(),
        suffix,
        std::string("job-key-"),
        "job-key-" + suffix.substr(1),
        "job-key-0" + suffix,
        "jobs-key-" + suffix,
        "job-key-" + suffix + "0",
        "job-key-" + std::string(32, 'A')}) {
    EXPECT_FALSE(suffix_of_data_key("job", other)) << other;
  }
}

TEST(Contract, TheNameOfAPodTellsItsNumbers) {
  for (const char* job : {"job", "a-1", "1-2-3"}) {
    const auto found = numbers_of_pod(job, pod_name(job, 12, 3));
    ASSERT_TRUE(found) << job;
    EXPECT_EQ(found->attempt, 12);
    EXPECT_EQ(found->node, 3);
    EXPECT_EQ(found->restart, 0);
    const auto replaced = numbers_of_pod(job, pod_name(job, 12, 3, 4));
    ASSERT_TRUE(replaced) << job;
    EXPECT_EQ(replaced->attempt, 12);
    EXPECT_EQ(replaced->node, 3);
    EXPECT_EQ(replaced->restart, 4);
    EXPECT_EQ(attempt_of_prepare_pod(job, prepare_pod_name(job, 12)), 12);
    EXPECT_FALSE(numbers_of_pod(job, prepare_pod_name(job, 12)));
    EXPECT_FALSE(attempt_of_prepare_pod(job, pod_name(job, 12, 3)));
    EXPECT_EQ(attempt_of_group(job, group_name(job, 12)), 12);
    EXPECT_FALSE(attempt_of_group(job, pod_name(job, 12, 3)));
  }
  for (const char* other :
       {"", "job", "job-prepare", "job-prepare-", "job-prepare-0", "job-prepare-01", "prepare-1"}) {
    EXPECT_FALSE(attempt_of_prepare_pod("job", other)) << other;
  }
  for (const char* other :
       {"",
        "job",
        "job-",
        "job-1",
        "job--",
        "job-1-",
        "job--1",
        "job--1-2",
        "job-0-1",
        "job-1-x",
        "job-01-1",
        "job-1-1-",
        "job-1-1x",
        "job-1-1-0",
        "job-1-1-01",
        "job-1-1-1-1",
        "job-99999999999999999999-1",
        "other-1-1",
        "jobs-1-1",
        "jo-1-1"}) {
    EXPECT_FALSE(numbers_of_pod("job", other)) << other;
  }
}

TEST(Contract, TheNameOfAServersPodTellsItsNumbers) {
  for (const char* job : {"job", "a-s1", "s"}) {
    const auto found = numbers_of_server_pod(job, server_pod_name(job, 12, 3));
    ASSERT_TRUE(found) << job;
    EXPECT_EQ(found->server, 12);
    EXPECT_EQ(found->restart, 3);
    EXPECT_FALSE(numbers_of_pod(job, server_pod_name(job, 12, 3)));
  }
  EXPECT_EQ(server_pod_name("job", 1, 0), "job-s1-0");
  for (const char* other :
       {"",
        "job",
        "job-s",
        "job-s1",
        "job-s1-",
        "job-s-1",
        "job-s-1-1",
        "job-s01-1",
        "job-s1-01",
        "job-s1-1-1",
        "job-s1-x",
        "job-s1x1",
        "job-1-1",
        "jobs-s1-1",
        "job-s99999999999999999999-1",
        "job-s1-99999999999999999999"}) {
    EXPECT_FALSE(numbers_of_server_pod("job", other)) << other;
  }
}

TEST(Contract, TheLongestJobNameLeavesRoomForAttemptAndNode) {
  const std::string longest(static_cast<size_t>(kMaxJobNameLength), 'a');
  constexpr size_t kMaxDnsLabel = 63;
  EXPECT_LE(pod_name(longest, 1'000'000'000, 100'000).size(), kMaxDnsLabel);
  EXPECT_LE(pod_name(longest, 10'000'000, 100'000, 1'000).size(), kMaxDnsLabel);
  EXPECT_LE(server_pod_name(longest, 1'023, 1'000'000'000).size(), kMaxDnsLabel);
  EXPECT_LE(child_name(longest).size(), kMaxDnsLabel);
}

TEST(Contract, WrongInputIsNeverRetriedAndLostPeersAre) {
  EXPECT_EQ(exit_code_for(ErrorKind::Configuration), kExitConfiguration);
  EXPECT_EQ(exit_code_for(ErrorKind::Data), kExitData);
  EXPECT_EQ(exit_code_for(ErrorKind::PeerLost), kExitPeerLost);
  EXPECT_EQ(exit_code_for(ErrorKind::Io), kExitOther);
  EXPECT_EQ(exit_reason(kExitPreempted), "Preempted");
  EXPECT_EQ(exit_reason(139), "Error");
}

TEST(Contract, ReservedNamesAreDistinct) {
  EXPECT_EQ(
      std::set<std::string_view>(kReservedEnv.begin(), kReservedEnv.end()).size(),
      kReservedEnv.size()
  );
}

}  // namespace
}  // namespace gnn::contract
