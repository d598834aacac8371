#include "worker/graph/native.h"

#include "tests/support/read_file.h"
#include "tests/worker/graph/files.h"
#include "worker/graph/generate.h"
#include "worker/graph/manifest.h"
#include "worker/graph/readers/ogb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace gnn::graph {
namespace {

namespace fs = std::filesystem;

using gnn::testing::read_file;
using ::testing::HasSubstr;
using testing::OgbFiles;
using testing::TemporaryFolder;
using testing::to_vector;

class Native : public ::testing::Test {
 protected:
  void SetUp() override { OgbFiles().write(folder_); }

  Status publish(const std::string& key = "key-1", bool replace = false) {
    GNN_ASSIGN_OR_RETURN(auto writer, NativeWriter::open(output_, key));
    GNN_ASSIGN_OR_RETURN(
        const DatasetArrays arrays, read_ogb(folder_.path("ring"), {}, *writer, silent_)
    );
    return writer->publish(arrays, replace);
  }
  std::string open_error() {
    const auto dataset = open_native(output_, {});
    return dataset ? "" : dataset.error().message;
  }
  void damage(const std::string& file, size_t at) {
    std::string bytes = read_file(output_ + "/" + file);
    bytes.at(at) = static_cast<char>(~bytes.at(at));
    folder_.write("out/" + file, bytes);
  }

  TemporaryFolder folder_;
  std::string output_ = folder_.path("out");
  SilentProgress silent_;
};

TEST_F(Native, ComesBackAsItWasWritten) {
  ASSERT_TRUE(publish());
  MemoryStorage memory;
  const DatasetArrays wanted = *read_ogb(folder_.path("ring"), {}, memory, silent_);
  const auto found = open_native(output_, {.will_need = true, .huge_pages = true});
  ASSERT_TRUE(found) << found.error().message;
  const DatasetArrays& arrays = found->arrays;
  EXPECT_EQ(arrays.name, "ring");
  EXPECT_EQ(arrays.num_classes, 3);
  EXPECT_EQ(arrays.target_node_type, "node");
  EXPECT_EQ(arrays.node_tables[0].num_nodes, 6);
  EXPECT_EQ(
      to_vector<float>(arrays.node_tables[0].features),
      to_vector<float>(wanted.node_tables[0].features)
  );
  EXPECT_EQ(
      to_vector<int64_t>(arrays.node_tables[0].labels),
      to_vector<int64_t>(wanted.node_tables[0].labels)
  );
  EXPECT_EQ(
      to_vector<int64_t>(arrays.edge_tables[0].indptr),
      to_vector<int64_t>(wanted.edge_tables[0].indptr)
  );
  EXPECT_EQ(
      to_vector<int32_t>(arrays.edge_tables[0].indices),
      to_vector<int32_t>(wanted.edge_tables[0].indices)
  );
  EXPECT_EQ(to_vector<int64_t>(arrays.test), to_vector<int64_t>(wanted.test));
  EXPECT_EQ(arrays.origin.source, "OGB");
  EXPECT_EQ(arrays.origin.options, wanted.origin.options);
  EXPECT_EQ(found->key, "key-1");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arrays.node_tables[0].features.bytes()) % 4096, 0U);
  EXPECT_TRUE(verify_digests(output_, *found, silent_));
  EXPECT_EQ(published_key(output_), "key-1");
  // Nothing of the work is left beside it, and nothing in it but arrays and manifest.
  EXPECT_FALSE(fs::exists(output_ + ".partial"));
  EXPECT_FALSE(fs::exists(output_ + ".lock"));
  EXPECT_FALSE(fs::exists(output_ + "/journal.yaml"));
}

TEST_F(Native, DoesNotReplaceUnlessAsked) {
  ASSERT_TRUE(publish("key-1"));
  const Status refused = publish("key-2");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Conflict);
  EXPECT_EQ(published_key(output_), "key-1");
  ASSERT_TRUE(publish("key-2", true));
  EXPECT_EQ(published_key(output_), "key-2");
  EXPECT_FALSE(fs::exists(output_ + ".partial"));
}

TEST_F(Native, TakesAnEmptyFolderAsNone) {
  fs::create_directories(output_);
  EXPECT_TRUE(publish());
}

