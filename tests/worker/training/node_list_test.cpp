#include "worker/training/node_list.h"

#include "tests/support/temporary_folder.h"
#include "tests/worker/data/files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::training {
namespace {

using data::testing::bytes_of;
using data::testing::npy_bytes;
using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;

std::string list_of(const std::vector<int64_t>& ids) {
  return npy_bytes("<i8", "(" + std::to_string(ids.size()) + ",)", bytes_of(ids));
}

TEST(NodeList, IsAscendingInWhateverOrderTheFileHasIt) {
  const TemporaryFolder folder;
  const auto read = read_node_list(folder.write("nodes.npy", list_of({7, 0, 9, 3})), 10);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(at::equal(*read, torch::tensor({0, 3, 7, 9}, at::kLong)));
}

TEST(NodeList, NamesFileAndPlaceOfWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string three = bytes_of(std::vector<int64_t>{1, 2, 3});
  std::vector<int64_t> far(70'000);
  for (size_t i = 0; i < far.size(); ++i) far[i] = static_cast<int64_t>(i);
  far[69'999] = 5;
  struct Case {
    std::string file;
    std::string message;
    int64_t nodes = 10;
  };
  for (const Case& each : std::vector<Case>{
           {list_of({1, 10}), "element 1: node 10 is none of the graph's"},
           {list_of({-1}), "element 0: node -1 is none of the graph's"},
           {list_of({4, 2, 4}), "element 2: node 4 stands there twice"},
           {list_of(far), "element 69999: node 5 stands there twice", 80'000},
           {list_of({}), "found none"},
           {list_of(far), "found 70000 ids of a graph of 10 nodes"},
           {npy_bytes("<i4", "(3,)", three.substr(0, 12)), "found int32 [3]"},
           {npy_bytes("<f8", "(3,)", three), "found float64 [3]"},
           {npy_bytes("<i8", "(3, 1)", three), "found int64 [3, 1]"},
           {npy_bytes("<i8", "(3,)", three.substr(0, 20)), "expected 24 bytes"},
           {npy_bytes("<i8", "(2,)", three), "has bytes after its last element"},
           {"id,of,node\n1\n2\n", "expected a .npy file"},
       }) {
    const std::string path = folder.write("nodes.npy", each.file);
    const auto read = read_node_list(path, each.nodes);
    ASSERT_FALSE(read) << each.message;
    EXPECT_EQ(read.error().kind, ErrorKind::Data) << read.error().message;
    EXPECT_THAT(read.error().message, HasSubstr(path));
    EXPECT_THAT(read.error().message, HasSubstr(each.message));
  }
}

}  // namespace
}  // namespace gnn::training
