#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/worker/graph/files.h"
#include "worker/graph/readers/edge_list.h"
#include "worker/graph/readers/gin.h"
#include "worker/graph/readers/ogb.h"
#include "worker/graph/readers/package_index.h"
#include "worker/graph/readers/tu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace gnn::graph {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::gzip;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::OgbFiles;
using ::testing::Pair;
using testing::TemporaryFolder;
using testing::to_vector;
using testing::zip_bytes;

class Reader : public ::testing::Test {
 protected:
  Result<DatasetArrays> ogb(const ReadOptions& options = {}) {
    return read_ogb(folder_.path("ring"), options, memory_, silent_);
  }
  /// The error that a change to the files of the ring causes.
  std::string ogb_error(
      const std::function<void(OgbFiles&)>& change, const ReadOptions& options = {}
  ) {
    OgbFiles files;
    change(files);
    files.write(folder_);
    const auto dataset = ogb(options);
    return dataset ? "" : dataset.error().message;
  }

  TemporaryFolder folder_;
  MemoryStorage memory_;
  SilentProgress silent_;
};

using Ogb = Reader;

TEST_F(Ogb, ReadsTheCsvForm) {
  OgbFiles().write(folder_);
  const auto dataset = ogb();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->name, "ring");
  EXPECT_EQ(dataset->num_classes, 3);
  ASSERT_EQ(dataset->node_tables.size(), 1U);
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 6);
  EXPECT_EQ(dataset->node_tables[0].features.shape(), (std::vector<int64_t>{6, 2}));
  EXPECT_THAT(
      to_vector<float>(dataset->node_tables[0].features),
      ElementsAre(1, 0, .5F, .5F, 0, 1, 1, 1, 0, 0, 2, 6)
  );
  EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[0].labels), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[0].indptr), ElementsAre(0, 1, 2, 3, 5, 7, 8));
  EXPECT_THAT(
      to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(5, 0, 1, 0, 2, 1, 3, 4)
  );
  EXPECT_THAT(to_vector<int64_t>(dataset->train), ElementsAre(0, 1, 2));
  EXPECT_THAT(to_vector<int64_t>(dataset->validation), ElementsAre(3));
  EXPECT_THAT(to_vector<int64_t>(dataset->test), ElementsAre(4, 5));
}

TEST_F(Ogb, ReadsTheNpzFormInBothOrders) {
  const std::vector<int64_t> rows{0, 1, 2, 3, 4, 5, 0, 1, 1, 2, 3, 4, 5, 0, 3, 4};
  std::vector<int64_t> pairs;
  for (size_t i = 0; i < 8; ++i) {
    pairs.push_back(rows[i]);
    pairs.push_back(rows[i + 8]);
  }
  OgbFiles().write(folder_);
  const auto csv = ogb();
  for (const bool fortran : {false, true}) {
    folder_.write(
        "ring/raw/data.npz",
        zip_bytes({
            {"edge_index.npy",
             npy_bytes("<i8", "(2, 8)", bytes_of(fortran ? pairs : rows), fortran),
             true},
            {"num_nodes_list.npy", npy_bytes("<i8", "(1,)", bytes_of<int64_t>({6})), false},
            {"num_edges_list.npy", npy_bytes("<i8", "(1,)", bytes_of<int64_t>({8})), false},
            {"node_feat.npy",
             npy_bytes("<f2", "(6, 1)", bytes_of<uint16_t>({0, 0x3C00, 0, 0, 0, 0x4000})),
             true},
        })
    );
    folder_.write(
        "ring/raw/node-label.npz",
        zip_bytes(
            {{"node_label.npy",
              npy_bytes("<f4", "(6, 1)", bytes_of<float>({0, 1, 2, NAN, 1, 2})),
              false}}
        )
    );
    const auto dataset = ogb();
    // Node 3 is the validation part and has no label now: for the reader that is data,
    // check_dataset() objects.
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_EQ(
        to_vector<int64_t>(dataset->edge_tables[0].indptr),
        to_vector<int64_t>(csv->edge_tables[0].indptr)
    );
    EXPECT_EQ(
        to_vector<int32_t>(dataset->edge_tables[0].indices),
        to_vector<int32_t>(csv->edge_tables[0].indices)
    );
    EXPECT_THAT(to_vector<float>(dataset->node_tables[0].features), ElementsAre(0, 1, 0, 0, 0, 2));
    EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[0].labels), ElementsAre(0, 1, 2, -1, 1, 2));
  }
}