TEST_F(Native, OnlyOneWritesAtATime) {
  const auto first = NativeWriter::open(output_, "a");
  ASSERT_TRUE(first);
  const auto second = NativeWriter::open(output_, "a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Conflict);
}

TEST_F(Native, GoesOnFromWhatIsWhole) {
  const auto write_two = [&](const std::string& key) {
    auto writer = *NativeWriter::open(output_, key);
    for (const char* name : {"first", "second"}) {
      Array array = *writer->create(name, DType::Int64, {3});
      array.mutable_view<int64_t>()[2] = 7;
      ASSERT_TRUE(writer->commit(std::move(array)));
    }
    // Created, never committed: as if the process had been killed here.
    ASSERT_TRUE(writer->create("third", DType::Int64, {3}));
  };
  write_two("key");
  ASSERT_TRUE(fs::exists(output_ + ".partial"));
  EXPECT_FALSE(fs::exists(output_));
  EXPECT_EQ(open_native(output_, {}).error().kind, ErrorKind::NotFound);
  {
    auto writer = *NativeWriter::open(output_, "key");
    EXPECT_EQ(writer->num_resumed(), 2);
    EXPECT_EQ(writer->find("first")->view<int64_t>()[2], 7);
    EXPECT_TRUE(writer->find("second")->defined());
    EXPECT_FALSE(writer->find("third")->defined());
  }
  // An array that the journal calls whole, but whose bytes are not: made anew.
  std::string bytes = read_file(output_ + ".partial/second.npy");
  bytes.back() = 1;
  folder_.write("out.partial/second.npy", bytes);
  EXPECT_EQ((*NativeWriter::open(output_, "key"))->num_resumed(), 1);
  // Other inputs or options: nothing is taken over.
  EXPECT_EQ((*NativeWriter::open(output_, "other"))->num_resumed(), 0);
}

TEST_F(Native, GoesOnAgainAfterALineOfTheJournalWasCut) {
  const auto write = [&](NativeWriter& writer, const char* name) {
    Array array = *writer.create(name, DType::Int64, {3});
    array.mutable_view<int64_t>()[0] = 7;
    ASSERT_TRUE(writer.commit(std::move(array)));
  };
  write(**NativeWriter::open(output_, "key"), "first");
  const std::string journal = read_file(output_ + ".partial/journal.yaml");
  folder_.write("out.partial/journal.yaml", journal + "- {name: second, fi");
  {
    auto writer = *NativeWriter::open(output_, "key");
    EXPECT_EQ(writer->num_resumed(), 1);
    write(*writer, "second");
  }
  EXPECT_EQ((*NativeWriter::open(output_, "key"))->num_resumed(), 2);
}

TEST_F(Native, ResumedImportEndsInTheSameBytes) {
  ASSERT_TRUE(publish());
  const std::string whole = read_file(output_ + "/" + kManifestFile);
  fs::remove_all(output_);
  {
    auto writer = *NativeWriter::open(output_, "key-1");
    // The labels and the split come first; the features don't parse and end the import.
    OgbFiles broken;
    broken.features = "1,0\nx\n";
    broken.write(folder_);
    ASSERT_FALSE(read_ogb(folder_.path("ring"), {}, *writer, silent_));
  }
  OgbFiles().write(folder_);
  auto writer = *NativeWriter::open(output_, "key-1");
  EXPECT_GE(writer->num_resumed(), 6);
  const auto arrays = read_ogb(folder_.path("ring"), {}, *writer, silent_);
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_TRUE(writer->publish(*arrays, false));
  EXPECT_EQ(read_file(output_ + "/" + kManifestFile), whole);
}

TEST_F(Native, HoldsFilesAgainstTheManifest) {
  ASSERT_TRUE(publish());
  const std::string features = "nodes.node.features.npy";
  const std::string whole = read_file(output_ + "/" + features);
  folder_.write("out/" + features, whole.substr(0, whole.size() - 4));
  EXPECT_THAT(
      open_error(), HasSubstr("features.npy: expected 4144 bytes as the manifest says, found 4140")
  );
  std::string transposed = whole;
  transposed.replace(transposed.find("(6, 2)"), 6, "(2, 6)");
  folder_.write("out/" + features, transposed);
  EXPECT_THAT(
      open_error(), HasSubstr("expected float32 [6, 2] as the manifest says, found float32 [2, 6]")
  );
  fs::remove(output_ + "/" + features);
  EXPECT_EQ(open_native(output_, {}).error().kind, ErrorKind::NotFound);
}

TEST_F(Native, VerifyFindsAFlippedBit) {
  ASSERT_TRUE(publish());
  damage("nodes.node.features.npy", 4096 + 5);
  const auto dataset = open_native(output_, {});
  ASSERT_TRUE(dataset);  // the right size and type
  const Status status = verify_digests(output_, *dataset, silent_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(status.error().message, HasSubstr("nodes.node.features.npy: damaged"));
}

TEST_F(Native, ManifestIsCheckedBeforeItIsTrusted) {
  ASSERT_TRUE(publish());
  const std::string file = std::string(kManifestFile);
  const std::string whole = read_file(output_ + "/" + file);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return parse_manifest(text, "m").error().message;
  };
  EXPECT_THAT(with("numClasses: 3", "numClasses: 4"), HasSubstr("damaged: its digest is"));
  EXPECT_THAT(
      with("version: 1", "version: 9"),
      HasSubstr("version 9 of the on-disk form, this program knows 1")
  );
  EXPECT_THAT(with("gnn-native", "other"), HasSubstr("expected 'format: gnn-native'"));
  EXPECT_THAT(
      parse_manifest(whole.substr(0, whole.size() / 2), "m").error().message,
      HasSubstr("cut short?")
  );
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::string text = whole;
    text[i] = static_cast<char>(text[i] ^ 0x11);
    EXPECT_FALSE(parse_manifest(text, "m")) << i;
  }
}

