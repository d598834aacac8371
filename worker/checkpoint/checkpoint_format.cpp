#include "worker/checkpoint/checkpoint_format.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <xxhash.h>

namespace gnn::checkpoint {
namespace {

using Json = nlohmann::json;

static_assert(
    std::endian::native == std::endian::little, "the data file holds tensors as they lie in memory"
);

constexpr int kFormatVersion = 2;
constexpr std::string_view kSeal = "xxh3-128:";
constexpr size_t kDigits = 32;
constexpr int64_t kAlignment = 64;
constexpr size_t kMaxDimensions = 64;

struct DtypeName {
  at::ScalarType type;
  std::string_view name;
};
constexpr std::array kDtypes = {
    DtypeName{at::kFloat, "float32"},
    DtypeName{at::kDouble, "float64"},
    DtypeName{at::kHalf, "float16"},
    DtypeName{at::kBFloat16, "bfloat16"},
    DtypeName{at::kLong, "int64"},
    DtypeName{at::kInt, "int32"},
    DtypeName{at::kShort, "int16"},
    DtypeName{at::kChar, "int8"},
    DtypeName{at::kByte, "uint8"},
    DtypeName{at::kBool, "bool"},
};

std::optional<std::string_view> name_of(at::ScalarType type) {
  for (const DtypeName& dtype : kDtypes) {
    if (dtype.type == type) return dtype.name;
  }
  return std::nullopt;
}

std::optional<at::ScalarType> dtype_of(std::string_view name) {
  for (const DtypeName& dtype : kDtypes) {
    if (dtype.name == name) return dtype.type;
  }
  return std::nullopt;
}

std::string checksum(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, kDigits + 1> text{};
  std::snprintf(
      text.data(),
      text.size(),
      "%016llx%016llx",
      static_cast<unsigned long long>(hash.high64),
      static_cast<unsigned long long>(hash.low64)
  );
  return {text.data(), kDigits};
}

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorKind::Data, std::move(what));
}

// A list of CheckpointState and its name in the manifest.
struct Section {
  std::string_view name;
  std::vector<CheckpointTensor> CheckpointState::*tensors;
};
constexpr std::array kSections = {
    Section{"model", &CheckpointState::model},
    Section{"optimizer", &CheckpointState::optimizer},
    Section{"embeddings", &CheckpointState::embeddings},
};

// What the tensors' bytes take: a string that grows would copy large tables again and again.
size_t data_bytes(const CheckpointState& state) {
  size_t bytes = 0;
  for (const Section& section : kSections) {
    for (const CheckpointTensor& entry : state.*section.tensors)
      bytes += entry.tensor.nbytes() + static_cast<size_t>(kAlignment);
  }
  return bytes;
}

Status append(
    const CheckpointTensor& entry, std::string_view section, std::string& data, Json& tensors
) {
  const auto dtype = name_of(entry.tensor.scalar_type());
  if (!dtype) {
    return fail(
        ErrorKind::Internal,
        "checkpoint: " + entry.name + ": dtype " + c10::toString(entry.tensor.scalar_type()) +
            " is not one that the format knows"
    );
  }
  const at::Tensor plain = entry.tensor.detach().cpu().contiguous();
  data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  tensors.push_back({
      {"section", section},
      {"name", entry.name},
      {"dtype", *dtype},
      {"shape", plain.sizes().vec()},
      {"offset", data.size()},
  });
  data.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
  return {};
}

// Bytes of a tensor of this shape; nothing if no memory could hold that many.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, int64_t item_size) {
  int64_t bytes = item_size;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

Result<at::Tensor> read_tensor(const Json& entry, std::string_view data) {
  const auto dtype = dtype_of(entry.at("dtype").get<std::string>());
  if (!dtype) return bad("unknown dtype " + entry.at("dtype").dump());
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto offset = entry.at("offset").get<int64_t>();
  const auto bytes = bytes_of(shape, static_cast<int64_t>(c10::elementSize(*dtype)));
  const auto size = static_cast<int64_t>(data.size());
  if (shape.size() > kMaxDimensions || !bytes || offset < 0 || offset > size ||
      *bytes > size - offset) {
    return bad(
        "shape " + entry.at("shape").dump() + " at offset " + std::to_string(offset) +
        " does not fit into " + std::to_string(size) + " bytes of data"
    );
  }
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  if (*bytes > 0) {
    std::memcpy(tensor.mutable_data_ptr(), data.data() + offset, static_cast<size_t>(*bytes));
  }
  return tensor;
}

Status read_tensors(const Json& tensors, std::string_view data, CheckpointState& state) {
  for (const Json& entry : tensors) {
    const auto section_name = entry.at("section").get<std::string>();
    const auto name = entry.at("name").get<std::string>();
    auto tensor = read_tensor(entry, data);
    if (!tensor)
      return tl::make_unexpected(with_context(with_context(tensor.error(), name), section_name));
    bool found = false;
    for (const Section& section : kSections) {
      if (section.name != section_name) continue;
      (state.*section.tensors).push_back({.name = name, .tensor = *std::move(tensor)});
      found = true;
      break;
    }
    if (!found) return bad("unknown section " + section_name);
  }
  return {};
}

