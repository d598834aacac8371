#include "worker/data/readers/reddit.h"

#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::ReaderTest;
using testing::RedditFiles;
using testing::to_vector;

class Reddit : public ReaderTest {
 protected:
  Result<DatasetArrays> reddit(const ReadOptions& options = {}) {
    return read_reddit(folder_.path("reddit"), options, memory_, silent_);
  }
  // The error that a change to the files causes.
  std::string error_of(
      const std::function<void(RedditFiles&)>& change, const ReadOptions& options = {}
  ) {
    RedditFiles files;
    change(files);
    files.write(folder_);
    const auto dataset = reddit(options);
    EXPECT_TRUE(dataset || dataset.error().kind == ErrorKind::Data);
    return dataset ? "" : dataset.error().message;
  }
};

TEST_F(Reddit, ReadsTheFolderOrItsRawFolder) {
  for (const char* place : {"", "/raw"}) {
    std::filesystem::remove_all(folder_.path("reddit"));
    RedditFiles().write(folder_, place);
    const auto dataset = reddit();
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_EQ(dataset->name, "reddit");
    EXPECT_EQ(dataset->num_classes, 3);
    EXPECT_EQ(dataset->node_tables[0].num_nodes, 6);
    EXPECT_THAT(
        to_vector<float>(dataset->node_tables[0].features),
        ElementsAre(1, 0, .5F, .5F, 0, 1, 1, 1, 0, 0, 2, 6)
    );
    EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[0].labels), ElementsAre(0, 1, 2, 0, 1, 2));
    EXPECT_THAT(to_vector<int64_t>(dataset->train), ElementsAre(0, 1, 2));
    EXPECT_THAT(to_vector<int64_t>(dataset->validation), ElementsAre(3));
    EXPECT_THAT(to_vector<int64_t>(dataset->test), ElementsAre(4, 5));
  }
}

TEST_F(Reddit, MergesDuplicateEdgesAndTakesRowsAsSources) {
  RedditFiles files;
  files.write(folder_);
  const auto symmetric = reddit();
  ASSERT_TRUE(symmetric) << symmetric.error().message;
  EXPECT_THAT(
      to_vector<int64_t>(symmetric->edge_tables[0].indptr), ElementsAre(0, 3, 6, 8, 11, 14, 16)
  );
  EXPECT_THAT(
      to_vector<int32_t>(symmetric->edge_tables[0].indices),
      ElementsAre(1, 3, 5, 0, 2, 4, 1, 3, 0, 2, 4, 1, 3, 5, 0, 4)
  );
  files.graph["row"] = npy_bytes("<i8", "(2,)", bytes_of<int64_t>({4, 2}));
  files.graph["col"] = npy_bytes("<i8", "(2,)", bytes_of<int64_t>({0, 0}));
  files.graph["data"] = npy_bytes("|b1", "(2,)", "\x01\x01");
  files.write(folder_);
  const auto directed = reddit();
  ASSERT_TRUE(directed) << directed.error().message;
  EXPECT_THAT(
      to_vector<int64_t>(directed->edge_tables[0].indptr), ElementsAre(0, 2, 2, 2, 2, 2, 2)
  );
  EXPECT_THAT(to_vector<int32_t>(directed->edge_tables[0].indices), ElementsAre(2, 4));
}

TEST_F(Reddit, ReadsTheUnicodeFormatOfOldSciPy) {
  RedditFiles files;
  files.graph["format"] = npy_bytes("<U3", "()", bytes_of<char32_t>({'c', 'o', 'o'}));
  files.write(folder_);
  EXPECT_TRUE(reddit());
}

TEST_F(Reddit, AppliesOptions) {
  RedditFiles().write(folder_);
  ReadOptions options;
  options.self_loops = SelfLoops::AddRemaining;
  options.feature_dtype = DType::Float16;
  options.num_classes = 7;
  const auto dataset = reddit(options);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 16 + 6);
  EXPECT_EQ(dataset->node_tables[0].features.dtype(), DType::Float16);
  EXPECT_EQ(dataset->num_classes, 7);
  options.split = "random";
  const auto named = reddit(options);
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(named.error().message, HasSubstr("Reddit has one split, which has no name"));
}

