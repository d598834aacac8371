#include "worker/tasks/data_network.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/rpc/raw_peer.h"
#include "tests/worker/shards/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <unistd.h>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Nodes of two ranks each, which hold partitions of one data set.
class DataNetworkTest : public ::testing::Test {
 protected:
  using Change = std::function<void(int64_t node, DataNetworkOptions& options)>;
  using Use =
      std::function<std::string(const comm::RankGroups& groups, const shards::Peers& peers)>;

  DataNetworkTest()
      : folder_(
            std::filesystem::path(::testing::TempDir()) / ("data-" + std::to_string(::getpid()))
        ) {
    std::filesystem::create_directories(folder_);
    for (const char* name : {"key", "other-key"}) {
      std::ofstream(folder_ / name) << rpc::Key::draw().value().to_hex() << '\n';
      std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_read);
    }
  }
  ~DataNetworkTest() override { std::filesystem::remove_all(folder_); }

  // By rank what `use` says of the peers, or why there are none.
  [[nodiscard]] std::vector<std::string> open(
      int64_t nodes, int64_t partitions, const Change& change, const Use& use
  ) const {
    const shards::Shop shop(partitions);
    const shards::Job job(shop, {.options = {.fanout = {2}}}, /*extracted=*/true);
    std::vector<std::string> said(static_cast<size_t>(2 * nodes));
    comm::run_ranks_of_nodes(nodes, 2, [&](const comm::RankGroups& groups) {
      const int64_t node = groups.all->rank() / 2;
      DataNetworkOptions options{
          .endpoint =
              {.address = {.host = "127.0.0.1", .port = 0}, .key_file = (folder_ / "key").string()},
          .incarnation = {.job_uid = "shop", .attempt = 2, .round = 1},
          .partitions = partitions
      };
      change(node, options);
      const auto network = comm::require(DataNetwork::create(options, groups));
      const auto peers =
          network->open(groups.node->rank() == 0 ? job.shared_service(node % partitions) : nullptr);
      said[static_cast<size_t>(groups.all->rank())] =
          peers ? use(groups, *peers)
                : std::string(to_string(peers.error().kind)) + ": " + peers.error().message;
      comm::require(network->leave());
    });
    return said;
  }

  const std::filesystem::path folder_;
};

// The first item that `peer` owns.
Result<shards::PeerReply> first_item(shards::Peer& peer, int64_t id) {
  std::promise<Result<shards::PeerReply>> reply;
  const std::vector<int64_t> ids{id};
  peer.call(
      {.method = static_cast<uint16_t>(shards::Method::Features),
       .request = encode(shards::RowsRequest{.index = 1}, ids),
       .into = {},
       .most_rest = 20},
      [&](Result<shards::PeerReply> answer) { reply.set_value(std::move(answer)); }
  );
  return reply.get_future().get();
}

TEST_F(DataNetworkTest, AsksHoldersInTurnAndThoseOfTheJobsKeyAndRoundAlone) {
  const auto unchanged = [](int64_t, DataNetworkOptions&) {};
  // Nodes 0, 2 and 4 hold partition 0, the others partition 1.
  const auto asked =
      open(5, 2, unchanged, [](const comm::RankGroups& groups, const shards::Peers& peers) {
        const auto own = static_cast<size_t>(groups.all->rank() / 2 % 2);
        EXPECT_EQ(peers.at(own), nullptr);
        shards::Peer& peer = *peers.at(1 - own);
        const int64_t first = own == 0 ? shards::Shop::kItems / 3 : 0;
        const auto reply = first_item(peer, first);
        EXPECT_TRUE(reply) << reply.error().message;
        float value = 0;
        std::memcpy(&value, reply->rest.data(), sizeof value);
        EXPECT_EQ(value, static_cast<float>(first * 5) / 7);
        return peer.name().substr(0, 6);
      });
  EXPECT_EQ(
      asked,
      (std::vector<std::string>{
          "node 1",
          "node 1",
          "node 0",
          "node 0",
          "node 3",
          "node 3",
          "node 2",
          "node 2",
          "node 1",
          "node 1"
      })
  );

  const auto with = [&](const Change& change) {
    return open(2, 2, change, [](const comm::RankGroups&, const shards::Peers&) {
      return "joined";
    });
  };
  EXPECT_THAT(
      with([&](int64_t node, DataNetworkOptions& options) {
        if (node == 1) options.endpoint.key_file = (folder_ / "other-key").string();
      }),
      Each(HasSubstr("it holds another data key than this process"))
  );
  const auto rounds =
      with([](int64_t node, DataNetworkOptions& options) { options.incarnation.round += node; });
  EXPECT_THAT(rounds[0], StartsWith("PeerLost: data server of node 1 (127.0.0.1:"));
  EXPECT_THAT(
      rounds[0], HasSubstr("it is of attempt 2, round 2, and this process of attempt 2, round 1")
  );
  EXPECT_THAT(
      rounds[3], HasSubstr("it is of attempt 2, round 1, and this process of attempt 2, round 2")
  );
  const auto attempts =
      with([](int64_t node, DataNetworkOptions& options) { options.incarnation.attempt += node; });
  EXPECT_THAT(attempts, Each(HasSubstr("it is of attempt")));
  // Nobody can listen there.
  const auto deaf = with([](int64_t node, DataNetworkOptions& options) {
    if (node == 1) options.endpoint.address.host = "192.0.2.1";
  });
  EXPECT_EQ(deaf[0], "PeerLost: node 1 cannot serve its partition of the data");
  EXPECT_EQ(deaf[3], deaf[0]);
  EXPECT_THAT(deaf[2], HasSubstr("192.0.2.1"));
}

TEST_F(DataNetworkTest, LosesANodeThatIsSilentForAsLongAsTheJobSays) {
  const rpc::Key key = rpc::Key::read_file((folder_ / "key").string()).value();
  rpc::RawListener listener;
  const shards::Shop shop(2);
  const shards::Job job(shop, {.options = {.fanout = {2}}}, /*extracted=*/true);
  comm::run_ranks_of_nodes(2, 1, [&](const comm::RankGroups& groups) {
    if (groups.all->rank() == 1) {
      comm::require(
          comm::all_gather_bytes(*groups.all, "127.0.0.1:" + std::to_string(listener.port()))
      );
      rpc::RawPeer asker = listener.accept();
      asker.welcome({.job_uid = "shop", .attempt = 2, .round = 1, .node = 1, .rank = 0}, key);
      asker.wait_for_end();
      return;
    }
    const auto network = comm::require(DataNetwork::create(
        {.endpoint =
             {.address = {.host = "127.0.0.1", .port = 0}, .key_file = (folder_ / "key").string()},
         .incarnation = {.job_uid = "shop", .attempt = 2, .round = 1},
         .partitions = 2,
         .peer_timeout = std::chrono::seconds(1)},
        groups
    ));
    const auto peers = comm::require(network->open(job.shared_service(0)));
    const auto reply = first_item(*peers.at(1), shards::Shop::kItems / 3);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().kind, ErrorKind::PeerLost);
    EXPECT_THAT(reply.error().message, HasSubstr("has sent nothing for 1 s"));
  });
}

}  // namespace
}  // namespace gnn::tasks
