#include "worker/data/native.h"

#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/shop.h"
#include "worker/data/digest.h"
#include "worker/data/links.h"
#include "worker/data/manifest.h"
#include "worker/data/readers/ogb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

using gnn::testing::mutation_rounds;
using gnn::testing::Mutations;
using gnn::testing::read_file;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OgbFiles;
using testing::shop;
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
    const auto dataset = open_native(output_);
    return dataset ? "" : dataset.error().message;
  }
  void damage(const std::string& file, size_t at) {
    std::string bytes = read_file(output_ + "/" + file);
    bytes.at(at) = static_cast<char>(~bytes.at(at));
    folder_.write("out/" + file, bytes);
  }

  TemporaryFolder folder_;
  std::string output_ = folder_.path("out");
  SilentProgressBar silent_;
};

TEST_F(Native, ReadsBackWhatWasWritten) {
  ASSERT_TRUE(publish());
  MemoryStorage memory;
  const DatasetArrays wanted = *read_ogb(folder_.path("ring"), {}, memory, silent_);
  const auto found = open_native(output_);
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
  // Nothing of the work is left beside it but the lock's file, and nothing in it but arrays and
  // manifest.
  EXPECT_FALSE(fs::exists(output_ + ".partial"));
  EXPECT_FALSE(fs::exists(output_ + "/journal.yaml"));
}

TEST_F(Native, ReplacesOnlyWhenAsked) {
  ASSERT_TRUE(publish("key-1"));
  const Status refused = publish("key-2");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Conflict);
  EXPECT_EQ(published_key(output_), "key-1");
  ASSERT_TRUE(publish("key-2", true));
  EXPECT_EQ(published_key(output_), "key-2");
  EXPECT_FALSE(fs::exists(output_ + ".partial"));
}

TEST_F(Native, PublishesOverAnEmptyFolder) {
  fs::create_directories(output_);
  EXPECT_TRUE(publish());
}