TEST_F(Reddit, NamesMissingFilesAndMembers) {
  EXPECT_THAT(
      reddit().error().message,
      HasSubstr("reddit: expected reddit_data.npz and reddit_graph.npz in it or in its folder raw")
  );
  for (const char* member : {"feature", "label", "node_types"}) {
    RedditFiles files;
    files.data.erase(member);
    files.write(folder_);
    EXPECT_EQ(reddit().error().kind, ErrorKind::NotFound);
    EXPECT_THAT(
        reddit().error().message,
        HasSubstr(std::string("reddit_data.npz: no member '") + member + "'")
    );
  }
  for (const char* member : {"row", "col", "data", "shape", "format"}) {
    RedditFiles files;
    files.graph.erase(member);
    files.write(folder_);
    EXPECT_THAT(
        reddit().error().message,
        HasSubstr(std::string("reddit_graph.npz: no member '") + member + "'")
    );
  }
  RedditFiles().write(folder_);
  std::filesystem::remove(folder_.path("reddit/reddit_graph.npz"));
  EXPECT_EQ(reddit().error().kind, ErrorKind::NotFound);
  EXPECT_THAT(reddit().error().message, HasSubstr("reddit_graph.npz"));
}

TEST_F(Reddit, RefusesOtherFormatsOfSciPy) {
  EXPECT_THAT(
      error_of([](RedditFiles& f) { f.graph["format"] = npy_bytes("|S3", "()", "csr"); }),
      HasSubstr("reddit_graph.npz(format.npy): expected a scipy matrix of format coo, found 'csr'")
  );
  // As scipy saves it: a csr matrix has no row and col.
  EXPECT_THAT(
      error_of([](RedditFiles& f) {
        f.graph["format"] = npy_bytes("|S3", "()", "csr");
        f.graph["indices"] = std::exchange(f.graph["col"], "");
        f.graph["indptr"] = std::exchange(f.graph["row"], "");
        f.graph.erase("col");
        f.graph.erase("row");
      }),
      HasSubstr("found 'csr'")
  );
  EXPECT_THAT(
      error_of([](RedditFiles& f) {
        f.graph["format"] = npy_bytes("<i8", "()", bytes_of<int64_t>({1}));
      }),
      HasSubstr("reddit_graph.npz(format.npy): expected one string")
  );
}

TEST_F(Reddit, NamesMemberAndFirstOffender) {
  const auto types = [](std::vector<int32_t> values) {
    return [values](RedditFiles& f) {
      f.data["node_types"] = npy_bytes("<i4", "(6,)", bytes_of(values));
    };
  };
  EXPECT_THAT(
      error_of(types({1, 1, 0, 2, 3, 4})),
      HasSubstr("reddit_data.npz(node_types.npy): node 2: expected 1 (train), 2 (validation) or 3 "
                "(test), found 0")
  );
  EXPECT_THAT(error_of(types({1, 1, 1, 2, 3, 4})), HasSubstr("node 5: expected 1 (train)"));
  EXPECT_THAT(
      error_of(types({2, 2, 2, 2, 3, 3})),
      HasSubstr("node_types.npy): expected at least one node of type 1 (train), found none")
  );
  const auto labels = [](std::vector<int64_t> values) {
    return
        [values](RedditFiles& f) { f.data["label"] = npy_bytes("<i8", "(6,)", bytes_of(values)); };
  };
  ReadOptions two;
  two.num_classes = 2;
  EXPECT_THAT(
      error_of([](RedditFiles&) {}, two),
      HasSubstr("reddit_data.npz(label.npy): node 2: expected a class below 2")
  );
  EXPECT_THAT(
      error_of(labels({0, 1, 2, -1, 1, 2})),
      HasSubstr("reddit_data.npz(label.npy): node 3: expected a class from 0 on, found -1")
  );
  EXPECT_THAT(error_of(labels({0, 1, 2, 0, 1, 99})), HasSubstr("the largest label, 99, exceeds"));
  EXPECT_THAT(
      error_of([](RedditFiles& f) {
        f.graph["col"] = npy_bytes(
            "<i4", "(17,)", bytes_of<int32_t>({1, 2, 3, 6, 5, 0, 3, 4, 0, 1, 2, 3, 4, 5, 0, 1, 1})
        );
      }),
      HasSubstr(
          "reddit_graph.npz(row.npy, col.npy): element 3: expected node ids in [0, 6), found 3,6"
      )
  );
}

