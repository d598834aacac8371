#include "worker/checkpoint/checkpoint_format.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace gnn::checkpoint {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

CheckpointState small_state() {
  return {
      .epoch = 2,
      .step = 3,
      .steps_per_epoch = 45,
      .global_step = 93,
      .world_size = 4,
      .config_hash = "c0ffee",
      .bucket_layout_hash = "b0b",
      .environment = {{"cpu", "AVX2"}, {"threads", "2"}},
      .history = {.sums = {.loss = 1.5, .items = 12, .correct = 5}, .epochs = {{}, {}}},
      .model = {{"weight", at::arange(6, at::kFloat).view({2, 3})}},
      .optimizer = {{"0/step", at::full({}, 93, at::kLong)}},
      .embeddings = {{"embeddings/user/last_steps", at::full({4}, 7, at::kInt)}},
  };
}

// The manifest without its seal.
Json manifest_of(const EncodedCheckpoint& encoded) {
  return Json::parse(unseal(encoded.bytes.manifest).value());
}

Result<CheckpointState> decode_changed(void (*change)(Json&)) {
  const EncodedCheckpoint encoded = encode_checkpoint(small_state()).value();
  Json json = manifest_of(encoded);
  change(json);
  return decode_checkpoint({.manifest = seal(json.dump(1)), .data = encoded.bytes.data});
}

TEST(CheckpointFormat, KeepsEveryField) {
  const EncodedCheckpoint encoded = encode_checkpoint(small_state()).value();
  const auto found = decode_checkpoint(encoded.bytes);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->epoch, 2);
  EXPECT_EQ(found->step, 3);
  EXPECT_EQ(found->steps_per_epoch, 45);
  EXPECT_EQ(found->global_step, 93);
  EXPECT_EQ(found->world_size, 4);
  EXPECT_EQ(found->config_hash, "c0ffee");
  EXPECT_EQ(found->bucket_layout_hash, "b0b");
  EXPECT_EQ(found->environment, small_state().environment);
  EXPECT_EQ(found->history.sums.loss, 1.5);
  EXPECT_EQ(found->history.sums.items, 12);
  EXPECT_EQ(found->history.epochs.size(), 2U);
  ASSERT_EQ(found->model.size(), 1U);
  EXPECT_EQ(found->model[0].name, "weight");
  EXPECT_TRUE(found->model[0].tensor.equal(small_state().model[0].tensor));
  ASSERT_EQ(found->optimizer.size(), 1U);
  EXPECT_EQ(found->optimizer[0].tensor.item<int64_t>(), 93);
  ASSERT_EQ(found->embeddings.size(), 1U);
  EXPECT_EQ(found->embeddings[0].name, "embeddings/user/last_steps");
  EXPECT_TRUE(found->embeddings[0].tensor.equal(small_state().embeddings[0].tensor));
}

TEST(CheckpointFormat, WritesWhatPeopleReadAsFields) {
  const Json json = manifest_of(encode_checkpoint(small_state()).value());
  EXPECT_EQ(json.at("version"), 2);
  EXPECT_EQ(json.at("epoch"), 2);
  EXPECT_EQ(json.at("step"), 3);
  EXPECT_EQ(json.at("stepsPerEpoch"), 45);
  EXPECT_EQ(json.at("environment").at("cpu"), "AVX2");
  EXPECT_EQ(json.at("history").at("correct"), 5);
  EXPECT_FALSE(json.contains("notes"));
}

TEST(CheckpointFormat, EncodesTheSameStateToTheSameBytes) {
  const EncodedCheckpoint first = encode_checkpoint(small_state()).value();
  const EncodedCheckpoint again = encode_checkpoint(decode_checkpoint(first.bytes).value()).value();
  EXPECT_EQ(first.bytes.manifest, again.bytes.manifest);
  EXPECT_EQ(first.bytes.data, again.bytes.data);
}

TEST(CheckpointFormat, RefusesAnotherFormatByItsNumber) {
  const auto old = decode_changed([](Json& json) { json["version"] = 1; });
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().kind, ErrorKind::Data);
  EXPECT_THAT(old.error().message, HasSubstr("written in checkpoint format 1"));
  EXPECT_THAT(old.error().message, HasSubstr("this worker reads format 2"));
}

TEST(CheckpointFormat, RefusesAHistoryThatIsDamaged) {
  const auto missing = decode_changed([](Json& json) { json.erase("history"); });
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Data);
  EXPECT_THAT(missing.error().message, HasSubstr("history"));
  EXPECT_FALSE(decode_changed([](Json& json) { json["history"]["epochs"] = 3; }));
  EXPECT_FALSE(decode_changed([](Json& json) { json["history"]["epochs"][1].erase("train"); }));
  EXPECT_FALSE(decode_changed([](Json& json) { json["stepsPerEpoch"] = "45"; }));
}

TEST(CheckpointFormat, AlignsTensorsInTheData) {
  CheckpointState state = small_state();
  state.model.push_back({"more", at::ones({3}, at::kByte)});
  const Json json = manifest_of(encode_checkpoint(state).value());
  for (const Json& tensor : json.at("tensors"))
    EXPECT_EQ(tensor.at("offset").get<int64_t>() % 64, 0) << tensor;
}

TEST(CheckpointFormat, NamesADtypeThatItDoesNotKnow) {
  CheckpointState state = small_state();
  state.model.push_back({"spectrum", at::zeros({2}, at::kComplexFloat)});
  const auto encoded = encode_checkpoint(state);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().kind, ErrorKind::Internal);
  EXPECT_THAT(encoded.error().message, HasSubstr("spectrum"));
}

TEST(CheckpointFormat, ReadsTheDataFilesNameFromTheManifestAlone) {
  const EncodedCheckpoint encoded = encode_checkpoint(small_state()).value();
  const auto summary = read_manifest(encoded.bytes.manifest);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->data_file, data_file_name(encoded.data_checksum));
  EXPECT_EQ(summary->data_bytes, static_cast<int64_t>(encoded.bytes.data.size()));
}

TEST(Seal, FindsEveryChangedByte) {
  const std::string sealed = seal("some text");
  EXPECT_EQ(unseal(sealed).value(), "some text\n");
  for (size_t at = 0; at < sealed.size(); ++at) {
    std::string damaged = sealed;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(unseal(damaged)) << "byte " << at;
  }
  for (size_t size = 0; size < sealed.size(); ++size)
    EXPECT_FALSE(unseal(sealed.substr(0, size))) << "cut to " << size;
}

}  // namespace
}  // namespace gnn::checkpoint
