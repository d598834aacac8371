#include "worker/checkpoint/durable_file.h"

#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"
#include "worker/checkpoint/file_ops.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string_view>

namespace gnn::checkpoint {
namespace {

namespace fs = std::filesystem;

class InFolder {
 public:
  explicit InFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~InFolder() { fs::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  fs::path before_;
};

TEST(DurableFile, ReplacesAFileOfTheWorkingFolderByItsNameAlone) {
  const testing::TemporaryFolder folder;
  const InFolder here(folder.path());
  PosixFileOps files;
  for (const std::string_view content : {"first", "second"}) {
    const Status status =
        replace_file(files, "page.html", std::array<std::string_view, 1>{content});
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(testing::must(files.read(folder.path("page.html"), 100)), content);
  }
}

}  // namespace
}  // namespace gnn::checkpoint