std::string with_digest(const std::string& body) {
  return body + "digest: " + "xxh64:0000000000000000\n";
}

TEST(Manifest, AFileNameCannotLeaveTheDirectory) {
  // The digest is right in whatever this process wrote itself, so the encoder is used to make the
  // manifest.
  DatasetArrays dataset;
  dataset.name = "x";
  dataset.target_node_type = "node";
  ManifestArray array{
      .name = "a",
      .file = "../../etc/passwd",
      .dtype = DType::Int64,
      .shape = {1},
      .file_bytes = 4104,
      .digest = "xxh64:0"
  };
  const auto parsed = parse_manifest(*encode_manifest(dataset, {array}, "k"), "m");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(
      parsed.error().message,
      HasSubstr("expected the plain name of a file, found '../../etc/passwd'")
  );
  EXPECT_FALSE(parse_manifest(with_digest("a: [b\n"), "m"));
}

class Generate : public ::testing::Test {
 protected:
  Result<DatasetArrays> make(Shape shape, double scale, uint64_t seed = 1, double flipped = 0.0) {
    return generate(
        {.shape = shape, .scale = scale, .seed = seed, .flipped_labels = flipped}, memory_, silent_
    );
  }
  MemoryStorage memory_;
  SilentProgress silent_;
};

TEST_F(Generate, HasTheShapeOfTheOriginal) {
  const auto dataset = make(Shape::Arxiv, 0.05);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 8467);
  EXPECT_EQ(dataset->node_tables[0].features.shape(), (std::vector<int64_t>{8467, 128}));
  EXPECT_EQ(dataset->num_classes, 40);
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 2 * 57890);
  EXPECT_EQ(dataset->train.num_elements(), 4546);
  EXPECT_EQ(dataset->validation.num_elements(), 1489);
  EXPECT_EQ(
      dataset->train.num_elements() + dataset->validation.num_elements() +
          dataset->test.num_elements(),
      8467
  );
}

TEST_F(Generate, IsAFunctionOfItsOptions) {
  const auto first = make(Shape::Products, 0.001);
  const auto again = make(Shape::Products, 0.001);
  const auto other = make(Shape::Products, 0.001, 2);
  EXPECT_EQ(
      to_vector<int32_t>(first->edge_tables[0].indices),
      to_vector<int32_t>(again->edge_tables[0].indices)
  );
  EXPECT_EQ(
      to_vector<float>(first->node_tables[0].features),
      to_vector<float>(again->node_tables[0].features)
  );
  EXPECT_EQ(to_vector<int64_t>(first->train), to_vector<int64_t>(again->train));
  EXPECT_NE(
      to_vector<int32_t>(first->edge_tables[0].indices),
      to_vector<int32_t>(other->edge_tables[0].indices)
  );
}

