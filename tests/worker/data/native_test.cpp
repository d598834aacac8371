#include "worker/data/native.h"

#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "worker/data/manifest.h"
#include "worker/data/readers/ogb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace gnn::data {
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
  // Nothing of the work is left beside it, and nothing in it but arrays and manifest.
  EXPECT_FALSE(fs::exists(output_ + ".partial"));
  EXPECT_FALSE(fs::exists(output_ + ".lock"));
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
  const auto first = NativeWriter::open(output_, "a");
  ASSERT_TRUE(first);
  const auto second = NativeWriter::open(output_, "a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Conflict);
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
  EXPECT_FALSE(parse_manifest(with_digest("a: [b\n"), "m"));
}

}  // namespace
}  // namespace gnn::data
