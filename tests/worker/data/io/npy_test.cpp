#include "worker/data/io/npy.h"

#include "tests/support/mutations.h"
#include "tests/worker/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_bytes;

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

TEST(Npy, RefusesUnsupportedHeaders) {
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

TEST(Npy, RefusesNumbersThatAreNotFinite) {
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

TEST(Npy, ReadsOneStringOfBytesOrOfUnicode) {
  const auto string_of = [](const std::string& bytes) {
    return read_npy_string(*from_memory("s.npy", bytes));
  };
  EXPECT_EQ(string_of(npy_bytes("|S3", "()", "coo")).value(), "coo");
  EXPECT_EQ(string_of(npy_bytes("|S5", "()", std::string("csr\0\0", 5))).value(), "csr");
  EXPECT_EQ(string_of(npy_bytes("<U3", "()", bytes_of<char32_t>({'c', 'o', 0xE9}))).value(), "co?");
  for (const std::string& other :
       {npy_bytes("|S3", "(1,)", "coo"),
        npy_bytes("<i8", "()", "12345678"),
        npy_bytes("|S", "()", "coo"),
        npy_bytes("|S257", "()", std::string(257, 'c'))}) {
    const auto string = string_of(other);
    ASSERT_FALSE(string);
    EXPECT_EQ(string.error().kind, ErrorKind::Data);
    EXPECT_THAT(string.error().message, HasSubstr("s.npy: expected one string"));
  }
  EXPECT_THAT(
      string_of(npy_bytes("|S3", "()", "cooo")).error().message,
      HasSubstr("bytes after its last element")
  );
  EXPECT_THAT(string_of(npy_bytes("|S3", "()", "co")).error().message, HasSubstr("ends too early"));
}

TEST(Npy, WritesReadableHeadersWithPageAlignedElements) {
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
}  // namespace gnn::data