TEST_F(Ogb, AppliesOptions) {
  OgbFiles().write(folder_);
  ReadOptions options;
  options.to_undirected = true;
  options.normalize_rows = true;
  options.feature_dtype = DType::Float16;
  const auto dataset = ogb(options);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 16);
  EXPECT_EQ(dataset->node_tables[0].features.dtype(), DType::Float16);
  const auto* halves = reinterpret_cast<const uint16_t*>(dataset->node_tables[0].features.bytes());
  EXPECT_EQ(halves[10], 0x3400);  // 2 / 8 = 0.25
}

TEST_F(Ogb, PicksTheSplitOrAsksForOne) {
  OgbFiles().write(folder_);
  folder_.write("ring/split/time/train.csv", "5\n");
  folder_.write("ring/split/time/valid.csv", "4\n");
  folder_.write("ring/split/time/test.csv", "");
  const auto unclear = ogb();
  ASSERT_FALSE(unclear);
  EXPECT_EQ(unclear.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(unclear.error().message, HasSubstr("name one of the splits: random, time"));
  ReadOptions options;
  options.split = "time";
  EXPECT_THAT(to_vector<int64_t>(ogb(options)->train), ElementsAre(5));
  EXPECT_EQ(ogb(options)->test.num_elements(), 0);
  options.split = "sales";
  EXPECT_THAT(ogb(options).error().message, HasSubstr("no split 'sales'; there are: random, time"));
  std::filesystem::remove_all(folder_.path("ring/split"));
  EXPECT_THAT(
      ogb().error().message, HasSubstr("ring/split: expected a folder with the split, found none")
  );
  ReadOptions none;
  none.split_required = false;
  EXPECT_FALSE(ogb(none)->train.defined());
}

TEST_F(Ogb, NamesFileAndLineOfBadInput) {
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.edges = "0,1\n1,6\n" + f.edges.substr(8); }),
      AllOf(HasSubstr("edge.csv.gz: line 2"), HasSubstr("found 1,6"))
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.edges += "1,2\n"; }),
      HasSubstr("edge.csv.gz: line 9: more edges than the 8")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.num_edges = "9\n"; }),
      HasSubstr("ends after 8 edges, num-edge-list says 9")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.num_edges = "4000000000000\n"; }),
      HasSubstr("too short for the 4000000000000 edges")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.edges = "0,1\n1;2\n"; }),
      HasSubstr("line 2: value 1 is followed by ';'")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.edges = "0,1\nx,2\n"; }),
      HasSubstr("line 2: value 1: expected an integer, found 'x'")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.edges = "0,1,2\n"; }),
      HasSubstr("line 1: expected 2 values, found 3")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.features = "1,0\nnan,0\n0,0\n0,0\n0,0\n0,0\n"; }),
      HasSubstr("node-feat.csv.gz: line 2: value 1: expected a finite number, found 'nan'")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.features = "1,0\n1\n"; }),
      HasSubstr("node-feat.csv.gz: line 2: expected 2 values, found 1")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.features += "1,0\n"; }),
      HasSubstr("line 7: more rows than the 6 nodes")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.labels = "0\n1\n2\n0\n1\n"; }),
      HasSubstr("ends after 5 labels, expected 6")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.labels = "0\n1\n2\n0\n1.5\n2\n"; }),
      HasSubstr("node-label.csv.gz: line 5: expected one class")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.labels = "0\n1\n2\n0\n1\n400\n"; }),
      HasSubstr("the largest label, 400, exceeds")
  );
  ReadOptions two;
  two.num_classes = 2;
  EXPECT_THAT(
      ogb_error([](OgbFiles&) {}, two), HasSubstr("label of node 2: expected a class below 2")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.train = "0\n6\n"; }),
      HasSubstr("train.csv.gz: line 2: expected an id in [0, 6), found 6")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.train = "0\n0\n"; }),
      HasSubstr("train.csv.gz: line 2: id 0 appears twice")
  );
  EXPECT_THAT(ogb_error([](OgbFiles& f) { f.num_nodes = "0\n"; }), HasSubstr("at least one node"));
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.num_nodes = "3\n3\n"; }),
      HasSubstr("line 2: more than one graph")
  );
}

