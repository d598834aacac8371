#include "worker/data/readers/typed_edge_list.h"

#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"
#include "tests/worker/data/shop.h"
#include "worker/data/links.h"
#include "worker/data/native.h"
#include "worker/data/readers/edge_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace gnn::data {
namespace {

using gnn::testing::mutation_rounds;
using gnn::testing::Mutations;
using gnn::testing::read_file;
using testing::bytes_of;
using ::testing::ElementsAre;
using testing::ends_of;
using testing::gzip;
using ::testing::HasSubstr;
using testing::npy_bytes;
using ::testing::Pair;
using testing::ReaderTest;
using testing::to_vector;

class TypedEdgeList : public ReaderTest {
 protected:
  // Three users buy two items, which are alike.
  void SetUp() override {
    files_ = {
        {"nodes/user/num_nodes.csv", "3\n"},
        {"nodes/item/features.npy", npy_bytes("<f4", "(2, 1)", bytes_of<float>({1, 3}))},
        {"nodes/item/features.image.csv", "1,2,3\n4,5,6\n"},
        {"edges/user__buys__item.csv", "2,0\n0,1\n1,0\n2,1\n"},
        {"edges/item__like__item.csv", "0,1\n"},
    };
  }
  Result<DatasetArrays> read(ReadOptions options = {}) {
    options.split_required = false;
    std::filesystem::remove_all(folder_.path("shop"));
    for (const auto& [path, content] : files_) folder_.write("shop/" + path, content);
    return read_edge_list(folder_.path("shop"), options, memory_, silent_);
  }
  // The error of reading after a change to one file.
  std::string error_with(const std::string& path, const std::string& content) {
    const auto before = files_;
    files_[path] = content;
    const auto dataset = read();
    files_ = before;
    return dataset ? "" : dataset.error().message;
  }
  std::string error_without(const std::string& path) {
    const auto before = files_;
    files_.erase(path);
    const auto dataset = read();
    files_ = before;
    return dataset ? "" : dataset.error().message;
  }
  static ReadOptions linked() {
    ReadOptions options;
    options.link = {.source = "user", .relation = "buys", .destination = "item"};
    return options;
  }

  std::map<std::string, std::string> files_;
};

TEST_F(TypedEdgeList, ReadsTypesMatricesAndEdges) {
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->name, "shop");
  ASSERT_EQ(dataset->node_tables.size(), 2U);
  const NodeTable& items = dataset->node_tables[0];
  EXPECT_EQ(items.name, "item");
  EXPECT_EQ(items.num_nodes, 2);
  EXPECT_THAT(to_vector<float>(items.features), ElementsAre(1, 3));
  EXPECT_EQ(items.features_name, "features");
  ASSERT_EQ(items.more_features.size(), 1U);
  EXPECT_EQ(items.more_features[0].name, "image");
  EXPECT_EQ(items.more_features[0].rows.name(), "nodes.item.features.image");
  EXPECT_THAT(to_vector<float>(items.more_features[0].rows), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(dataset->node_tables[1].name, "user");
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 3);
  ASSERT_EQ(dataset->edge_tables.size(), 2U);
  EXPECT_EQ(text_of(name_of(dataset->edge_tables[0])), "(item, like, item)");
  EXPECT_EQ(dataset->edge_tables[1].indices.name(), "edges.user.buys.item.indices");
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[1].indptr), ElementsAre(0, 2, 4));
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[1].indices), ElementsAre(1, 2, 0, 2));
  EXPECT_FALSE(dataset->edge_tables[1].edge_ids.defined());
  EXPECT_EQ(dataset->target_node_type, "item");
}

TEST_F(TypedEdgeList, ReadsEdgesInAnyForm) {
  const auto check = [&](const std::string& path, const std::string& content) {
    files_.erase("edges/user__buys__item.csv");
    files_[path] = content;
    const auto dataset = read(linked());
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_THAT(
        ends_of(dataset->edge_tables[1]),
        ElementsAre(Pair(0, "2-0"), Pair(1, "0-1"), Pair(2, "1-0"), Pair(3, "2-1"))
    );
    files_.erase(path);
  };
  check("edges/user__buys__item.csv.gz", gzip("2,0\n0,1\n1,0\n2,1\n"));
  check(
      "edges/user__buys__item.npy",
      npy_bytes("<i4", "(2, 4)", bytes_of<int32_t>({2, 0, 1, 2, 0, 1, 0, 1}))
  );
  check(
      "edges/user__buys__item.npy",
      npy_bytes("<i8", "(4, 2)", bytes_of<int64_t>({2, 0, 0, 1, 1, 0, 2, 1}))
  );
}

