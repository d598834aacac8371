#include "worker/interop/safetensors.h"

#include "tests/support/mutations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace gnn::interop {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a file says, so that two can be compared.
struct Contents {
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> data;
  Metadata metadata;

  friend bool operator==(const Contents&, const Contents&) = default;
};

// The contents of a file, its tensors being at most as large as `expected` allows, if that is given.
Result<Contents> read(
    const std::string& bytes, const std::optional<std::vector<TensorEntry>>& expected = std::nullopt
) {
  GNN_ASSIGN_OR_RETURN(
      auto reader, SafetensorsReader::open(data::from_memory("m.safetensors", bytes))
  );
  if (expected) GNN_RETURN_IF_ERROR(reader.check_tensors(*expected));
  Contents contents{
      .tensors = reader.header().tensors, .data = {}, .metadata = reader.header().metadata
  };
  GNN_RETURN_IF_ERROR(reader.read([&](const TensorEntry& entry) {
    size_t size = entry.dtype == Dtype::I64 ? 8 : 4;
    for (const int64_t dimension : entry.shape) size *= static_cast<size_t>(dimension);
    std::string& data = contents.data[entry.name];
    data.assign(size, '\0');
    return std::as_writable_bytes(std::span(data));
  }));
  return contents;
}

std::string joined(const SafetensorsFile& file) {
  std::string bytes = file.head;
  for (const std::span<const std::byte> piece : file.data)
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

const std::array<float, 6> kWeight = {1, -2, 3, 0.5, 5, 6};
const std::array<float, 1> kBias = {0.25};
const std::array<int64_t, 1> kBatches = {7};

std::vector<TensorBytes> small_model() {
  return {
      {.entry = {.name = "layers.0.weight", .dtype = Dtype::F32, .shape = {2, 3}},
       .data = std::as_bytes(std::span(kWeight))},
      {.entry = {.name = "bias", .dtype = Dtype::F32, .shape = {1}},
       .data = std::as_bytes(std::span(kBias))},
      {.entry = {.name = "norm.num_batches_tracked", .dtype = Dtype::I64, .shape = {}},
       .data = std::as_bytes(std::span(kBatches))},
      {.entry = {.name = "empty", .dtype = Dtype::F32, .shape = {0, 4}}, .data = {}},
  };
}

std::vector<TensorEntry> entries_of(const std::vector<TensorBytes>& tensors) {
  std::vector<TensorEntry> entries;
  for (const TensorBytes& tensor : tensors) entries.push_back(tensor.entry);
  return entries;
}

std::string small_file() {
  return joined(encode_safetensors(small_model(), {{"format", "pt"}, {"gnn.model", "GCN"}}).value()
  );
}

// A file of another writer.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

TEST(Safetensors, ReadsWhatItWroteAlignedAndInAnOrderOfItsOwn) {
  const auto found = read(small_file(), entries_of(small_model()));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(
      found->data.at("layers.0.weight"),
      std::string(reinterpret_cast<const char*>(kWeight.data()), sizeof kWeight)
  );
  EXPECT_EQ(found->metadata.at("format"), "pt");
  EXPECT_EQ(found->metadata.at("gnn.model"), "GCN");

  const std::string bytes = small_file();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  const auto header = SafetensorsReader::open(data::from_memory("m", bytes)).value().header();
  EXPECT_EQ(header.tensors.front().name, "norm.num_batches_tracked");
  EXPECT_THAT(bytes, HasSubstr(R"("bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]})"));

  auto reversed = small_model();
  std::ranges::reverse(reversed);
  const Metadata metadata = {{"gnn.model", "GCN"}, {"format", "pt"}};
  EXPECT_EQ(joined(encode_safetensors(std::move(reversed), metadata).value()), bytes);
}

TEST(Safetensors, ReadsFilesOfOtherWriters) {
  const auto found = read(file_of(
      R"({"b" : {"shape": [], "data_offsets":[4,8], "dtype":"I32"},
          "a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}   )",
      "aaaabbbb"
  ));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->data.at("a"), "aaaa");
  EXPECT_EQ(found->data.at("b"), "bbbb");
}