TEST_F(Native, RefusesASecondWriter) {
  auto first = NativeWriter::open(output_, "a");
  ASSERT_TRUE(first);
  const auto second = NativeWriter::open(output_, "a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Conflict);
  EXPECT_THAT(
      second.error().message,
      HasSubstr("is being written by process " + std::to_string(getpid()) + " on ")
  );
  first->reset();
  EXPECT_TRUE(NativeWriter::open(output_, "a"));
}

TEST_F(Native, ResumesFromCompletedArrays) {
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
  EXPECT_EQ(open_native(output_).error().kind, ErrorKind::NotFound);
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

TEST_F(Native, ResumesAfterACutJournalEntry) {
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

TEST_F(Native, ResumedImportWritesTheSameBytes) {
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

TEST_F(Native, ChecksFilesAgainstTheManifest) {
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
  EXPECT_EQ(open_native(output_).error().kind, ErrorKind::NotFound);
}

TEST_F(Native, VerifyFindsAFlippedBit) {
  ASSERT_TRUE(publish());
  damage("nodes.node.features.npy", 4096 + 5);
  const auto dataset = open_native(output_);
  ASSERT_TRUE(dataset);  // the right size and type
  const Status status = verify_digests(output_, *dataset, silent_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(status.error().message, HasSubstr("nodes.node.features.npy: damaged"));
}

TEST_F(Native, AFileInsteadOfAFolderIsNotFound) {
  folder_.write("edges.csv", "0,1\n");
  EXPECT_EQ(open_native(folder_.path("edges.csv")).error().kind, ErrorKind::NotFound);
}

TEST_F(Native, ANamedPipeIsRefusedInsteadOfWaitedFor) {
  ASSERT_TRUE(publish());
  const std::string pipe = output_ + "/nodes.node.labels.npy";
  fs::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto errors = [&] {
    alarm(60);  // if it waits
    std::cerr << open_error() << "; " << map_file(pipe).error().message;
    std::_Exit(0);
  };
  EXPECT_EXIT(
      errors(),
      ::testing::ExitedWithCode(0),
      "labels.npy: expected a regular file; .*labels.npy: expected a regular file"
  );
}

TEST_F(Native, RefusesADamagedManifest) {
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
      with("version: 2", "version: 9"),
      HasSubstr("version 9 of the on-disk form, this program knows 1 to 2")
  );
  for (const char* no_number : {"version: ", "version: two", "version: [2]", "version: -1"}) {
    EXPECT_THAT(
        with("version: 2", no_number), HasSubstr("version: expected a number that is not negative")
    );
  }
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

TEST_F(Native, HasAnotherVersionAfterEachChangeToAFile) {
  ASSERT_TRUE(publish());
  const auto version = [&] { return open_native(output_)->version; };
  const std::string before = version();
  EXPECT_EQ(version(), before);

  const fs::path file = output_ + "/nodes.node.features.npy";
  const auto written_at = fs::last_write_time(file);
  fs::last_write_time(file, written_at + std::chrono::nanoseconds(1));
  const std::string touched = version();
  EXPECT_NE(touched, before);

  // The time of its contents put back: that of its status is the kernel's, whose clock may be coarse.
  std::string put_back = before;
  for (int tries = 0; tries < 10000 && put_back == before; ++tries) {
    fs::last_write_time(file, written_at);
    put_back = version();
  }
  EXPECT_NE(put_back, before);

  fs::copy_file(file, output_ + "/copy");
  fs::rename(output_ + "/copy", file);
  fs::last_write_time(file, written_at);
  EXPECT_NE(version(), put_back);
}

// With its own digest, as a program that writes such a manifest makes it.
std::string signed_text(const std::string& body) {
  return body + "digest: " + digest_of(DigestKind::Xxh64, std::as_bytes(std::span(body))) + "\n";
}

// All lines of a manifest before its digest.
std::string body_of(const std::string& manifest) {
  return manifest.substr(0, manifest.rfind("digest: "));
}

// What version 1 wrote for the ring, without the list of arrays.
constexpr const char* kFirstVersion = R"(format: gnn-native
version: 1
key: key-0
name: ring
task:
  targetNodeType: node
  numClasses: 3
nodeTypes:
  - name: node
    count: 6
    features: nodes.node.features
    labels: nodes.node.labels
edgeTypes:
  - source: node
    relation: to
    destination: node
    indptr: edges.node.to.node.indptr
    indices: edges.node.to.node.indices
split:
  train: split.train
  validation: split.validation
  test: split.test
origin:
  source: OGB
  path: "/data/ring"
  options: "split="
  inputs:
    - {path: "/data/ring/raw/edge.csv.gz", bytes: 61, digest: xxh64:0123456789abcdef}
  facts:
    {}
)";

TEST_F(Native, ReadsAFolderOfTheFirstVersion) {
  ASSERT_TRUE(publish());
  const std::string now = read_file(output_ + "/" + kManifestFile);
  const std::string arrays = body_of(now).substr(now.find("arrays:"));
  folder_.write("out/" + std::string(kManifestFile), signed_text(kFirstVersion + arrays));
  const auto found = open_native(output_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->key, "key-0");
  const NodeTable& nodes = found->arrays.node_tables[0];
  EXPECT_EQ(nodes.features_name, "features");
  EXPECT_EQ(nodes.features.shape(), (std::vector<int64_t>{6, 2}));
  EXPECT_TRUE(nodes.more_features.empty());
  EXPECT_FALSE(found->arrays.links);
  EXPECT_EQ(found->arrays.train.num_elements(), 3);
  EXPECT_EQ(found->arrays.edge_tables[0].indices.num_elements(), 8);
  EXPECT_TRUE(verify_digests(output_, *found, silent_));
}

// Shop with links, their reverse and two matrices of items, in a folder.
class NativeShop : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = *NativeWriter::open(output_, "shop");
    const Array no_array;
    DatasetArrays dataset = shop();
    for (EdgeTable& table : dataset.edge_tables) {
      for (Array* array : {&table.indptr, &table.indices, &table.edge_ids}) {
        *array = array->defined() ? copy(*writer, *array) : no_array;
      }
    }
    dataset.node_tables[1].features = matrix(*writer, "nodes.item.features", 1);
    dataset.node_tables[1].features_name = "text";
    dataset.node_tables[1].more_features.push_back(
        {.name = "image", .rows = matrix(*writer, "nodes.item.features.image", 3)}
    );
    dataset = *set_links(
        dataset, {.source = "user", .relation = "buys", .destination = "item"}, *writer, silent_
    );
    dataset = *add_reverse(dataset, *writer, silent_);
    const Status published = writer->publish(dataset, false);
    ASSERT_TRUE(published) << published.error().message;
    manifest_ = read_file(output_ + "/" + kManifestFile);
  }
  static Array copy(NativeWriter& writer, const Array& from) {
    Array to = *writer.create(from.name(), from.dtype(), from.shape());
    std::copy_n(from.bytes(), from.num_bytes(), to.mutable_bytes());
    return *writer.commit(std::move(to));
  }
  static Array matrix(NativeWriter& writer, const std::string& name, int64_t width) {
    return *writer.commit(*writer.create(name, DType::Float32, {2, width}));
  }
  // The error of opening the folder after a change to its manifest, which is signed again.
  std::string error_with(const std::string& from, const std::string& to) {
    std::string body = body_of(manifest_);
    body.replace(body.find(from), from.size(), to);
    folder_.write("out/" + std::string(kManifestFile), signed_text(body));
    const auto opened = open_native(output_);
    return opened ? "" : opened.error().message;
  }

  TemporaryFolder folder_;
  std::string output_ = folder_.path("out");
  std::string manifest_;
  SilentProgressBar silent_;
};

TEST_F(NativeShop, ReadsBackTypesLinksAndNamedFeatures) {
  const auto found = open_native(output_);
  ASSERT_TRUE(found) << found.error().message;
  const DatasetArrays& arrays = found->arrays;
  ASSERT_EQ(arrays.node_tables.size(), 2U);
  EXPECT_FALSE(arrays.node_tables[0].features.defined());
  const NodeTable& items = arrays.node_tables[1];
  EXPECT_EQ(items.features_name, "text");
  EXPECT_EQ(items.features.name(), "nodes.item.features");
  ASSERT_EQ(items.more_features.size(), 1U);
  EXPECT_EQ(items.more_features[0].name, "image");
  EXPECT_EQ(items.more_features[0].rows.shape(), (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(arrays.edge_tables.size(), 3U);
  ASSERT_TRUE(arrays.links);
  EXPECT_EQ(arrays.links->edge_table, 0U);
  EXPECT_EQ(arrays.links->reverse_edge_table, 2U);
  EXPECT_THAT(to_vector<int64_t>(arrays.links->pairs), ElementsAre(2, 0, 0, 1, 1, 0, 2, 1));
  EXPECT_EQ(found->mappings.size(), found->files.size());
  EXPECT_TRUE(verify_digests(output_, *found, silent_));
}

TEST_F(NativeShop, NamesTheFieldOfLinksThatIsWrong) {
  const std::string links = "edgeType: [user, buys, item]";
  EXPECT_EQ(error_with(links, links), "");
  EXPECT_THAT(
      error_with(links, "edgeType: [user, buys, shop]"),
      HasSubstr("edgeType: no edge type (user, buys, shop)")
  );
  EXPECT_THAT(
      error_with(links, "edgeType: [user, buys]"),
      HasSubstr("edgeType: expected [source, relation, destination]")
  );
  EXPECT_THAT(error_with("reverse: [", "reverse: [[], "), HasSubstr("reverse: expected [source"));
  EXPECT_THAT(error_with("pairs: links.pairs", "pair: x"), HasSubstr("unknown field 'pair'"));
  EXPECT_THAT(
      error_with("pairs: links.pairs", "pairs: nodes.item.features"),
      HasSubstr("array 'nodes.item.features': expected 2 dimensions of int64")
  );
  EXPECT_THAT(error_with("name: image", "title: image"), HasSubstr("unknown field 'title'"));
}

TEST_F(NativeShop, HasADigestThatCoversItsLinksAndTheCountsOfItsNodes) {
  DatasetArrays arrays = open_native(output_)->arrays;
  const std::string digest = digest_of(arrays);
  arrays.node_tables[0].num_nodes = 4;  // that no array tells
  EXPECT_NE(digest_of(arrays), digest);
  arrays.node_tables[0].num_nodes = 3;
  EXPECT_EQ(digest_of(arrays), digest);
  arrays.links->pairs = testing::ids_array("links.pairs", {2, 0, 0, 1, 1, 0, 2, 0});
  EXPECT_NE(digest_of(arrays), digest);
}

// A right digest does not make a manifest right: somebody may have edited it.
TEST_F(NativeShop, SurvivesAnyManifest) {
  Mutations mutations(11);
  const std::string body = body_of(manifest_);
  const int rounds = mutation_rounds(4000);
  for (int round = 0; round < rounds; ++round) {
    const auto parsed = parse_manifest(signed_text(mutations.of(body)), "m");
    if (!parsed) {
      EXPECT_THAT(parsed.error().kind, AnyOf(ErrorKind::Data, ErrorKind::Configuration))
          << parsed.error().message;
      continue;
    }
    const auto again = encode_manifest(parsed->dataset, parsed->files, parsed->key);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(parse_manifest(*again, "m"));
  }
}

std::string with_digest(const std::string& body) {
  return body + "digest: " + "xxh64:0000000000000000\n";
}

TEST(Manifest, RefusesAFileNameOutsideTheDirectory) {
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
  array.file = "a\x1B[2J.npy";  // would clear a terminal
  EXPECT_THAT(
      parse_manifest(*encode_manifest(dataset, {array}, "k"), "m").error().message,
      HasSubstr("file: expected the plain name of a file, found control characters in it")
  );
  EXPECT_FALSE(parse_manifest(with_digest("a: [b\n"), "m"));
}

}  // namespace
}  // namespace gnn::data
