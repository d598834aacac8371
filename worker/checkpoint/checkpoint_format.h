#pragma once

#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::checkpoint {

/// A checkpoint as its two files hold it.
struct CheckpointBytes {
  std::string manifest;  ///< JSON, sealed: where each tensor lies in `data`, and all else
  std::string data;      ///< the tensors' bytes one after another, each padded to 64 bytes
};

struct EncodedCheckpoint {
  CheckpointBytes bytes;
  std::string data_checksum;  ///< XXH3, 128 bits, 32 hexadecimal digits
};

/// Copies the state: the tensors may change as soon as it returns.
/// Errors: Internal naming a tensor whose dtype the format does not know.
[[nodiscard]] Result<EncodedCheckpoint> encode_checkpoint(const CheckpointState& state);

/// Name of the file that holds data of this checksum.
[[nodiscard]] std::string data_file_name(std::string_view data_checksum);

/// What a manifest says of its data file.
struct ManifestSummary {
  std::string data_file;
  int64_t data_bytes = 0;
  std::string data_checksum;
};

/// Errors: Data saying what is wrong.
[[nodiscard]] Result<ManifestSummary> read_manifest(std::string_view manifest);

/// Trusts nothing in `bytes`.
/// Errors: Data saying what is wrong; a manifest of another format version is refused by number.
[[nodiscard]] Result<CheckpointState> decode_checkpoint(const CheckpointBytes& bytes);

/// Appends a line with the checksum of all before it; unseal takes it off again.
[[nodiscard]] std::string seal(std::string text);
/// Errors: Data if the line is missing or wrong.
[[nodiscard]] Result<std::string_view> unseal(std::string_view sealed);

}  // namespace gnn::checkpoint
