#include "worker/data/io/npz.h"

#include "tests/support/mutations.h"
#include "tests/worker/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::data {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::TemporaryFolder;
using testing::zip_bytes;

class Npz : public ::testing::Test {
 protected:
  Result<std::vector<int64_t>> read(const std::string& bytes, const std::string& member) {
    GNN_ASSIGN_OR_RETURN(const NpzArchive archive, NpzArchive::open(folder_.write("x.npz", bytes)));
    GNN_ASSIGN_OR_RETURN(NpyReader reader, archive.open_array(member));
    std::vector<int64_t> values(static_cast<size_t>(reader.header().num_elements()));
    GNN_RETURN_IF_ERROR(reader.read_integers(values));
    GNN_RETURN_IF_ERROR(reader.finish());
    return values;
  }
  TemporaryFolder folder_;
  std::vector<testing::ZipMember> members_{
      {"a.npy", npy_bytes("<i8", "(3,)", bytes_of<int64_t>({1, 2, 3})), false},
      {"b.npy", npy_bytes("<i4", "(2, 2)", bytes_of<int32_t>({4, 5, 6, 7})), true},
  };
};

TEST_F(Npz, ReadsStoredAndDeflatedMembersOfZipAndZip64) {
  for (const bool zip64 : {false, true}) {
    const std::string bytes = zip_bytes(members_, zip64);
    EXPECT_THAT(read(bytes, "a").value(), ElementsAre(1, 2, 3));
    EXPECT_THAT(read(bytes, "b").value(), ElementsAre(4, 5, 6, 7));
  }
}

TEST_F(Npz, NamesTheExistingMembers) {
  const auto values = read(zip_bytes(members_), "c");
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().kind, ErrorKind::NotFound);
  EXPECT_THAT(values.error().message, HasSubstr("no member 'c'; it has: a, b"));
}

TEST_F(Npz, ReportsDamage) {
  const std::string bytes = zip_bytes(members_);
  EXPECT_THAT(
      read(bytes.substr(0, bytes.size() - 30), "a").error().message, HasSubstr("cut short")
  );
  std::string flipped = bytes;
  flipped[5 + 30 + 130] ^= 1;  // an element of "a"
  EXPECT_THAT(read(flipped, "a").error().message, HasSubstr("CRC-32"));
  EXPECT_THAT(read("", "a").error().message, HasSubstr("no end-of-archive record"));
}

TEST_F(Npz, RefusesImpossibleSizes) {
  // The unpacked size of "b" in the directory: far more than deflate can pack.
  std::string bytes = zip_bytes(members_);
  const size_t entry = bytes.find("PK\x01\x02", bytes.find("PK\x01\x02") + 1);
  bytes.replace(entry + 24, 4, "\xFF\xFF\xFF\x7F");
  EXPECT_THAT(read(bytes, "b").error().message, HasSubstr("unpacked size"));
}

TEST_F(Npz, SurvivesMutations) {
  gnn::testing::Mutations mutations(7);
  int read_whole = 0;
  for (const bool zip64 : {false, true}) {
    const std::string whole = zip_bytes(members_, zip64);
    for (int round = 0; round < gnn::testing::mutation_rounds(300); ++round) {
      const std::string bytes = mutations.of(whole);
      for (const char* member : {"a", "b"}) {
        const auto values = read(bytes, member);
        if (values) {
          ++read_whole;
          EXPECT_LE(values->size(), 4U * 8U);
        } else {
          EXPECT_FALSE(values.error().message.empty());
        }
      }
    }
  }
  EXPECT_GT(read_whole, 0);  // otherwise nothing but the first check was tried
}

}  // namespace
}  // namespace gnn::data
