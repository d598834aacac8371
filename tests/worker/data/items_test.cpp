#include "worker/data/items.h"

#include "worker/data/array.h"
#include "worker/data/readers/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::HasSubstr;

class Items : public ::testing::Test {
 protected:
  Array ids(const std::string& name, const std::vector<int64_t>& values) {
    return *store_ids(memory_, name, values);
  }
  // Four nodes of two classes, the last without a label.
  DatasetArrays nodes() {
    DatasetArrays dataset;
    dataset.target_node_type = "node";
    dataset.num_classes = 2;
    dataset.node_tables.push_back(
        {.name = "node", .num_nodes = 4, .features = {}, .labels = ids(kLabelsName, {0, 1, 1, -1})}
    );
    dataset.train = ids(kTrainName, {2, 0});
    dataset.validation = ids(kValidationName, {1});
    dataset.test = ids(kTestName, {});
    return dataset;
  }
  // The error that a change to them causes.
  std::string breach(const std::function<void(DatasetArrays&)>& change) {
    DatasetArrays dataset = nodes();
    change(dataset);
    const Status status = check_items(dataset, "here");
    EXPECT_TRUE(status || status.error().kind == ErrorKind::Data);
    return status ? "" : status.error().message;
  }
  MemoryStorage memory_;
};

TEST_F(Items, AcceptsAValidSplitAndNone) {
  EXPECT_EQ(breach([](DatasetArrays&) {}), "");
  EXPECT_EQ(breach([](DatasetArrays& d) { d.train = d.validation = d.test = Array(); }), "");
  EXPECT_EQ(breach([](DatasetArrays& d) { d.node_tables[0].labels = Array(); }), "");
}

TEST_F(Items, RefusesPartsThatOverlap) {
  EXPECT_EQ(
      breach([&](DatasetArrays& d) { d.validation = ids(kValidationName, {1, 0, 2}); }),
      "here: validation[1]: id 0 is in validation and in train (here); leave it in one part"
  );
  EXPECT_EQ(
      breach([&](DatasetArrays& d) { d.test = ids(kTestName, {1}); }),
      "here: test[0]: id 1 is in test and in validation (here); leave it in one part"
  );
}

TEST_F(Items, RefusesIdsThatAreRepeatedOutOfRangeOrWithoutALabel) {
  const auto with_train = [&](std::vector<int64_t> values) {
    return breach([&](DatasetArrays& d) { d.train = ids(kTrainName, values); });
  };
  EXPECT_EQ(with_train({2, 0, 2}), "here: train[2]: id 2 occurs twice in train");
  EXPECT_EQ(with_train({0, 4}), "here: train[1]: expected an id in [0, 4), found 4");
  EXPECT_EQ(with_train({0, -1}), "here: train[1]: expected an id in [0, 4), found -1");
  EXPECT_EQ(with_train({0, 3}), "here: train[1]: id 3 has no label");
}

TEST_F(Items, RefusesASplitWithoutIdsToTrainOn) {
  EXPECT_EQ(
      breach([&](DatasetArrays& d) { d.train = ids(kTrainName, {}); }),
      "here: train: expected at least one id, found none"
  );
}

TEST_F(Items, RefusesLabelsOutsideTheClasses) {
  EXPECT_EQ(
      breach([&](DatasetArrays& d) { d.node_tables[0].labels = ids(kLabelsName, {0, 2, 1, 1}); }),
      "here: labels[1]: expected a class in [0, 2) or -1 for none, found 2"
  );
  EXPECT_THAT(
      breach([&](DatasetArrays& d) { d.node_tables[0].labels = ids(kLabelsName, {0, 1, 1, -2}); }),
      HasSubstr("labels[3]: expected a class in [0, 2) or -1 for none, found -2")
  );
  // The items of a set of graphs are graphs: every one has a label, and nodes' labels are input.
  const auto graphs = [&](std::vector<int64_t> labels) {
    return [&, labels](DatasetArrays& d) {
      d.node_tables[0].labels = ids(kLabelsName, {0, 7, 0, 0});
      d.graph_labels = ids("graphs.labels", labels);
    };
  };
  EXPECT_EQ(breach(graphs({0, 1, 1})), "");
  EXPECT_EQ(
      breach(graphs({0, -1, 1})), "here: graph labels[1]: expected a class in [0, 2), found -1"
  );
  EXPECT_EQ(breach(graphs({0, 1})), "here: train[0]: expected an id in [0, 2), found 2");
}

TEST_F(Items, NamesTheFilesThatArraysWereReadFrom) {
  const auto read_from = [&](DatasetArrays& d) {
    d.read_from = {{kLabelsName, "/d/labels"}, {kTrainName, "/d/a"}, {kValidationName, "/d/b"}};
  };
  EXPECT_EQ(
      breach([&](DatasetArrays& d) {
        read_from(d);
        d.validation = ids(kValidationName, {2});
      }),
      "/d/b: validation[0]: id 2 is in validation and in train (/d/a); leave it in one part"
  );
  EXPECT_THAT(
      breach([&](DatasetArrays& d) {
        read_from(d);
        d.num_classes = 1;
      }),
      HasSubstr("/d/labels: labels[1]: expected")
  );
}

}  // namespace
}  // namespace gnn::data
