#pragma once

#include "common/result.h"
#include "worker/training/checkpoint.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::training {

/// A checkpoint as bytes. The tensors' bytes follow each other in `data`, each padded to 64 bytes;
/// the manifest says where each one is and what the whole sums up to.
struct EncodedCheckpoint {
  std::string data;
  std::string data_checksum;  ///< XXH3, 128 bits, 32 hexadecimal digits.
  std::string manifest;       ///< JSON, sealed.
};

/// Takes a snapshot: the tensors may change as soon as it returns.
/// Errors: Internal naming a tensor whose dtype has no place in the format.
[[nodiscard]] Result<EncodedCheckpoint> encode_checkpoint(const CheckpointState& state);

/// Name of the file that holds data of this checksum.
[[nodiscard]] std::string data_file_name(std::string_view data_checksum);

/// What a manifest says without its data.
struct ManifestSummary {
  std::string data_file;
  int64_t data_bytes = 0;
  std::string data_checksum;
};

/// Errors: Data saying what is wrong.
[[nodiscard]] Result<ManifestSummary> read_manifest(std::string_view manifest);

/// Errors: Data saying what is wrong; nothing in either argument is trusted.
[[nodiscard]] Result<CheckpointState> decode_checkpoint(
    std::string_view manifest, std::string_view data
);

/// Appends a line with the checksum of all before it; unseal takes it off again.
[[nodiscard]] std::string seal(std::string text);
/// Errors: Data if the line is missing or wrong.
[[nodiscard]] Result<std::string_view> unseal(std::string_view sealed);

}  // namespace gnn::training
