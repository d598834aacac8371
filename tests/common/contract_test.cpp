#include "common/contract.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::contract {
namespace {

TEST(Contract, NamesOfChildrenAreDeterministic) {
  EXPECT_EQ(pod_name("job", 2, 1), "job-2-1");
  EXPECT_EQ(pod_name("job", 2, 1, 3), "job-2-1-r3");
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
        "job-1-1-1",
        "job-1-1-r",
        "job-1-1-r0",
        "job-1-1-r01",
        "job-1-1r1",
        "job-1-1-r-1",
        "job-1-1-r1-1",
        "job-1-r1",
        "job-r1-1-1",
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

// Names that look like the children of others: each one is a job's, and some are what a child of
// another is called, or the beginning of that.
std::vector<std::string> nasty_job_names() {
  std::vector<std::string> names;
  for (const char* base :
       {"a", "a-1", "a-1-1", "a-s0", "a-s0-0", "a-prepare", "a-gnn", "a-r1", "a-s"}) {
    for (const char* end :
         {"", "-0", "-1", "-1-1", "-r1", "-1-r1", "-s1", "-s1-0", "-prepare", "-gnn"}) {
      names.push_back(std::string(base) + end);
    }
  }
  return names;
}

TEST(Contract, NoTwoChildrenOfOneKindHaveTheSameName) {
  const std::vector<std::string> jobs = nasty_job_names();
  // (kind, name) and the only thing that may have it.
  std::map<std::pair<std::string, std::string>, std::string> owners;
  const auto take = [&](const std::string& kind, const std::string& name, const std::string& owner
                    ) {
    const auto [found, is_new] = owners.emplace(std::pair(kind, name), owner);
    EXPECT_TRUE(is_new || found->second == owner)
        << kind << " " << name << ": " << found->second << " and " << owner;
  };
  const std::vector<int64_t> numbers = {0, 1, 2, 10, 11};
  for (const std::string& job : std::set<std::string>(jobs.begin(), jobs.end())) {
    take("child", child_name(job), job);
    take("address of " + child_name(job), prepare_hostname(job), "prepare");
    for (const int64_t i : numbers) {
      const std::string n = std::to_string(i);
      take("address of " + child_name(job), pod_hostname(job, i), "node " + n);
      take("address of " + child_name(job), server_hostname(job, i), "server " + n);
      if (i > 0) take("group", group_name(job, i), job + ", attempt " + n);
      if (i > 0) take("pod", prepare_pod_name(job, i), job + ", prepare, attempt " + n);
      for (const int64_t j : numbers) {
        const std::string m = n + ", " + std::to_string(j);
        take("pod", server_pod_name(job, i, j), job + ", server " + m);
        for (const int64_t restart : numbers) {
          if (i == 0) continue;
          take(
              "pod",
              pod_name(job, i, j, restart),
              job + ", node " + m + ", " + std::to_string(restart)
          );
        }
      }
    }
  }
}

TEST(Contract, OnlyItsJobReadsTheNumbersInANameAndReadsWhatWasPutIn) {
  const std::vector<int64_t> numbers = {0, 1, 2, 10};
  const auto jobs = nasty_job_names();
  // How many numbers a job reads in the name of a pod: an owner reads them in one way.
  const auto readings = [](const std::string& job, const std::string& pod) {
    return static_cast<int>(numbers_of_pod(job, pod).has_value()) +
           static_cast<int>(attempt_of_prepare_pod(job, pod).has_value()) +
           static_cast<int>(numbers_of_server_pod(job, pod).has_value());
  };
  std::set<std::string> pods;
  for (const std::string& job : std::set<std::string>(jobs.begin(), jobs.end())) {
    for (const int64_t i : numbers) {
      if (i > 0) {
        EXPECT_EQ(attempt_of_prepare_pod(job, prepare_pod_name(job, i)), i) << job;
        EXPECT_EQ(attempt_of_group(job, group_name(job, i)), i) << job;
        pods.insert(prepare_pod_name(job, i));
      }
      for (const int64_t j : numbers) {
        const std::string server = server_pod_name(job, i, j);
        const auto of_server = numbers_of_server_pod(job, server);
        ASSERT_TRUE(of_server) << server;
        EXPECT_EQ(std::pair(of_server->server, of_server->restart), std::pair(i, j)) << server;
        pods.insert(server);
        for (const int64_t restart : numbers) {
          if (i == 0) continue;
          const std::string pod = pod_name(job, i, j, restart);
          const auto found = numbers_of_pod(job, pod);
          ASSERT_TRUE(found) << pod;
          EXPECT_EQ(found->attempt, i) << pod;
          EXPECT_EQ(found->node, j) << pod;
          EXPECT_EQ(found->restart, restart) << pod;
          pods.insert(pod);
        }
      }
    }
  }
  for (const std::string& pod : pods) {
    int readers = 0;
    for (const std::string& job : std::set<std::string>(jobs.begin(), jobs.end())) {
      readers += readings(job, pod);
    }
    EXPECT_EQ(readers, 1) << pod;
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
