#include "worker/tracking/event_file.h"

#include "tests/support/must.h"
#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "worker/tracking/event_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace gnn::tracking {
namespace {

using ::testing::HasSubstr;

constexpr TimePoint kNow{std::chrono::seconds(1'700'000'000)};

Record loss_at(int64_t step) {
  return {.step = step, .time = kNow, .scalars = {{"step/loss", 0.5}}};
}

std::unique_ptr<EventFile> create(
    const gnn::testing::TemporaryFolder& folder, int64_t attempt, int64_t round
) {
  return gnn::testing::must(EventFile::create(
      folder.path("runs"), "arxiv", {.job_uid = "../6f0c", .attempt = attempt, .round = round}, kNow
  ));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(EventFile, SortsByAttemptAndRoundInAFolderOfTheJobOrNamesWhatCannotBeWritten) {
  const gnn::testing::TemporaryFolder folder;
  create(folder, 10, 0);
  create(folder, 2, 1);
  create(folder, 2, 0);
  create(folder, 2, 0);
  EXPECT_THAT(
      names_in(folder.path("runs/arxiv-___6f0c")),
      ::testing::ElementsAre(
          "events.out.tfevents.a000002-r0000",
          "events.out.tfevents.a000002-r0000.10001",
          "events.out.tfevents.a000002-r0001",
          "events.out.tfevents.a000010-r0000"
      )
  );

  const std::string file = folder.write("file", "x");
  const auto created = EventFile::create(file, "arxiv", {.job_uid = "6f0c"}, kNow);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(created.error().message, HasSubstr(file));
}

// Below a limit on the size of files, in place of a disk that is full.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
};

TEST(EventFile, HoldsWholeEventsAloneAfterAFullDisk) {
  const gnn::testing::TemporaryFolder folder;
  const auto file = create(folder, 1, 0);
  const std::string path = folder.path("runs/arxiv-___6f0c/events.out.tfevents.a000001-r0000");
  const std::string before = gnn::testing::read_file(path);
  const std::array records{loss_at(1)};
  {
    const SmallDisk disk(before.size() + 10);
    const Status written = file->write(records, {});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::Io);
    EXPECT_THAT(written.error().message, HasSubstr(path));
  }
  EXPECT_EQ(gnn::testing::read_file(path), before);
  EXPECT_TRUE(file->write(records, {}));
  EXPECT_EQ(gnn::testing::read_file(path), before + frame(encode_event(records[0])));
}

}  // namespace
}  // namespace gnn::tracking