// Runs `read` on the sealed JSON; nlohmann's exceptions end here.
template <class F>
auto with_json(std::string_view manifest, const F& read)
    -> decltype(read(std::declval<const Json&>())) {
  auto text = unseal(manifest);
  if (!text) return tl::make_unexpected(text.error());
  try {
    const Json json = Json::parse(*text);
    if (json.at("format") != "gnn-checkpoint") return bad("manifest: not a checkpoint");
    if (json.at("version") != kFormatVersion) {
      return bad(
          "manifest: written in checkpoint format " + json.at("version").dump() +
          "; this worker reads format " + std::to_string(kFormatVersion) + " alone"
      );
    }
    return read(json);
  } catch (const Json::exception& error) {
    return bad(std::string("manifest: ") + error.what());
  }
}

ManifestSummary summary_of(const Json& json) {
  const Json& data = json.at("data");
  return ManifestSummary{
      .data_file = data.at("file").get<std::string>(),
      .data_bytes = data.at("bytes").get<int64_t>(),
      .data_checksum = data.at("checksum").get<std::string>(),
  };
}

}  // namespace

std::string seal(std::string text) {
  text += '\n';
  const std::string sum = checksum(text);
  text += kSeal;
  text += sum;
  text += '\n';
  return text;
}

Result<std::string_view> unseal(std::string_view sealed) {
  const size_t tail = kSeal.size() + kDigits + 1;
  if (sealed.size() < tail || sealed.substr(sealed.size() - tail, kSeal.size()) != kSeal ||
      sealed.back() != '\n') {
    return bad("cut off: the checksum at its end is missing");
  }
  const std::string_view text = sealed.substr(0, sealed.size() - tail);
  const std::string_view stated = sealed.substr(sealed.size() - kDigits - 1, kDigits);
  const std::string found = checksum(text);
  if (found != stated) {
    return bad("damaged: expected checksum " + std::string(stated) + ", found " + found);
  }
  return text;
}

std::string data_file_name(std::string_view data_checksum) {
  return "data-" + std::string(data_checksum) + ".bin";
}

Result<EncodedCheckpoint> encode_checkpoint(const CheckpointState& state) {
  EncodedCheckpoint result;
  Json tensors = Json::array();
  result.bytes.data.reserve(data_bytes(state));
  for (const Section& section : kSections) {
    for (const CheckpointTensor& entry : state.*section.tensors) {
      GNN_RETURN_IF_ERROR(append(entry, section.name, result.bytes.data, tensors));
    }
  }
  result.data_checksum = checksum(result.bytes.data);
  const Json manifest = {
      {"format", "gnn-checkpoint"},
      {"version", kFormatVersion},
      {"epoch", state.epoch},
      {"step", state.step},
      {"stepsPerEpoch", state.steps_per_epoch},
      {"globalStep", state.global_step},
      {"worldSize", state.world_size},
      {"configHash", state.config_hash},
      {"bucketLayoutHash", state.bucket_layout_hash},
      {"environment", state.environment},
      {"history", to_json(state.history)},
      {"data",
       {{"file", data_file_name(result.data_checksum)},
        {"bytes", result.bytes.data.size()},
        {"checksum", result.data_checksum}}},
      {"tensors", std::move(tensors)},
  };
  try {
    result.bytes.manifest = seal(manifest.dump(1));
  } catch (const Json::exception& error) {
    // A name that is not UTF-8.
    return fail(ErrorKind::Internal, std::string("checkpoint: ") + error.what());
  }
  return result;
}

Result<ManifestSummary> read_manifest(std::string_view manifest) {
  return with_json(manifest, [](const Json& json) -> Result<ManifestSummary> {
    ManifestSummary summary = summary_of(json);
    // It becomes a path, so it must be the one name that it can be.
    if (summary.data_file != data_file_name(summary.data_checksum) ||
        summary.data_checksum.find_first_not_of("0123456789abcdef") != std::string::npos ||
        summary.data_bytes < 0) {
      return bad("manifest: bad name or size of the data file: " + json.at("data").dump());
    }
    return summary;
  });
}

Result<CheckpointState> decode_checkpoint(const CheckpointBytes& bytes) {
  const std::string_view data = bytes.data;
  return with_json(bytes.manifest, [&](const Json& json) -> Result<CheckpointState> {
    const ManifestSummary summary = summary_of(json);
    if (static_cast<int64_t>(data.size()) != summary.data_bytes) {
      return bad(
          "data: expected " + std::to_string(summary.data_bytes) + " bytes, found " +
          std::to_string(data.size())
      );
    }
    const std::string found = checksum(data);
    if (found != summary.data_checksum) {
      return bad("data: expected checksum " + summary.data_checksum + ", found " + found);
    }
    CheckpointState state{
        .epoch = json.at("epoch").get<int64_t>(),
        .step = json.at("step").get<int64_t>(),
        .steps_per_epoch = json.at("stepsPerEpoch").get<int64_t>(),
        .global_step = json.at("globalStep").get<int64_t>(),
        .world_size = json.at("worldSize").get<int64_t>(),
        .config_hash = json.at("configHash").get<std::string>(),
        .bucket_layout_hash = json.at("bucketLayoutHash").get<std::string>(),
        .environment = json.at("environment").get<std::map<std::string, std::string>>(),
        .history = history_of(json.at("history")),
        .model = {},
        .optimizer = {},
        .embeddings = {},
    };
    GNN_RETURN_IF_ERROR(read_tensors(json.at("tensors"), data, state));
    return state;
  });
}

}  // namespace gnn::checkpoint
