#pragma once

#include "common/result.h"
#include "worker/data/dataset_arrays.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gnn::data {

enum class DigestKind {
  Xxh64,   ///< fast: finds damage
  Sha256,  ///< slow: identifies an input
};

/// Digests bytes piece by piece.
class Digester {
 public:
  explicit Digester(DigestKind kind);
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  void add(std::span<const std::byte> bytes);
  /// "xxh64:0123456789abcdef" (as xxh64sum prints it) or "sha256:…". Call once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(DigestKind kind, std::span<const std::byte> bytes);

/// The number of nodes of each type, which no array need tell where there are several types; empty
/// for one type.
std::string node_counts(const DatasetArrays& dataset);

/// XXH64 of all arrays, with their names, types and shapes, and of node_counts(): equal digests mean
/// the same data.
std::string digest_of(const DatasetArrays& dataset);

struct FileDigest {
  int64_t bytes = 0;
  std::string digest;
};
/// Errors: NotFound, Io.
Result<FileDigest> digest_file(DigestKind kind, const std::string& path);

}  // namespace gnn::data
