#include "worker/data/digest.h"

#include "worker/data/io/byte_source.h"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <vector>
#include <xxhash.h>

namespace gnn::data {

struct Digester::State {
  DigestKind kind;
  XXH64_state_t* xxh64 = nullptr;
  EVP_MD_CTX* sha256 = nullptr;
};

Digester::Digester(DigestKind kind) : state_(std::make_unique<State>()) {
  state_->kind = kind;
  if (kind == DigestKind::Xxh64) {
    state_->xxh64 = XXH64_createState();
    XXH64_reset(state_->xxh64, 0);
  } else {
    state_->sha256 = EVP_MD_CTX_new();
    EVP_DigestInit_ex(state_->sha256, EVP_sha256(), nullptr);
  }
}

Digester::~Digester() {
  XXH64_freeState(state_->xxh64);
  EVP_MD_CTX_free(state_->sha256);
}

void Digester::add(std::span<const std::byte> bytes) {
  if (state_->kind == DigestKind::Xxh64) {
    XXH64_update(state_->xxh64, bytes.data(), bytes.size());
  } else {
    EVP_DigestUpdate(state_->sha256, bytes.data(), bytes.size());
  }
}

std::string Digester::finish() {
  if (state_->kind == DigestKind::Xxh64) {
    std::array<char, 24> text{};
    std::snprintf(
        text.data(),
        text.size(),
        "%016llx",
        static_cast<unsigned long long>(XXH64_digest(state_->xxh64))
    );
    return std::string("xxh64:") + text.data();
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(state_->sha256, bytes.data(), &length);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "sha256:";
  for (unsigned int i = 0; i < length; ++i) {
    text += kHex[bytes.at(i) >> 4U];
    text += kHex[bytes.at(i) & 0xFU];
  }
  return text;
}

std::string digest_of(DigestKind kind, std::span<const std::byte> bytes) {
  Digester digester(kind);
  digester.add(bytes);
  return digester.finish();
}

std::string node_counts(const DatasetArrays& dataset) {
  std::string text;
  for (const NodeTable& table : dataset.node_tables) {
    text += table.name + " " + std::to_string(table.num_nodes) + "\n";
  }
  return dataset.node_tables.size() > 1 ? text : "";
}

std::string digest_of(const DatasetArrays& dataset) {
  Digester digester(DigestKind::Xxh64);
  const auto add = [&digester](const Array& array) {
    if (!array.defined()) return;
    const std::string head = array.name() + " " + std::string(dtype_name(array.dtype())) + " " +
                             shape_text(array.shape()) + "\n";
    digester.add(std::as_bytes(std::span(head)));
    digester.add({array.bytes(), static_cast<size_t>(array.num_bytes())});
  };
  const std::string counts = node_counts(dataset);
  digester.add(std::as_bytes(std::span(counts)));
  for (const NodeTable& table : dataset.node_tables) {
    add(table.features);
    add(table.labels);
    for (const NamedFeatures& features : table.more_features) add(features.rows);
  }
  for (const EdgeTable& table : dataset.edge_tables) {
    add(table.indptr);
    add(table.indices);
    add(table.edge_ids);
    add(table.features);
  }
  for (const Array* ids :
       {&dataset.train,
        &dataset.validation,
        &dataset.test,
        &dataset.graph_offsets,
        &dataset.graph_labels}) {
    add(*ids);
  }
  if (dataset.links) add(dataset.links->pairs);
  return digester.finish();
}

Result<FileDigest> digest_file(DigestKind kind, const std::string& path) {
  GNN_ASSIGN_OR_RETURN(const auto source, open_file(path));
  Digester digester(kind);
  std::vector<std::byte> buffer(size_t{1} << 20U);
  while (true) {
    GNN_ASSIGN_OR_RETURN(const size_t got, source->read(buffer));
    if (got == 0) {
      break;
    }
    digester.add(std::span(buffer).first(got));
  }
  return FileDigest{.bytes = source->file_bytes_total(), .digest = digester.finish()};
}

}  // namespace gnn::data
