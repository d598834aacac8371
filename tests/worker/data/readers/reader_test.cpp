#include "worker/data/readers/reader.h"

#include "tests/worker/data/storage_fake.h"
#include "worker/data/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts what is taken beside the arrays of the data set.
class ScratchCounter final : public testing::StorageFake {
 public:
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
    ++num_scratch;
    return StorageFake::scratch(dtype, std::move(shape));
  }

  int num_scratch = 0;
};

std::vector<uint16_t> halves_of(const Array& array) {
  const auto* halves = reinterpret_cast<const uint16_t*>(array.bytes());
  return {halves, halves + array.num_elements()};
}

TEST(FeatureBuffer, StoresFloat16RowsWithoutACopyInFloat32) {
  ScratchCounter storage;
  ReadOptions options;
  options.feature_dtype = DType::Float16;
  auto buffer = FeatureBuffer::create(storage, "x", 3, 2, options);
  ASSERT_TRUE(buffer) << buffer.error().message;
  ASSERT_TRUE(buffer->set_row(2, std::vector<float>{0.25F, -2.0F}));
  ASSERT_TRUE(buffer->set_row(0, std::vector<float>{1.0F, 0.5F}));
  const auto features = buffer->commit(storage);
  ASSERT_TRUE(features) << features.error().message;
  EXPECT_THAT(halves_of(*features), ElementsAre(0x3C00, 0x3800, 0, 0, 0x3400, 0xC000));
  EXPECT_EQ(storage.num_scratch, 0);
}

TEST(FeatureBuffer, NamesTheElementThatIsTooLargeForFloat16) {
  MemoryStorage storage;
  ReadOptions options;
  options.feature_dtype = DType::Float16;
  auto buffer = FeatureBuffer::create(storage, "x", 2, 2, options);
  const Status status = buffer->set_row(1, std::vector<float>{1.0F, 65520.0F});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(status.error().message, HasSubstr("x: element 3: 65520.000000 is too large"));
}

TEST(StoreFeatures, NormalisesBeforeItNarrowsWithoutACopy) {
  ScratchCounter storage;
  // 70,000 is more than float16 holds; divided by the row's sum it is not.
  const std::vector<std::vector<float>> rows{{0.0F, 70000.0F}, {3.0F, 1.0F}};
  const FeatureRows source{
      .name = "x",
      .num_rows = 2,
      .width = 2,
      .read = [&rows](const FeatureRows::Visit& visit) -> Status {
        GNN_RETURN_IF_ERROR(visit(0, rows[0]));
        return visit(1, rows[1]);
      }
  };
  for (const DType dtype : {DType::Float32, DType::Float16}) {
    ReadOptions options;
    options.feature_dtype = dtype;
    options.normalize_rows = true;
    const auto features = store_features(source, options, storage);
    ASSERT_TRUE(features) << features.error().message;
    if (dtype == DType::Float16) {
      EXPECT_THAT(halves_of(*features), ElementsAre(0, 0x3C00, 0x3A00, 0x3400));
    } else {
      const auto values = features->view<float>();
      EXPECT_EQ(values[1], 1.0F);
      EXPECT_EQ(values[2], 0.75F);
    }
  }
  EXPECT_EQ(storage.num_scratch, 0);
}

}  // namespace
}  // namespace gnn::data