TEST(Safetensors, NamesWhatIsWrongInAHeader) {
  struct Case {
    std::string header;
    std::string problem;
  };
  const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::vector<Case> cases = {
      {"{" + good + "," + good + "}", "tensor a: expected an object"},
      {R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "dtype twice"},
      {R"({"__metadata__":{"k":"1","k":"2"},)" + good + "}", "__metadata__: expected"},
      {R"({"__metadata__":{"k":{"deeper":"2"}},)" + good + "}", "found an object"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "the dtype F33"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "tensor a: expected"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "found a list"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "a longer list"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "the key x"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})",
       "tensor a: expected more than 2^63 bytes"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
       "a number above 2^63 - 1"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "tensor a: expected 8 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "tensor a: expected data"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", "from offset 0"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "to end at offset 4"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       "tensor b: expected data from offset 3"},
      {R"([])", "start with {"},
      {R"({"a":)", "not valid JSON"},
  };
  for (const Case& each : cases) {
    const auto found = read(file_of(each.header, "data"));
    ASSERT_FALSE(found) << each.header;
    EXPECT_EQ(found.error().kind, ErrorKind::Data);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr("m.safetensors: "), HasSubstr(each.problem)))
        << each.header;
  }
}

TEST(Safetensors, BoundsTheHeaderByTheFileAndBy16MiB) {
  std::string bytes = file_of("{}", "");
  const auto with_length = [&](uint64_t length) {
    std::memcpy(bytes.data(), &length, sizeof length);
    return read(bytes);
  };
  EXPECT_TRUE(with_length(2));
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 62U, ~uint64_t{0}}) {
    const auto found = with_length(length);
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr("header: expected at most 2 bytes"));
  }
  const auto large = read(file_of(std::string((16U << 20U) + 1, ' '), ""));
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, HasSubstr("header: expected at most 16777216 bytes"));
}

TEST(Safetensors, TakesNothingForWholeThatIsCutOff) {
  const std::string bytes = small_file();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto found = read(bytes.substr(0, length));
    ASSERT_FALSE(found) << length;
    EXPECT_EQ(found.error().kind, ErrorKind::Data);
  }
  EXPECT_FALSE(read(bytes + '\0'));
}

TEST(Safetensors, TakesNoChangedBitForTheSame) {
  const std::string bytes = small_file();
  const Contents whole = read(bytes).value();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto found = read(changed, entries_of(small_model()));
      if (found) {
        EXPECT_EQ(*found, whole) << at << " " << bit;
      } else {
        EXPECT_EQ(found.error().kind, ErrorKind::Data);
      }
    }
  }
}

TEST(Safetensors, SurvivesMutations) {
  const std::string bytes = small_file();
  const Contents whole = read(bytes).value();
  testing::Mutations mutations(23);
  for (int round = testing::mutation_rounds(5000); round > 0; --round) {
    const std::string changed = mutations.of(bytes);
    const auto found = read(changed, entries_of(small_model()));
    if (found) {
      EXPECT_EQ(found->data, whole.data);
    } else {
      EXPECT_EQ(found.error().kind, ErrorKind::Data);
    }
  }
}

TEST(Safetensors, NamesTheTensorThatTheModelDoesNotHaveSo) {
  const auto reader = SafetensorsReader::open(data::from_memory("m.safetensors", small_file()));
  const auto problem = [&](auto&& change) {
    std::vector<TensorEntry> expected = entries_of(small_model());
    change(expected);
    return reader->check_tensors(expected).error().message;
  };
  EXPECT_EQ(
      problem([](auto& tensors) { tensors[0].shape = {3, 2}; }),
      "m.safetensors: tensor layers.0.weight: expected F32 [3, 2], found F32 [2, 3]"
  );
  EXPECT_EQ(
      problem([](auto& tensors) { tensors[1].dtype = Dtype::I32; }),
      "m.safetensors: tensor bias: expected I32 [1], found F32 [1]"
  );
  EXPECT_EQ(
      problem([](auto& tensors) { tensors[1].name = "b"; }),
      "m.safetensors: tensor b: expected F32 [1], found none"
  );
  EXPECT_EQ(
      problem([](auto& tensors) { tensors.pop_back(); }),
      "m.safetensors: tensor empty: the model has none of this name"
  );
}

}  // namespace
}  // namespace gnn::interop