TEST_F(Reddit, RefusesMembersOfUnequalLengthsAndSwappedOnes) {
  const std::string five = npy_bytes("<i4", "(5,)", bytes_of<int32_t>({1, 1, 1, 2, 3}));
  EXPECT_THAT(
      error_of([&](RedditFiles& f) { f.data["label"] = five; }),
      HasSubstr("reddit_data.npz(label.npy): expected one label per node, [N] or [N, 1] with N = 6")
  );
  EXPECT_THAT(
      error_of([&](RedditFiles& f) { f.data["node_types"] = five; }),
      HasSubstr("reddit_data.npz(node_types.npy): expected one type per feature row, [6], found [5]"
      )
  );
  for (const char* member : {"col", "data"}) {
    EXPECT_THAT(
        error_of([&](RedditFiles& f) { f.graph[member] = five; }),
        HasSubstr(
            std::string("reddit_graph.npz(") + member +
            ".npy): expected one element per edge, [17], found [5]"
        )
    );
  }
  EXPECT_THAT(
      error_of([&](RedditFiles& f) {
        f.graph["shape"] = npy_bytes("<i8", "(2,)", bytes_of<int64_t>({6, 7}));
      }),
      AllOf(HasSubstr("reddit_graph.npz(shape.npy): expected [6, 6]"), HasSubstr("found [6, 7]"))
  );
  EXPECT_THAT(
      error_of([](RedditFiles& f) { std::swap(f.data["label"], f.data["node_types"]); }),
      HasSubstr("reddit_data.npz(node_types.npy): node 0: expected 1 (train)")
  );
  EXPECT_THAT(
      error_of([](RedditFiles& f) { std::swap(f.data["feature"], f.data["label"]); }),
      HasSubstr("reddit_data.npz(feature.npy): expected features of shape [nodes, width]")
  );
  EXPECT_THAT(
      error_of([](RedditFiles& f) { std::swap(f.graph["shape"], f.graph["row"]); }),
      HasSubstr("reddit_graph.npz(shape.npy): expected two numbers, [2], found [17]")
  );
}

// Damage below the zip file's CRC-32, which would find it first.
TEST_F(Reddit, SurvivesMutatedMembers) {
  gnn::testing::Mutations mutations(19);
  int failed = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(300); ++round) {
    RedditFiles files;
    RedditFiles::Members& members = mutations.below(2) == 0 ? files.data : files.graph;
    auto member = members.begin();
    std::advance(member, mutations.below(members.size()));
    member->second = mutations.of(member->second);
    files.write(folder_);
    const auto dataset = reddit();
    if (dataset) continue;
    ++failed;
    EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
  }
  EXPECT_GT(failed, 100);
}

TEST_F(Reddit, SurvivesMutatedArchives) {
  RedditFiles().write(folder_);
  const std::string whole = gnn::testing::read_file(folder_.path("reddit/reddit_graph.npz"));
  gnn::testing::Mutations mutations(20);
  int failed = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(200); ++round) {
    folder_.write("reddit/reddit_graph.npz", mutations.of(whole));
    const auto dataset = reddit();
    if (dataset) continue;
    ++failed;
    const ErrorKind kind = dataset.error().kind;
    EXPECT_TRUE(kind == ErrorKind::Data || kind == ErrorKind::NotFound) << dataset.error().message;
  }
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace gnn::data
