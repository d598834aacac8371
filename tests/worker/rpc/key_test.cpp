#include "worker/rpc/key.h"

#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace gnn::rpc {
namespace {

using testing::must;

TEST(Key, IsReadFromItsFileAndNeverShown) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("data.key");

  const Key key = must(Key::draw());
  EXPECT_NE(key.to_hex(), must(Key::draw()).to_hex());
  for (const char* end : {"", "\n", "\r\n"}) {
    folder.write("data.key", key.to_hex() + end);
    EXPECT_EQ(must(Key::read_file(path)).bytes(), key.bytes());
  }

  const std::string hex = key.to_hex();
  for (const std::string& wrong :
       {std::string(),
        hex.substr(1),
        hex + "0",
        hex + std::string(100'000, 'a'),
        "g" + hex.substr(1)}) {
    folder.write("data.key", wrong);
    const auto read = Key::read_file(path);
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().kind, ErrorKind::Configuration);
    EXPECT_EQ(read.error().message, path + ": expected a data key of 64 hexadecimal digits");
  }
  EXPECT_EQ(Key::read_file(path + "x").error().kind, ErrorKind::Configuration);
}

}  // namespace
}  // namespace gnn::rpc