TEST_F(TypedEdgeList, LinksKeepTheOrderOfTheFile) {
  const auto dataset = read(linked());
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto links = set_links(*dataset, *linked().link, memory_, silent_);
  ASSERT_TRUE(links) << links.error().message;
  EXPECT_THAT(to_vector<int64_t>(links->links->pairs), ElementsAre(2, 0, 0, 1, 1, 0, 2, 1));
}

TEST_F(TypedEdgeList, TakesTypesAndCountsFromEdgesAlone) {
  std::erase_if(files_, [](const auto& file) { return file.first.starts_with("nodes/"); });
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->node_tables.size(), 2U);
  EXPECT_EQ(dataset->node_tables[0].name, "item");
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 2);
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 3);
  files_["edges/user__buys__item.csv"] = "0,1\n1,2000000000\n";
  EXPECT_THAT(
      read().error().message,
      HasSubstr("nodes/item: the largest id in the edges, 2000000000, is implausible")
  );
}

TEST_F(TypedEdgeList, TheTypeWithLabelsIsTheTarget) {
  files_["nodes/user/labels.csv"] = "0\n-1\n1\n";
  files_["nodes/user/train.csv"] = "0\n2\n";
  const auto dataset = read();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->target_node_type, "user");
  EXPECT_EQ(dataset->num_classes, 2);
  EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[1].labels), ElementsAre(0, -1, 1));
  EXPECT_THAT(to_vector<int64_t>(dataset->train), ElementsAre(0, 2));
  EXPECT_THAT(
      error_with("nodes/item/labels.csv", "0\n1\n"), HasSubstr("has labels or a split, as ")
  );
  EXPECT_THAT(
      error_with("nodes/user/train.csv", "3\n"), HasSubstr("expected an id in [0, 3), found 3")
  );
}

TEST_F(TypedEdgeList, AppliesTransformsToEdgesOfATypeThatTheyFit) {
  files_["edges/user__buys__item.csv"] = "2,0\n0,1\n2,0\n";
  ReadOptions options;
  options.to_undirected = true;
  options.coalesce = true;
  const auto dataset = read(options);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 2);
  EXPECT_EQ(dataset->edge_tables[1].indices.num_elements(), 2);
  options.self_loops = SelfLoops::Remove;
  EXPECT_THAT(read(options).error().message, HasSubstr("addSelfLoops: needs"));
  options.self_loops = SelfLoops::Keep;
  files_.erase("edges/item__like__item.csv");
  EXPECT_THAT(read(options).error().message, HasSubstr("toUndirected: no edge type joins nodes"));
}

TEST_F(TypedEdgeList, ChangesTheSelfLoopsOfASingleType) {
  files_ = {{"edges/item__like__item.csv", "0,1\n1,1\n"}};
  const auto sources = [this](SelfLoops self_loops) {
    ReadOptions options;
    options.self_loops = self_loops;
    return to_vector<int32_t>(read(options)->edge_tables[0].indices);
  };
  EXPECT_THAT(sources(SelfLoops::Keep), ElementsAre(0, 1));
  EXPECT_THAT(sources(SelfLoops::Remove), ElementsAre(0));
  EXPECT_THAT(sources(SelfLoops::AddRemaining), ElementsAre(0, 0, 1));
}