TEST_F(Generate, IsUndirectedSimpleAndHeavyTailed) {
  const auto dataset = make(Shape::Arxiv, 0.1);
  const auto indptr = to_vector<int64_t>(dataset->edge_tables[0].indptr);
  const auto indices = to_vector<int32_t>(dataset->edge_tables[0].indices);
  const auto labels = to_vector<int64_t>(dataset->node_tables[0].labels);
  int64_t largest = 0;
  int64_t same_class = 0;
  int64_t isolated = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    largest = std::max(largest, indptr[node + 1] - indptr[node]);
    isolated += indptr[node + 1] == indptr[node] ? 1 : 0;
    for (int64_t edge = indptr[node]; edge < indptr[node + 1]; ++edge) {
      const auto source = static_cast<size_t>(indices[static_cast<size_t>(edge)]);
      ASSERT_NE(source, node);
      ASSERT_TRUE(
          edge == indptr[node] ||
          indices[static_cast<size_t>(edge) - 1] < indices[static_cast<size_t>(edge)]
      );
      const auto from = indices.begin() + indptr[source];
      const auto to = indices.begin() + indptr[source + 1];
      ASSERT_TRUE(std::binary_search(from, to, static_cast<int32_t>(node)));
      same_class += labels[source] == labels[node] ? 1 : 0;
    }
  }
  const auto edges = static_cast<double>(indices.size());
  const double mean = edges / static_cast<double>(labels.size());
  EXPECT_NEAR(mean, 13.67, 0.02);
  EXPECT_GT(static_cast<double>(largest), 15 * mean);
  EXPECT_LT(static_cast<double>(isolated), 0.02 * static_cast<double>(labels.size()));
  EXPECT_NEAR(static_cast<double>(same_class) / edges, kHomophily, 0.05);
}

TEST_F(Generate, FlipsTheStatedFractionOfLabels) {
  const auto clean = make(Shape::Arxiv, 0.2);
  const auto noisy = make(Shape::Arxiv, 0.2, 1, 0.3);
  const auto before = to_vector<int64_t>(clean->node_tables[0].labels);
  const auto after = to_vector<int64_t>(noisy->node_tables[0].labels);
  int64_t same = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    same += before[i] == after[i] ? 1 : 0;
  }
  // 33,869 nodes: three standard errors are 0.0074.
  const double share = static_cast<double>(same) / static_cast<double>(before.size());
  EXPECT_NEAR(share, accuracy_ceiling(0.3, 40), 0.0075);
  EXPECT_DOUBLE_EQ(accuracy_ceiling(0.3, 40), 1.0 - 0.3 * 39.0 / 40.0);
}

TEST_F(Generate, FeaturesAreTheMeanOfTheCommunityPlusUnitNoise) {
  const auto dataset = make(Shape::Arxiv, 0.1);
  const auto features = to_vector<float>(dataset->node_tables[0].features);
  const auto labels = to_vector<int64_t>(dataset->node_tables[0].labels);
  double sum = 0;
  double squares = 0;
  int64_t rows = 0;
  for (size_t node = 0; node < labels.size(); ++node) {
    if (labels[node] == 0) {
      sum += static_cast<double>(features[node * 128]);
      squares +=
          static_cast<double>(features[node * 128]) * static_cast<double>(features[node * 128]);
      ++rows;
    }
  }
  const double mean = sum / static_cast<double>(rows);
  EXPECT_NEAR(std::abs(mean), static_cast<double>(kSignal) / std::sqrt(128.0), 0.15);
  EXPECT_NEAR(squares / static_cast<double>(rows) - mean * mean, 1.0, 0.2);
}

TEST_F(Generate, FakeDatasetIsPyGs) {
  const auto dataset = make(Shape::FakeDataset, 0.1);
  ASSERT_TRUE(dataset) << dataset.error().message;
  const int64_t nodes = dataset->node_tables[0].num_nodes;
  EXPECT_GE(nodes, 7500);
  EXPECT_LE(nodes, 12500);
  EXPECT_EQ(dataset->num_classes, 10);
  EXPECT_EQ(dataset->node_tables[0].features.size(1), 64);
  EXPECT_NEAR(
      static_cast<double>(dataset->edge_tables[0].indices.num_elements()) /
          static_cast<double>(nodes),
      20.0,
      0.1
  );
  EXPECT_NEAR(
      static_cast<double>(dataset->train.num_elements()) / static_cast<double>(nodes), 0.6, 0.001
  );
}

TEST_F(Generate, RefusesWhatMakesNoGraph) {
  EXPECT_THAT(
      make(Shape::Arxiv, 0.0001).error().message, HasSubstr("leaves 17 nodes of ogbn-arxiv")
  );
  EXPECT_FALSE(make(Shape::Arxiv, 0.0));
  EXPECT_FALSE(make(Shape::Arxiv, NAN));
  EXPECT_FALSE(make(Shape::Arxiv, 0.1, 1, 1.5));
  EXPECT_THAT(
      parse_shape("mag").error().message,
      HasSubstr("ogbn-arxiv, ogbn-products, reddit, fake-dataset")
  );
}

}  // namespace
}  // namespace gnn::graph
