#include "worker/data/readers/tu.h"

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

class Tu : public ReaderTest {
 protected:
  void write() {
    folder_.write("SET/SET_A.txt", edges_);
    folder_.write("SET/SET_graph_indicator.txt", indicator_);
    folder_.write("SET/SET_graph_labels.txt", labels_);
  }
  Result<DatasetArrays> read() {
    write();
    return read_tu(folder_.path("SET"), {}, memory_, silent_);
  }
  std::string error() {
    const auto dataset = read();
    return dataset ? "" : dataset.error().message;
  }
  std::string edges_ = "1, 2\n2, 1\n3, 4\n4, 3\n4, 5\n5, 4\n";
  std::string indicator_ = "1\n1\n2\n2\n2\n";
  std::string labels_ = "1\n-1\n";
};

TEST_F(Tu, ReadsGraphsAndRanksLabels) {
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->name, "SET");
  EXPECT_EQ(dataset->num_classes, 2);
  EXPECT_THAT(to_vector<int64_t>(dataset->graph_offsets), ElementsAre(0, 2, 5));
  EXPECT_THAT(to_vector<int64_t>(dataset->graph_labels), ElementsAre(1, 0));
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(1, 0, 3, 2, 4, 3));
  EXPECT_FALSE(dataset->node_tables[0].features.defined());
  EXPECT_FALSE(dataset->train.defined());
}

TEST_F(Tu, PutsAttributesBeforeOneHotLabels) {
  folder_.write("SET/SET_node_labels.txt", "7\n3\n3\n7\n7\n");
  folder_.write("SET/SET_node_attributes.txt", "0.5\n1.5\n2.5\n3.5\n4.5\n");
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_THAT(
      to_vector<float>(dataset->node_tables[0].features),
      ElementsAre(.5F, 0, 1, 1.5F, 1, 0, 2.5F, 1, 0, 3.5F, 0, 1, 4.5F, 0, 1)
  );
}

TEST_F(Tu, NamesFileAndLineOfBadInput) {
  indicator_ = "1\n1\n3\n2\n2\n";
  EXPECT_THAT(
      read().error().message,
      HasSubstr("SET_graph_indicator.txt: line 3: expected graph 1 or the next of 2, found 3")
  );
  indicator_ = "1\n1\n1\n1\n1\n";
  EXPECT_THAT(read().error().message, HasSubstr("expected nodes of 2 graphs, found 1"));
  indicator_ = "1\n1\n2\n2\n2\n";
  edges_ = "1, 2\n6, 1\n";
  EXPECT_THAT(
      read().error().message,
      HasSubstr("SET_A.txt (ids from 0): line 2: expected node ids in [0, 5), found 5,0")
  );
  std::filesystem::remove(folder_.path("SET/SET_A.txt"));
  EXPECT_EQ(read_tu(folder_.path("SET"), {}, memory_, silent_).error().kind, ErrorKind::NotFound);
}

TEST_F(Tu, RefusesLabelFilesWithSeveralColumns) {
  folder_.write("SET/SET_node_labels.txt", "7\n3, 1\n3\n7\n7\n");
  EXPECT_THAT(
      error(), HasSubstr("SET_node_labels.txt: line 2: expected one label, found 2 values")
  );
  std::filesystem::remove(folder_.path("SET/SET_node_labels.txt"));
  labels_ = "1, 0\n-1, 0\n";
  EXPECT_THAT(
      error(), HasSubstr("SET_graph_labels.txt: line 1: expected one label, found 2 values")
  );
}

TEST_F(Tu, RefusesMoreRowsOfAttributesThanNodes) {
  folder_.write("SET/SET_node_attributes.txt", "0.5\n1.5\n2.5\n3.5\n4.5\n\n5.5\n");
  const auto dataset = read();
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::Data);
  EXPECT_THAT(
      dataset.error().message,
      HasSubstr("SET_node_attributes.txt: line 7: more rows than the 5 nodes")
  );
}

}  // namespace
}  // namespace gnn::data