TEST_F(TypedEdgeList, NamesTheFileThatIsWrong) {
  const std::string folder = folder_.path("shop");
  EXPECT_EQ(
      error_with("edges/user__buys__item.npy", ""),
      folder + "/edges/user__buys__item.npy: edge type (user, buys, item) is also in " + folder +
          "/edges/user__buys__item.csv; keep one of them"
  );
  EXPECT_EQ(
      error_with("edges/user__sees__shelf.csv", "0,0\n"),
      folder + "/edges/user__sees__shelf.csv: no node type 'shelf'; expected the folder " + folder +
          "/nodes/shelf"
  );
  EXPECT_THAT(
      error_with("edges/user_buys_item.csv", "0,0\n"),
      HasSubstr("user_buys_item.csv: expected SOURCE__RELATION__DESTINATION")
  );
  EXPECT_THAT(
      error_with("nodes/item/feature.npy", ""),
      HasSubstr("feature.npy: expected num_nodes, features")
  );
  EXPECT_THAT(error_with("nodes/item/features.csv", "1\n2\n"), HasSubstr("features is also in "));
  EXPECT_THAT(
      error_with("nodes/item/num_nodes.csv", "3\n"),
      HasSubstr("features.npy: is of 2 nodes, " + folder + "/nodes/item/num_nodes.csv of 3")
  );
  EXPECT_THAT(
      error_with("nodes/user/num_nodes.csv", "0\n"),
      HasSubstr("num_nodes.csv: expected at least one node of type 'user', found 0")
  );
  EXPECT_THAT(
      error_with("nodes/user/num_nodes.csv", "999999999999\n"),
      HasSubstr("num_nodes.csv: 999999999999 nodes are implausible for 20 bytes of edges")
  );
  EXPECT_THAT(
      error_with("nodes/shelf/features.npy", npy_bytes("<f4", "(0, 4)", "")),
      HasSubstr("shelf/features.npy: expected features of shape [nodes, width], both above 0")
  );
  EXPECT_THAT(
      error_with("nodes/shelf/readme.txt", "x"),
      HasSubstr("nodes/shelf: nothing says how many nodes there are")
  );
  EXPECT_THAT(error_with("edges.csv", "0,1\n"), HasSubstr("edges.csv: beside a folder nodes or"));
  files_.erase("edges/item__like__item.csv");
  EXPECT_THAT(
      error_without("edges/user__buys__item.csv"),
      HasSubstr("/edges: expected SOURCE__RELATION__DESTINATION.csv or .npy")
  );
}

TEST_F(TypedEdgeList, NamesTheLineOrEdgeThatIsWrong) {
  EXPECT_THAT(
      error_with("edges/user__buys__item.csv", "2,0\n3,1\n"),
      HasSubstr("user__buys__item.csv: edge 2: expected node ids in [0, 3) and [0, 2), found 3,1")
  );
  EXPECT_THAT(
      error_with("edges/user__buys__item.csv", "2,0\n1,9223372036854775808\n"),
      HasSubstr(
          "user__buys__item.csv: line 2: value 2: expected an integer, found '9223372036854775808'"
      )
  );
  EXPECT_THAT(
      error_with("nodes/item/features.image.csv", "1,2\n1\n"),
      HasSubstr("features.image.csv: line 2: expected 2 values, found 1")
  );
}

TEST_F(TypedEdgeList, ResumedImportWritesTheSameBytes) {
  const std::string output = folder_.path("out");
  const auto import = [&]() -> Status {
    auto writer = *NativeWriter::open(output, "k");
    GNN_ASSIGN_OR_RETURN(
        DatasetArrays dataset, read_edge_list(folder_.path("shop"), linked(), *writer, silent_)
    );
    GNN_ASSIGN_OR_RETURN(dataset, set_links(std::move(dataset), *linked().link, *writer, silent_));
    return writer->publish(dataset, false);
  };
  ASSERT_TRUE(read(linked()));
  ASSERT_TRUE(import());
  const std::string whole = read_file(output + "/" + kManifestFile);
  std::filesystem::remove_all(output);
  folder_.write("shop/edges/user__buys__item.csv", "2,0\nx\n");
  ASSERT_FALSE(import());
  folder_.write("shop/edges/user__buys__item.csv", files_["edges/user__buys__item.csv"]);
  ASSERT_TRUE(import());
  EXPECT_EQ(read_file(output + "/" + kManifestFile), whole);
}

TEST_F(TypedEdgeList, SurvivesAnyFile) {
  Mutations mutations(7);
  const auto good = files_;
  const int rounds = mutation_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [path, content] : good) {
      files_[path] = mutations.of(content);
      const auto dataset = read(linked());
      if (dataset) {
        EXPECT_EQ(dataset->node_tables.size(), 2U);
      } else {
        EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
      }
      files_[path] = content;
    }
  }
}

}  // namespace
}  // namespace gnn::data
