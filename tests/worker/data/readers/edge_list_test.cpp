#include "worker/data/readers/edge_list.h"

#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gnn::data {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::ReaderTest;
using testing::to_vector;

class EdgeList : public ReaderTest {
 protected:
  Result<DatasetArrays> read(const ReadOptions& options = {}) {
    return read_edge_list(folder_.path("plain"), options, memory_, silent_);
  }
  std::string error() {
    const auto dataset = read();
    return dataset ? "" : dataset.error().message;
  }
};

TEST_F(EdgeList, ReadsCsvAndBothShapesOfNpy) {
  folder_.write("plain/labels.csv", "0\n1\n1\n");
  folder_.write("plain/features.npy", npy_bytes("<f4", "(3, 1)", bytes_of<float>({1, 2, 3})));
  folder_.write("plain/train.npy", npy_bytes("<i8", "(1,)", bytes_of<int64_t>({2})));
  const auto check = [&] {
    const auto dataset = read();
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[0].indptr), ElementsAre(0, 0, 1, 3));
    EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(0, 0, 1));
    EXPECT_THAT(to_vector<int64_t>(dataset->train), ElementsAre(2));
    EXPECT_EQ(dataset->validation.num_elements(), 0);
    EXPECT_EQ(dataset->num_classes, 2);
  };
  folder_.write("plain/edges.csv", "0,1\n1,2\n0,2\n");
  check();
  folder_.write(
      "plain/edges.npy", npy_bytes("<i4", "(2, 3)", bytes_of<int32_t>({0, 1, 0, 1, 2, 2}))
  );
  check();
  folder_.write(
      "plain/edges.npy", npy_bytes("<i8", "(3, 2)", bytes_of<int64_t>({0, 1, 1, 2, 0, 2}))
  );
  check();
}

TEST_F(EdgeList, ReportsMissingAndImplausibleFiles) {
  EXPECT_THAT(read().error().message, HasSubstr("expected edges.npy, edges.csv.gz or edges.csv"));
  folder_.write("plain/edges.csv", "0,1\n1,2\n");
  EXPECT_THAT(read().error().message, HasSubstr("the split is missing"));
  folder_.write("plain/train.csv", "0\n");
  EXPECT_EQ(read()->node_tables[0].num_nodes, 3);
  folder_.write("plain/edges.csv", "0,1\n1,2000000000\n");
  EXPECT_THAT(read().error().message, HasSubstr("the largest id, 2000000000, is implausible"));
  folder_.write("plain/edges.csv", "0,1\n");
  folder_.write("plain/labels.csv", "0\n0\n1\n");
  folder_.write("plain/features.npy", npy_bytes("<f4", "(2, 1)", bytes_of<float>({1, 2})));
  EXPECT_THAT(
      read().error().message, HasSubstr("expected 2 labels as there are feature rows, found 3")
  );
}

TEST_F(EdgeList, CountsTheNodesOfNpyEdgesWithoutLabelsAndFeatures) {
  folder_.write("plain/train.csv", "0\n");
  folder_.write(
      "plain/edges.npy", npy_bytes("<i8", "(3, 2)", bytes_of<int64_t>({0, 1, 4, 2, 0, 2}))
  );
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 5);
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(0, 0, 4));
  folder_.write(
      "plain/edges.npy", npy_bytes("<i8", "(2, 2)", bytes_of<int64_t>({0, 1, INT64_MAX, 2}))
  );
  EXPECT_THAT(error(), HasSubstr("the largest id, 9223372036854775807, is implausible"));
}

TEST_F(EdgeList, NamesTheNpyEdgeThatIsOutOfRange) {
  folder_.write("plain/train.csv", "0\n");
  folder_.write("plain/labels.csv", "0\n1\n");
  folder_.write("plain/edges.npy", npy_bytes("<i4", "(2, 2)", bytes_of<int32_t>({0, 1, 1, 2})));
  EXPECT_THAT(error(), HasSubstr("edges.npy: edge 1: expected node ids in [0, 2), found 1,2"));
  folder_.write("plain/edges.npy", npy_bytes("<i4", "(4,)", bytes_of<int32_t>({0, 1, 1, 0})));
  EXPECT_THAT(error(), HasSubstr("edges.npy: expected edges of shape [2, E] or [E, 2], found [4]"));
}

TEST_F(EdgeList, RefusesFeaturesWithoutRowsWhateverTheirWidth) {
  folder_.write("plain/edges.csv", "0,1\n");
  folder_.write("plain/train.csv", "0\n");
  folder_.write("plain/features.npy", npy_bytes("<f4", "(0, 4611686018427387904)", ""));
  EXPECT_THAT(
      error(),
      HasSubstr("features.npy: expected features of shape [nodes, width], both above 0, in C order")
  );
}

TEST_F(EdgeList, NamesFilePartAndIdOfABadSplit) {
  folder_.write("plain/edges.csv", "0,1\n1,2\n2,3\n");
  folder_.write("plain/train.csv", "0\n1\n");
  folder_.write("plain/validation.npy", npy_bytes("<i8", "(2,)", bytes_of<int64_t>({3, 1})));
  EXPECT_THAT(
      error(),
      HasSubstr(
          "plain/validation.npy: validation[1]: id 1 is in validation and in train (" +
          folder_.path("plain/train.csv") + ")"
      )
  );
  const auto overlapping = read();
  ASSERT_FALSE(overlapping);
  EXPECT_EQ(overlapping.error().kind, ErrorKind::Data);
  folder_.write("plain/validation.npy", npy_bytes("<i8", "(2,)", bytes_of<int64_t>({3, 3})));
  EXPECT_THAT(error(), HasSubstr("validation.npy: validation[1]: id 3 occurs twice in validation"));
  folder_.write("plain/validation.npy", npy_bytes("<i8", "(2,)", bytes_of<int64_t>({3, 4})));
  EXPECT_THAT(
      error(), HasSubstr("validation.npy: validation[1]: expected an id in [0, 4), found 4")
  );
  folder_.write("plain/validation.npy", npy_bytes("<i8", "(1,)", bytes_of<int64_t>({3})));
  folder_.write("plain/train.csv", "");
  EXPECT_THAT(error(), HasSubstr("train.csv: train: expected at least one id, found none"));
}

}  // namespace
}  // namespace gnn::data