TEST_F(Ogb, NoticesTruncatedAndDamagedGzip) {
  OgbFiles().write(folder_);
  const std::string whole = gnn::testing::read_file(folder_.path("ring/raw/edge.csv.gz"));
  folder_.write("ring/raw/edge.csv.gz", whole.substr(0, whole.size() - 9));
  EXPECT_THAT(
      ogb().error().message,
      AllOf(HasSubstr("edge.csv.gz: damaged gzip data near packed offset"), HasSubstr("cut short?"))
  );
  std::string flipped = whole;
  flipped[14] = static_cast<char>(~flipped[14]);
  folder_.write("ring/raw/edge.csv.gz", flipped);
  EXPECT_EQ(ogb().error().kind, ErrorKind::Data);
  folder_.write("ring/raw/edge.csv.gz", "0,1\n");
  EXPECT_THAT(ogb().error().message, HasSubstr("incorrect header check"));
  // Two members after each other are one stream.
  folder_.write(
      "ring/raw/edge.csv.gz", gzip("0,1\n1,2\n2,3\n3,4\n") + gzip("4,5\n5,0\n0,3\n1,4\n")
  );
  EXPECT_TRUE(ogb());
  std::filesystem::remove(folder_.path("ring/raw/edge.csv.gz"));
  EXPECT_THAT(ogb().error().message, HasSubstr("expected edge.csv.gz or edge.csv"));
}

TEST_F(Ogb, SurvivesMutatedGzip) {
  OgbFiles().write(folder_);
  const std::string whole = gnn::testing::read_file(folder_.path("ring/raw/edge.csv.gz"));
  gnn::testing::Mutations mutations(17);
  for (int round = 0; round < gnn::testing::mutation_rounds(400); ++round) {
    folder_.write("ring/raw/edge.csv.gz", mutations.of(whole));
    const auto dataset = ogb();
    if (dataset) continue;
    EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
  }
}

TEST_F(Ogb, SurvivesMutatedText) {
  OgbFiles().write(folder_);
  gnn::testing::Mutations mutations(18);
  int failed = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(400); ++round) {
    folder_.write(
        "ring/raw/edge.csv.gz", gzip(mutations.of("0,1\n1,2\n2,3\n3,4\n4,5\n5,0\n0,3\n1,4\n"))
    );
    const auto dataset = ogb();
    if (dataset) continue;
    ++failed;
    EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
    EXPECT_LT(dataset.error().message.size(), 1000U);
  }
  EXPECT_GT(failed, 100);
}

