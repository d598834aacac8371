#include "worker/data/ogb_writer.h"

#include "worker/data/csc_builder.h"
#include "worker/data/io/npz_writer.h"
#include "worker/data/mapped_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <system_error>
#include <unistd.h>
#include <vector>
#include <zlib.h>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20U;

enum class End { Source, Destination };

// One row of edge_index.
Status write_ends(NpzWriter& file, const EdgeSource& edges, End end, ProgressBar& progress) {
  Status status;
  int64_t written = 0;
  progress.begin("writing edges", edges.num_edges(), "edges");
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    if (status) {
      status = file.write(end == End::Source ? sources : destinations);
      written += static_cast<int64_t>(sources.size());
      progress.advance_to(written, {});
    }
  });
  progress.end();
  return status;
}

Status write_rows(NpzWriter& file, const Array& rows, ProgressBar& progress) {
  const std::span<const std::byte> bytes(rows.bytes(), static_cast<size_t>(rows.num_bytes()));
  progress.begin("writing features", rows.num_bytes(), "bytes");
  for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes.size() - begin);
    GNN_RETURN_IF_ERROR(file.write(bytes.subspan(begin, size)));
    progress.advance_to(static_cast<int64_t>(begin + size));
  }
  progress.end();
  return {};
}

Status write_graph(const DatasetArrays& dataset, const std::string& path, ProgressBar& progress) {
  const NodeTable& nodes = dataset.node_tables.front();
  const EdgeTable& table = dataset.edge_tables.front();
  const CscEdges edges(table.indptr, table.indices);
  const std::array<int64_t, 1> num_nodes{nodes.num_nodes};
  const std::array<int64_t, 1> num_edges{edges.num_edges()};
  GNN_ASSIGN_OR_RETURN(NpzWriter file, NpzWriter::create(path));
  GNN_RETURN_IF_ERROR(file.begin("edge_index", DType::Int64, {2, edges.num_edges()}));
  GNN_RETURN_IF_ERROR(write_ends(file, edges, End::Source, progress));
  GNN_RETURN_IF_ERROR(write_ends(file, edges, End::Destination, progress));
  GNN_RETURN_IF_ERROR(file.begin("num_nodes_list", DType::Int64, {1}));
  GNN_RETURN_IF_ERROR(file.write(std::span<const int64_t>(num_nodes)));
  GNN_RETURN_IF_ERROR(file.begin("num_edges_list", DType::Int64, {1}));
  GNN_RETURN_IF_ERROR(file.write(std::span<const int64_t>(num_edges)));
  GNN_RETURN_IF_ERROR(file.begin("node_feat", nodes.features.dtype(), nodes.features.shape()));
  GNN_RETURN_IF_ERROR(write_rows(file, nodes.features, progress));
  return file.finish();
}

Status write_labels(const Array& labels, const std::string& path) {
  const std::span<const int64_t> values = labels.view<int64_t>();
  const bool all =
      std::none_of(values.begin(), values.end(), [](int64_t label) { return label < 0; });
  GNN_ASSIGN_OR_RETURN(NpzWriter file, NpzWriter::create(path));
  GNN_RETURN_IF_ERROR(
      file.begin("node_label", all ? DType::Int64 : DType::Float32, {labels.num_elements(), 1})
  );
  std::vector<float> piece;
  for (size_t begin = 0; begin < values.size(); begin += kPieceBytes / sizeof(int64_t)) {
    const size_t size = std::min(kPieceBytes / sizeof(int64_t), values.size() - begin);
    const std::span<const int64_t> part = values.subspan(begin, size);
    if (all) {
      GNN_RETURN_IF_ERROR(file.write(part));
      continue;
    }
    piece.clear();
    for (const int64_t label : part) {
      piece.push_back(
          label < 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(label)
      );
    }
    GNN_RETURN_IF_ERROR(file.write(std::span<const float>(piece)));
  }
  return file.finish();
}

tl::unexpected<Error> not_written(const std::string& path, int code) {
  return fail(ErrorKind::Io, path + ": can't write: " + std::strerror(code));
}

// The ids as lines of a gzip file.
Status write_ids(const Array& ids, const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return not_written(path, errno);
  }
  // gzclose() closes its own descriptor; ours is for the sync behind it.
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzdopen(::dup(descriptor), "wb1"), &gzclose);
  std::string text;
  bool right = file != nullptr;
  const auto flush = [&] {
    right = right && (text.empty() ||
                      gzwrite(file.get(), text.data(), static_cast<unsigned>(text.size())) > 0);
    text.clear();
  };
  for (const int64_t id : ids.view<int64_t>()) {
    text += std::to_string(id) + "\n";
    if (text.size() >= kPieceBytes) flush();
  }
  flush();
  right = file != nullptr && gzclose(file.release()) == Z_OK && right;
  right = right && ::fsync(descriptor) == 0;
  const int code = errno;
  ::close(descriptor);
  return right ? Status() : not_written(path, code);
}

bool is_writable(const DatasetArrays& dataset) {
  return dataset.node_tables.size() == 1 && dataset.edge_tables.size() == 1 &&
         dataset.node_tables.front().features.defined() &&
         dataset.node_tables.front().labels.defined() && dataset.train.defined() &&
         dataset.validation.defined() && dataset.test.defined();
}

}  // namespace

Status write_ogb(const DatasetArrays& dataset, const std::string& folder, ProgressBar& progress) {
  if (!is_writable(dataset)) {
    return fail(
        ErrorKind::Configuration,
        dataset.name +
            ": OGB's form needs one node type with features, labels and a split, and one edge type"
    );
  }
  const std::string raw = folder + "/raw";
  const std::string split = folder + "/split/time";
  for (const std::string& path : {raw, split}) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
      return fail(ErrorKind::Io, path + ": can't create: " + error.message());
    }
  }
  GNN_RETURN_IF_ERROR(write_graph(dataset, raw + "/data.npz", progress));
  GNN_RETURN_IF_ERROR(write_labels(dataset.node_tables.front().labels, raw + "/node-label.npz"));
  GNN_RETURN_IF_ERROR(write_ids(dataset.train, split + "/train.csv.gz"));
  GNN_RETURN_IF_ERROR(write_ids(dataset.validation, split + "/valid.csv.gz"));
  GNN_RETURN_IF_ERROR(write_ids(dataset.test, split + "/test.csv.gz"));
  for (const std::string& path : {split, folder + "/split", raw, folder}) {
    GNN_RETURN_IF_ERROR(sync_directory(path));
  }
  return {};
}

}  // namespace gnn::data
