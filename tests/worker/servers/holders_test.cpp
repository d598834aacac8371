#include "worker/servers/holders.h"

#include "tests/worker/servers/servers.h"

#include <thread>

namespace gnn::servers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Holders, RefusesAServerOfOtherDataBeforeAnythingIsAskedAndNamesIt) {
  const rpc::Key key = must(rpc::Key::draw());
  const TestServer one({.server = 0}, key, maker());
  const TestServer other({.server = 1, .description = "products"}, key, maker());
  const auto directory = std::make_shared<Directory>();
  directory->update({one.live(), other.live()});
  const ClientEnds client(key, directory);
  const auto opened = client.holders->open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::Data);
  EXPECT_THAT(
      opened.error().message,
      AllOf(HasSubstr(one.name()), HasSubstr(other.name()), HasSubstr("spec.dataset"))
  );

  // Servers that have other parts than they should.
  const TestServer wrong_part({.server = 1, .partitions = 1}, key, maker());
  directory->update({wrong_part.live()});
  const ClientEnds of_two(key, directory, 2);
  EXPECT_THAT(
      of_two.holders->open().error().message,
      HasSubstr("expected a number of partitions of 2, found 1")
  );
  const auto expect_refused = [&](std::function<void(Hello&)> lie, const std::string& why) {
    const TestServer wrong({.server = 1, .partitions = 2, .lie = std::move(lie)}, key, maker());
    directory->update({wrong.live()});
    const ClientEnds ends(key, directory, 2);
    EXPECT_EQ(ends.holders->open().error().message, wrong.name() + ": " + why);
  };
  expect_refused([](Hello& hello) { hello.server = 3; }, "expected server 1, found 3");
  expect_refused([](Hello& hello) { hello.part = 0; }, "expected part 1, found 0");

  // One that comes later is not asked: the others go on.
  directory->update({one.live()});
  const ClientEnds late(key, directory);
  EXPECT_EQ(must(late.holders->open()), "papers");
  directory->update({one.live(), other.live()});
  const auto batches = late.batches();
  must(batches->start_epoch(0));
  for (int64_t i = 0; i < kBatches; ++i) EXPECT_TRUE(must(batches->next()));
  EXPECT_EQ(other.service().stats().batches, 0);
}

TEST(Holders, SaysWhyAServerOfAnotherJobOrKeyIsNone) {
  const rpc::Key key = must(rpc::Key::draw());
  const auto directory = std::make_shared<Directory>();
  const TestServer other_key({.server = 0}, must(rpc::Key::draw()), maker());
  directory->update({other_key.live()});
  const ClientEnds without_key(key, directory);
  const auto refused = without_key.holders->open();
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      refused.error().message, AllOf(HasSubstr("another data key"), HasSubstr(other_key.name()))
  );

  // Nobody has proved that: beside one of ours it is not asked, and that is all. Nor is one that lives and
  // does not say what it serves.
  const TestServer ours({.server = 1}, key, maker());
  directory->update({other_key.live(), ours.live()});
  const ClientEnds beside(key, directory);
  EXPECT_EQ(must(beside.holders->open()), "papers");
  // One that is not ready makes no batches yet.
  const TestServer loading({.server = 2}, key, nullptr);
  directory->update({ours.live(), loading.live()});
  const auto batches = beside.batches();
  must(batches->start_epoch(0));
  for (int64_t i = 0; i < kBatches; ++i) EXPECT_TRUE(must(batches->next()));
  EXPECT_EQ(loading.service().stats().queue_length, 0);
  rpc::RawListener listener;
  std::promise<void> opened;
  std::thread mute([&, end = opened.get_future()] {
    rpc::RawPeer peer = listener.accept();
    peer.welcome({.job_uid = kJob, .role = rpc::Role::Server, .node = 0}, key);
    try {
      while (end.wait_for(kPeerTimeout / 10) == std::future_status::timeout)
        peer.send({.type = rpc::FrameType::Heartbeat});
    } catch (const std::runtime_error&) {
      // The other end has closed the connection.
    }
  });
  const auto with_mute = std::make_shared<Directory>();
  with_mute->update(
      {{.server = 0, .restart = 2, .address = "127.0.0.1:" + std::to_string(listener.port())},
       ours.live()}
  );
  {
    const ClientEnds patient(key, with_mute);
    EXPECT_EQ(must(patient.holders->open()), "papers");
  }
  opened.set_value();
  mute.join();

  // An address may have gone to another job: it is waited for its replacement.
  const TestServer other_job({.server = 0, .job = "0000"}, key, maker());
  const TestServer replacement({.server = 0, .restart = 1}, key, maker());
  const TestServer other_key_too({.server = 1}, must(rpc::Key::draw()), maker());
  directory->update({other_job.live(), other_key_too.live()});
  const ClientEnds of_another(key, directory, 1, std::chrono::seconds(1));
  const auto lost = of_another.holders->open();
  EXPECT_EQ(lost.error().kind, ErrorKind::PeerLost);
  EXPECT_THAT(
      lost.error().message,
      AllOf(
          HasSubstr("no server held part 0 for 1 s"),
          HasSubstr(other_job.name()),
          HasSubstr("serves another job"),
          HasSubstr("runPolicy.serverTimeoutSeconds")
      )
  );
  directory->update({other_job.live(), replacement.live()});
  const ClientEnds client(key, directory);
  EXPECT_TRUE(client.holders->open());
}

}  // namespace
}  // namespace gnn::servers
