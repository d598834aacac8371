#include "worker/data/readers/ogb.h"

#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::ElementsAre;
using testing::gzip;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::OgbFiles;
using testing::ReaderTest;
using testing::to_vector;
using testing::zip_bytes;

class Ogb : public ReaderTest {
 protected:
  Result<DatasetArrays> ogb(const ReadOptions& options = {}) {
    return read_ogb(folder_.path("ring"), options, memory_, silent_);
  }
  // The error that a change to the files of the ring causes.
  std::string ogb_error(
      const std::function<void(OgbFiles&)>& change, const ReadOptions& options = {}
  ) {
    OgbFiles files;
    change(files);
    files.write(folder_);
    const auto dataset = ogb(options);
    return dataset ? "" : dataset.error().message;
  }
};

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
  OgbFiles files;
  files.labels = "0\nnan\nNaN\n-nan\n\n-1\n";
  files.write(folder_);
  EXPECT_THAT(to_vector<int64_t>(ogb()->node_tables[0].labels), ElementsAre(0, -1, -1, -1, -1, -1));
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
    // check_items() objects.
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

TEST_F(Ogb, PicksTheOnlySplitOrAsksForAName) {
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
  EXPECT_THAT(
      ogb(options).error().message, HasSubstr("no split 'sales', expected one of random, time")
  );
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
      ogb_error([](OgbFiles&) {}, two),
      HasSubstr("node-label.csv.gz: label of node 2: expected a class below 2")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.train = "0\n6\n"; }),
      HasSubstr("train.csv.gz: line 2: expected an id in [0, 6), found 6")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.train = "0\n0\n"; }),
      HasSubstr("train.csv.gz: line 2: id 0 occurs twice in train")
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.test = "4\n3\n"; }),
      AllOf(
          HasSubstr("test.csv.gz: line 2: id 3 is in test and in validation ("),
          HasSubstr("valid.csv.gz)")
      )
  );
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.train = ""; }),
      HasSubstr("train.csv.gz: train: expected at least one id, found none")
  );
  EXPECT_THAT(ogb_error([](OgbFiles& f) { f.num_nodes = "0\n"; }), HasSubstr("at least one node"));
  EXPECT_THAT(
      ogb_error([](OgbFiles& f) { f.num_nodes = "3\n3\n"; }),
      HasSubstr("line 2: more than one graph")
  );
}

TEST_F(Ogb, ReportsTruncatedAndDamagedGzip) {
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

}  // namespace
}  // namespace gnn::data
