#include "worker/data/readers/gin.h"

#include "tests/support/mutations.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReaderTest;
using testing::to_vector;

class Gin : public ReaderTest {
 protected:
  Result<DatasetArrays> read(const std::string& text) {
    return read_gin(folder_.write("G/G.txt", text), {}, memory_, silent_);
  }
};

TEST_F(Gin, ReadsTagsDegreesAndNeighbours) {
  const auto dataset = read("2\n2 5\n0 1 1\n9 1 0\n3 4\n9 2 1 2\n0 1 0\n0 1 0\n");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->name, "G");
  EXPECT_THAT(to_vector<int64_t>(dataset->graph_offsets), ElementsAre(0, 2, 5));
  EXPECT_THAT(
      to_vector<int64_t>(dataset->graph_labels), ElementsAre(0, 1)
  );  // by first sight: 5, 4
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[0].indptr), ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(1, 0, 3, 4, 2, 2));
  EXPECT_THAT(
      to_vector<float>(dataset->node_tables[0].features), ElementsAre(1, 0, 0, 1, 0, 1, 1, 0, 1, 0)
  );
}

TEST_F(Gin, SurvivesMutations) {
  gnn::testing::Mutations mutations(19);
  int failed = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(1000); ++round) {
    const auto dataset = read(mutations.of("2\n2 5\n0 1 1\n9 1 0\n3 4\n9 2 1 2\n0 1 0\n0 1 0\n"));
    if (dataset) continue;
    ++failed;
    EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
  }
  EXPECT_GT(failed, 100);
}

TEST_F(Gin, PrefersAttributesToTags) {
  const auto dataset = read("1\n2 0\n0 1 1 0.5 2\n0 1 0 -1 3.25\n");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_THAT(to_vector<float>(dataset->node_tables[0].features), ElementsAre(.5F, 2, -1, 3.25F));
}

TEST_F(Gin, NamesTheLineOfBadInput) {
  EXPECT_THAT(
      read("1\n2 0\n0 1 1\n").error().message,
      HasSubstr("the file ends, expected node 1 of graph 0")
  );
  EXPECT_THAT(
      read("1\n1 0\n0 2 0\n").error().message,
      HasSubstr("line 3: expected \"tag degree neighbour…\"")
  );
  EXPECT_THAT(
      read("1\n1 0\n0 1 1\n").error().message,
      HasSubstr("line 3: neighbour 0: expected a node in [0, 1), found 1")
  );
  EXPECT_THAT(
      read("1\n1 0\n0 0\n7 7\n").error().message,
      HasSubstr("line 4: text after the last of 1 graphs")
  );
  EXPECT_THAT(read("0\n").error().message, HasSubstr("line 1: expected at least one graph"));
  EXPECT_THAT(
      read("1\n0 1\n").error().message, HasSubstr("line 2: graph 0: expected at least one node")
  );
  EXPECT_THAT(read("").error().message, HasSubstr("expected the number of graphs"));
}

}  // namespace
}  // namespace gnn::data
