#include "worker/app/private_file.h"

#include "tests/support/read_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace gnn::app {
namespace {

TEST(PrivateFile, IsReadableByItsUserAloneAndGoesWithItsOwner) {
  std::string path;
  {
    PrivateFile made = PrivateFile::create("gnn-test-key", "secret\n").value();
    const PrivateFile file = std::move(made);
    path = file.path();
    EXPECT_EQ(testing::read_file(path), "secret\n");
    struct stat status = {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace gnn::app
