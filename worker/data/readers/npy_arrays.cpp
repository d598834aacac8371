#include "worker/data/readers/npy_arrays.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr int64_t kElementsPerChunk = 8192;
constexpr int64_t kFeaturesPerRead = int64_t{1} << 16U;

tl::unexpected<Error> unexpected_shape(const NpyReader& reader, const std::string& expected) {
  return fail(
      ErrorKind::Data,
      reader.name() + ": expected " + expected + ", found " + shape_text(reader.header().shape) +
          (reader.header().fortran_order ? " in Fortran order" : "")
  );
}

}  // namespace

Status for_each_integer_chunk(
    NpyReader reader,
    const std::function<Status(int64_t position, std::span<const int64_t> elements)>& chunk,
    const int64_t* nan_value
) {
  std::array<int64_t, kElementsPerChunk> buffer{};
  const int64_t total = reader.header().num_elements();
  for (int64_t position = 0; position < total; position += kElementsPerChunk) {
    const auto size = static_cast<size_t>(std::min(kElementsPerChunk, total - position));
    const std::span<int64_t> elements = std::span(buffer).first(size);
    GNN_RETURN_IF_ERROR(reader.read_integers(elements, nan_value));
    GNN_RETURN_IF_ERROR(chunk(position, elements));
  }
  return reader.finish();
}

Result<Array> read_npy_features(
    const OpenNpy& open,
    const std::string& name,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const NpyReader first, open());
  const NpyHeader& header = first.header();
  const int64_t rows = num_nodes < 0 && !header.shape.empty() ? header.shape[0] : num_nodes;
  // Without rows the file's size would not bound the width.
  if (header.shape.size() != 2 || header.shape[0] != rows || rows < 1 || header.shape[1] < 1 ||
      header.fortran_order) {
    return unexpected_shape(
        first,
        "features of shape [" + (rows < 1 ? "nodes" : std::to_string(rows)) +
            ", width], both above 0, in C order"
    );
  }
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    GNN_ASSIGN_OR_RETURN(NpyReader reader, open());
    progress.begin("reading features", rows, "rows");
    // Many rows at a time: each read is a call of the kernel.
    const int64_t width = header.shape[1];
    const int64_t step = std::max<int64_t>(kFeaturesPerRead / width, 1);
    std::vector<float> values(static_cast<size_t>(std::min(step, rows) * width));
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      const std::span<float> part = std::span(values).first(static_cast<size_t>(count * width));
      GNN_RETURN_IF_ERROR(reader.read_floats(part));
      for (int64_t row = 0; row < count; ++row) {
        GNN_RETURN_IF_ERROR(visit(
            begin + row, part.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width))
        ));
      }
      progress.advance_to(begin + count, {});
    }
    progress.advance_to(rows, {});
    progress.end();
    return reader.finish();
  };
  return store_features(
      {.name = name, .num_rows = rows, .width = header.shape[1], .read = read}, options, storage
  );
}

Result<Array> read_npy_labels(NpyReader reader, int64_t num_nodes, ArrayStorage& storage) {
  const NpyHeader& header = reader.header();
  if (header.num_elements() != num_nodes || header.shape.empty() || header.shape[0] != num_nodes) {
    return unexpected_shape(
        reader, "one label per node, [N] or [N, 1] with N = " + std::to_string(num_nodes)
    );
  }
  GNN_ASSIGN_OR_RETURN(Array labels, storage.create(kLabelsName, DType::Int64, {num_nodes}));
  const int64_t none = -1;
  GNN_RETURN_IF_ERROR(reader.read_integers(labels.mutable_view<int64_t>(), &none));
  GNN_RETURN_IF_ERROR(reader.finish());
  return storage.commit(std::move(labels));
}

Result<ArrayEdges> read_npy_ends(
    NpyReader reader, int64_t num_nodes, ArrayStorage& storage, ProgressBar& progress
) {
  const NpyHeader header = reader.header();
  const bool two = header.shape.size() == 2;
  const bool in_rows = two && header.shape[0] == 2;
  if (!in_rows && !(two && header.shape[1] == 2)) {
    return unexpected_shape(reader, "edges of shape [2, E] or [E, 2]");
  }
  const std::string where = reader.name() + ": edge ";
  const int64_t num_edges = header.num_elements() / 2;
  // Whether the two ends of an edge are adjacent in the file.
  const bool adjacent = in_rows == header.fortran_order;
  GNN_ASSIGN_OR_RETURN(EdgeBuffer buffer, EdgeBuffer::create(storage, num_edges, num_nodes));
  progress.begin("reading edges", 2 * num_edges, "ids");
  const auto place = [&](int64_t position, std::span<const int64_t> ids) -> Status {
    for (const int64_t id : ids) {
      const bool is_source = adjacent ? position % 2 == 0 : position < num_edges;
      const int64_t edge = adjacent ? position / 2 : position % num_edges;
      if (is_source) {
        buffer.set_source(edge, id);
      } else {
        buffer.set_destination(edge, id);
      }
      ++position;
    }
    progress.advance_to(position, {});
    return {};
  };
  GNN_RETURN_IF_ERROR(for_each_integer_chunk(std::move(reader), place));
  progress.end();
  return buffer.edges(num_edges, where, 0);
}

Result<CscArrays> read_npy_edges(
    NpyReader reader,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(
      const ArrayEdges edges, read_npy_ends(std::move(reader), num_nodes, storage, progress)
  );
  return build_csc(edges, csc_options(num_nodes, options), storage, kEdgesName, progress);
}

}  // namespace gnn::data
