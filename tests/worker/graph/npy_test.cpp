#include "worker/graph/io/npy.h"

#include "tests/support/mutations.h"
#include "tests/worker/graph/files.h"
#include "worker/graph/half.h"
#include "worker/graph/io/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace gnn::graph {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::TemporaryFolder;
using testing::zip_bytes;

Result<std::vector<int64_t>> integers_of(const std::string& bytes) {
  GNN_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::open(from_memory("x.npy", bytes)));
  std::vector<int64_t> values(static_cast<size_t>(reader.header().num_elements()));
  GNN_RETURN_IF_ERROR(reader.read_integers(values));
  GNN_RETURN_IF_ERROR(reader.finish());
  return values;
}

std::string error_of(const std::string& bytes) {
  const auto values = integers_of(bytes);
  return values ? "" : values.error().message;
}

TEST(Npy, ReadsEveryIntegerTypeAndWholeFloats) {
  EXPECT_THAT(
      *integers_of(npy_bytes("<i8", "(2,)", bytes_of<int64_t>({-5, 1LL << 40}))),
      ElementsAre(-5, 1LL << 40)
  );
  EXPECT_THAT(
      *integers_of(npy_bytes("<i4", "(2,)", bytes_of<int32_t>({-5, 7}))), ElementsAre(-5, 7)
  );
  EXPECT_THAT(
      *integers_of(npy_bytes("<u4", "(1,)", bytes_of<uint32_t>({4'000'000'000U}))),
      ElementsAre(4'000'000'000)
  );
  EXPECT_THAT(*integers_of(npy_bytes("<i2", "(1,)", bytes_of<int16_t>({-300}))), ElementsAre(-300));
  EXPECT_THAT(*integers_of(npy_bytes("|u1", "(1,)", bytes_of<uint8_t>({200}))), ElementsAre(200));
  EXPECT_THAT(*integers_of(npy_bytes("|i1", "(1,)", bytes_of<int8_t>({-3}))), ElementsAre(-3));
  EXPECT_THAT(*integers_of(npy_bytes("<f8", "(1,)", bytes_of<double>({12.0}))), ElementsAre(12));
  EXPECT_THAT(
      error_of(npy_bytes("<f4", "(2,)", bytes_of<float>({1.0F, 1.5F}))),
      HasSubstr("element 1 (offset 132)")
  );
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  std::string bytes = npy_bytes("<i8", "(1,)", bytes_of<int64_t>({9}));
  for (const char version : {'\x02', '\x03'}) {
    std::string longer = bytes.substr(0, 6) + version + std::string(1, '\0') + bytes.substr(8, 2) +
                         std::string(2, '\0') + bytes.substr(10);
    EXPECT_THAT(*integers_of(longer), ElementsAre(9));
  }
  bytes[6] = '\x04';
  EXPECT_THAT(error_of(bytes), HasSubstr("expected .npy version 1, 2 or 3, found 4"));
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_THAT(error_of("not a npy file at all"), HasSubstr("offset 0: expected a .npy file"));
  EXPECT_THAT(error_of("\x93NUM"), HasSubstr("ends too early"));
  EXPECT_THAT(
      error_of(npy_bytes(">i8", "(1,)", bytes_of<int64_t>({9}))),
      HasSubstr("big-endian elements ('>i8')")
  );
  EXPECT_THAT(
      error_of(npy_bytes("|O", "(1,)", "12345678")), HasSubstr("element type '|O' is not supported")
  );
  EXPECT_THAT(
      error_of(npy_bytes("<c8", "(1,)", "12345678")),
      HasSubstr("element type '<c8' is not supported")
  );
  EXPECT_THAT(error_of(npy_bytes("<i8", "(-1,)", "")), HasSubstr("not negative"));
  EXPECT_THAT(
      error_of(npy_bytes("<i8", "(4611686018427387904, 8)", "")), HasSubstr("is not possible")
  );
  EXPECT_THAT(
      error_of(npy_bytes("<i8", "(1152921504606846976, 8)", "")), HasSubstr("is not possible")
  );
  EXPECT_THAT(
      error_of(npy_bytes("<i8", "(3,)", bytes_of<int64_t>({1, 2}))),
      HasSubstr("offset 128: expected 24 bytes of int64 [3], found 16 (cut short?)")
  );
  EXPECT_THAT(
      error_of(npy_bytes("<i8", "(1,)", bytes_of<int64_t>({1, 2}))),
      HasSubstr("bytes after its last element")
  );
  EXPECT_THAT(
      error_of(npy_bytes("<f2", "(1,)", "12")), HasSubstr("expected integers, found float16")
  );
}

TEST(Npy, FindsNumbersThatAreNotFinite) {
  auto reader = NpyReader::open(
      from_memory("f.npy", npy_bytes("<f4", "(2, 2)", bytes_of<float>({1, 2, std::nanf(""), 4})))
  );
  std::vector<float> values(4);
  const Status status = reader->read_floats(values);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(
      status.error().message, HasSubstr("f.npy: element 2 (offset 136): expected a finite number")
  );
}

TEST(Npy, WritesHeadersItReadsBackWithPageAlignedElements) {
  for (const DType dtype :
       {DType::Bool, DType::Int32, DType::Int64, DType::Float16, DType::BFloat16, DType::Float32}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {0}, {3}, {2, 5}}) {
      const std::string bytes = *make_npy_header(dtype, shape);
      int64_t elements = 1;
      for (const int64_t size : shape) {
        elements *= size;
      }
      auto source = from_memory(
          "h", bytes + std::string(static_cast<size_t>(elements * dtype_size(dtype)), '\0')
      );
      const auto header = read_npy_header(*source);
      ASSERT_TRUE(header) << header.error().message;
      EXPECT_EQ(header->dtype, dtype);
      EXPECT_EQ(header->shape, shape);
      EXPECT_EQ(header->data_offset, 4096);
    }
  }
}

TEST(Half, ConvertsEveryHalfThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3C00);  // halfway: to even
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3C02);
}

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

TEST_F(Npz, NamesTheMembersThereAre) {
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

TEST_F(Npz, RefusesSizesThatCannotBe) {
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

TEST(NpyMutations, SurviveAnyHeader) {
  gnn::testing::Mutations mutations(11);
  const std::string whole = npy_bytes("<i8", "(2, 3)", bytes_of<int64_t>({1, 2, 3, 4, 5, 6}));
  constexpr size_t kHeader = 80;
  int failed = 0;
  int read_whole = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(20000); ++round) {
    const std::string bytes = mutations.of(whole.substr(0, kHeader)) + whole.substr(kHeader);
    const auto values = integers_of(bytes);
    if (values) {
      ++read_whole;
      EXPECT_LE(values->size(), bytes.size());
    } else {
      ++failed;
    }
  }
  EXPECT_GT(failed, 1000);
  EXPECT_GT(read_whole, 0);
}

}  // namespace
}  // namespace gnn::graph
