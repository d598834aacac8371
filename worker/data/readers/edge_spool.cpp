#include "worker/data/readers/edge_spool.h"

#include "worker/data/readers/reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

namespace gnn::data {
namespace {

constexpr size_t kEdgesPerPiece = size_t{1} << 18;
constexpr size_t kEdgesPerChunk = 4096;

bool fit_int32(const std::vector<int64_t>& ids) {
  return std::all_of(ids.begin(), ids.end(), [](int64_t id) {
    return id >= std::numeric_limits<int32_t>::min() && id <= std::numeric_limits<int32_t>::max();
  });
}

template <class Id>
void copy_piece(
    const std::vector<int64_t>& sources,
    const std::vector<int64_t>& destinations,
    std::span<Id> piece
) {
  const auto narrow = [](int64_t id) { return static_cast<Id>(id); };
  std::transform(sources.begin(), sources.end(), piece.begin(), narrow);
  std::transform(
      destinations.begin(), destinations.end(), piece.subspan(sources.size()).begin(), narrow
  );
}

template <class Id>
void piece_chunks(std::span<const Id> piece, const EdgeSource::Chunk& chunk) {
  std::array<int64_t, kEdgesPerChunk> sources{};
  std::array<int64_t, kEdgesPerChunk> destinations{};
  const size_t edges = piece.size() / 2;
  for (size_t begin = 0; begin < edges; begin += kEdgesPerChunk) {
    const size_t count = std::min(kEdgesPerChunk, edges - begin);
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(begin), count, sources.begin());
    std::copy_n(
        piece.begin() + static_cast<std::ptrdiff_t>(edges + begin), count, destinations.begin()
    );
    chunk(std::span(sources).first(count), std::span(destinations).first(count));
  }
}

}  // namespace

EdgeSpool::EdgeSpool(ArrayStorage& storage, std::string where_prefix)
    : storage_(storage), where_prefix_(std::move(where_prefix)) {}

Status EdgeSpool::add(int64_t source, int64_t destination) {
  sources_.push_back(source);
  destinations_.push_back(destination);
  largest_id_ = std::max({largest_id_, source, destination});
  ++num_edges_;
  return sources_.size() < kEdgesPerPiece ? Status() : store();
}

Status EdgeSpool::store() {
  if (sources_.empty()) {
    return {};
  }
  const bool narrow = fit_int32(sources_) && fit_int32(destinations_);
  GNN_ASSIGN_OR_RETURN(
      Array piece,
      storage_.scratch(
          narrow ? DType::Int32 : DType::Int64, {2 * static_cast<int64_t>(sources_.size())}
      )
  );
  if (narrow) {
    copy_piece(sources_, destinations_, piece.mutable_view<int32_t>());
  } else {
    copy_piece(sources_, destinations_, piece.mutable_view<int64_t>());
  }
  pieces_.push_back(std::move(piece));
  sources_.clear();
  destinations_.clear();
  return {};
}

void EdgeSpool::for_each_chunk(const Chunk& chunk) const {
  for (const Array& piece : pieces_) {
    if (piece.dtype() == DType::Int32) {
      piece_chunks(piece.view<int32_t>(), chunk);
    } else {
      piece_chunks(piece.view<int64_t>(), chunk);
    }
  }
}

std::string EdgeSpool::where(int64_t index) const {
  return where_prefix_ + std::to_string(index + 1);
}

Result<EdgeSpool> read_text_edges(
    const std::string& path, int64_t first_id, EdgeSpool spool, ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  std::array<int64_t, 2> ends{};
  progress.begin("reading edges", reader.source().file_bytes_total(), "bytes");
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers(ends));
    if (!more) {
      break;
    }
    GNN_RETURN_IF_ERROR(spool.add(ends[0] - first_id, ends[1] - first_id));
    progress.advance_to(reader.source().file_bytes_read(), {});
  }
  progress.end();
  GNN_RETURN_IF_ERROR(spool.finish());
  return spool;
}

}  // namespace gnn::data
