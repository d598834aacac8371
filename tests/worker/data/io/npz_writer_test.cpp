#include "worker/data/io/npz_writer.h"

#include "tests/worker/data/files.h"
#include "worker/data/io/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// The reader checks sizes, offsets and CRC-32 of each member.
TEST(NpzWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npz");
  auto writer = NpzWriter::create(path);
  ASSERT_TRUE(writer) << writer.error().message;
  // More than its buffer, in pieces.
  std::vector<int64_t> many(300'000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i * i);
  ASSERT_TRUE(writer->begin("many", DType::Int64, {2, 150'000}));
  ASSERT_TRUE(writer->write(std::span<const int64_t>(many).first(7)));
  ASSERT_TRUE(writer->write(std::span<const int64_t>(many).subspan(7)));
  const std::vector<float> few{1.5F, -2.0F};
  ASSERT_TRUE(writer->begin("few", DType::Float32, {2}));
  ASSERT_TRUE(writer->write(std::span<const float>(few)));
  EXPECT_THAT(NpzArchive::open(path).error().message, HasSubstr("cut short"));
  ASSERT_TRUE(writer->finish());

  const auto archive = NpzArchive::open(path);
  ASSERT_TRUE(archive) << archive.error().message;
  auto reader = archive->open_array("many");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_THAT(reader->header().shape, ElementsAre(2, 150'000));
  std::vector<int64_t> found(many.size());
  ASSERT_TRUE(reader->read_integers(found));
  ASSERT_TRUE(reader->finish());
  EXPECT_EQ(found, many);
  std::vector<float> floats(2);
  ASSERT_TRUE(archive->open_array("few")->read_floats(floats));
  EXPECT_EQ(floats, few);
}

}  // namespace
}  // namespace gnn::data