class Tu : public Reader {
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

class Gin : public Reader {
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

TEST_F(Gin, TakesAttributesWhereThereAreSome) {
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

class EdgeList : public Reader {
 protected:
  Result<DatasetArrays> read(const ReadOptions& options = {}) {
    return read_edge_list(folder_.path("plain"), options, memory_, silent_);
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

TEST_F(EdgeList, ReportsWhatIsMissingOrImplausible) {
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

class PackageIndex : public Reader {
 protected:
  Result<DatasetArrays> read(const std::string& text, PackageIndexOptions options = {}) {
    options.num_features = 64;
    return read_package_index(from_memory("index", text), options, memory_, silent_);
  }
  const std::string index_ =
      "Package: beta\nSection: net\nDepends: alpha (>= 1.0) | gamma, mail-agent, "
      "nowhere\nDescription: Fast mail\n reader\n\n"
      "Package: alpha\nSection: contrib/libs\nDescription: shared library\n\n"
      "Package: gamma\nSection: libs\nProvides: mail-agent (= 2), other\nRecommends: alpha:any "
      "[amd64]\nSuggests: gamma\n"
      "Description: MAIL mail x\n\n"
      "Package: alpha\nSection: games\nDescription: again\n\n"
      "Package: delta\nDescription: no section here\n";
};

TEST_F(PackageIndex, MakesNodesEdgesFeaturesAndLabels) {
  const auto dataset = read(index_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  // alpha 0, beta 1, delta 2, gamma 3
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 4);
  EXPECT_THAT(dataset->class_names, ElementsAre("libs", "net"));
  EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[0].labels), ElementsAre(0, 1, -1, 0));
  // beta -> alpha, beta -> gamma (alternative and virtual package: once), gamma -> alpha; not gamma
  // -> gamma.
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[0].indptr), ElementsAre(0, 2, 2, 2, 3));
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(1, 3, 1));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("edgesDepends", "3")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("edgesRecommends", "1")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("namesNobodyProvides", "1")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("duplicatePackages", "1")));
  // printf '…' | sha256sum
  EXPECT_EQ(dataset->origin.facts.front().second.substr(0, 7), "sha256:");
  const auto features = to_vector<float>(dataset->node_tables[0].features);
  const auto row_sum = [&](size_t row) {
    float sum = 0;
    for (size_t i = 0; i < 64; ++i) {
      sum += features[row * 64 + i];
    }
    return sum;
  };
  EXPECT_FLOAT_EQ(row_sum(0), 1.0F);
  EXPECT_FLOAT_EQ(row_sum(1), 1.0F);
  // "MAIL mail x" is one word twice: a single column, the x is too short.
  EXPECT_EQ(std::count(features.begin() + 3 * 64, features.end(), 1.0F), 1);
}

/// What would give the label away must not reach the features.
TEST_F(PackageIndex, FeaturesDoNotSeeSectionTagsOrNames) {
  const auto plain = read(
      "Package: a\nSection: net\nDescription: same words\n\nPackage: b\nSection: "
      "libs\nDescription: w\n"
  );
  const auto other = read(
      "Package: aaa\nSection: games\nTag: role::program\nFilename: pool/main/a\nHomepage: "
      "http://x\nSource: s\n"
      "Description: same words\n\nPackage: bbb\nSection: libs\nDescription: w\n"
  );
  EXPECT_EQ(
      to_vector<float>(plain->node_tables[0].features),
      to_vector<float>(other->node_tables[0].features)
  );
}

TEST_F(PackageIndex, SplitsEveryLabelledPackageOnce) {
  std::string index;
  for (int i = 0; i < 100; ++i) {
    index += "Package: p" + std::to_string(i) + "\nSection: s" + std::to_string(i % 3) +
             "\nDescription: d\n\n";
  }
  const auto dataset = read(index);
  EXPECT_EQ(dataset->train.num_elements(), 60);
  EXPECT_EQ(dataset->validation.num_elements(), 20);
  EXPECT_EQ(dataset->test.num_elements(), 20);
  PackageIndexOptions other;
  other.seed = 1;
  EXPECT_NE(to_vector<int64_t>(dataset->train), to_vector<int64_t>(read(index, other)->train));
}

TEST_F(PackageIndex, NamesTheLineOfBadInput) {
  EXPECT_THAT(read("").error().message, HasSubstr("expected packages, found none"));
  EXPECT_THAT(
      read("Package: a\nrubbish\n").error().message,
      HasSubstr("index: line 2: expected \"Field: value\", found 'rubbish'")
  );
  EXPECT_THAT(read("Section: net\n\n").error().message, HasSubstr("has no field Package"));
  EXPECT_THAT(read(" goes on\n").error().message, HasSubstr("line 1: a line that goes on"));
  EXPECT_THAT(read("Package: a\n\n").error().message, HasSubstr("no package has a field Section"));
}

}  // namespace
}  // namespace gnn::graph
