#include "common/text_file.h"

#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

namespace gnn {
namespace {

using ::testing::EndsWith;
using testing::TemporaryFolder;

constexpr size_t kLimit = size_t{1} << 20U;

TEST(TextFile, IsReadUpToTheLimit) {
  const TemporaryFolder folder;
  const std::string most(kLimit, 'a');
  EXPECT_EQ(read_text_file(folder.write("most", most), kLimit), most);
  EXPECT_EQ(read_text_file(folder.write("none", ""), kLimit), "");
}

TEST(TextFile, ThatIsLargerIsNotRead) {
  const TemporaryFolder folder;
  const std::string large = folder.write("large", "");
  std::filesystem::resize_file(large, uint64_t{1} << 40U);
  for (const std::string& endless : {large, std::string("/dev/zero")}) {
    const auto read = read_text_file(endless, kLimit);
    ASSERT_FALSE(read) << endless;
    EXPECT_EQ(read.error().message, endless + ": larger than the limit of 1 MiB");
  }
}

TEST(TextFile, ThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      read_text_file(folder.path("none"), kLimit).error().message,
      folder.path("none") + ": No such file or directory"
  );
  EXPECT_THAT(read_text_file(folder.path(), kLimit).error().message, EndsWith(": cannot be read"));
}

TEST(TextFile, MayBeAStream) {
  std::istringstream stream("text");
  EXPECT_EQ(read_text(stream, "standard input", kLimit), "text");
}

}  // namespace
}  // namespace gnn
