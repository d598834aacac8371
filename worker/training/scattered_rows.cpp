#include "worker/training/scattered_rows.h"

#include "worker/training/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>

namespace gnn::training {
namespace {

constexpr int64_t kWindow = 65536;  // places
// Between two times that ranks agree on stopping.
constexpr int64_t kWindowsBetweenStops = 16;

// By rank, how many rows it has of each window.
Result<std::vector<std::vector<int64_t>>> counts_of_ranks(
    comm::Communicator& communicator, const at::Tensor& first
) {
  const at::Tensor mine = first.diff().contiguous();
  GNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      comm::all_gather_bytes(
          communicator, std::string(static_cast<const char*>(mine.const_data_ptr()), mine.nbytes())
      )
  );
  std::vector<std::vector<int64_t>> counts;
  for (const std::string& bytes : all) {
    std::vector<int64_t>& of_rank = counts.emplace_back(bytes.size() / sizeof(int64_t));
    if (!bytes.empty()) std::memcpy(of_rank.data(), bytes.data(), bytes.size());
  }
  return counts;
}

tl::unexpected<Error> some_are_missing() {
  return fail(
      ErrorKind::Data,
      "expected original ids of partitions that name each node once, found a node without rows"
  );
}

}  // namespace

void ScatteredRows::add(const at::Tensor& places, const at::Tensor& rows) {
  first_.push_back(num_rows_);
  num_rows_ += rows.size(0);
  places_.push_back(places);
  pieces_.push_back(rows);
}

ScatteredRows::InOrder ScatteredRows::in_order(int64_t windows) {
  InOrder made;
  const std::vector<at::Tensor> places = std::exchange(places_, {});
  const at::Tensor all = places.empty() ? at::empty({0}, at::kLong) : at::cat(places);
  std::tie(made.places, made.numbers) = all.sort();
  made.first = at::searchsorted(made.places, at::arange(windows + 1) * kWindow);
  return made;
}

at::Tensor ScatteredRows::empty_rows(int64_t count) const {
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  return at::empty(shape, dtype_);
}

at::Tensor ScatteredRows::rows_at(const at::Tensor& numbers) const {
  at::Tensor rows = empty_rows(numbers.numel());
  if (rows.numel() == 0) return rows;
  const size_t bytes = rows.nbytes() / static_cast<size_t>(rows.size(0));
  const auto* const wanted = numbers.const_data_ptr<int64_t>();
  auto* to = static_cast<char*>(rows.mutable_data_ptr());
  for (int64_t i = 0; i < numbers.numel(); ++i, to += bytes) {
    const auto next = std::upper_bound(first_.begin(), first_.end(), wanted[i]);
    const auto piece = static_cast<size_t>(next - first_.begin()) - 1;
    const auto* const from = static_cast<const char*>(pieces_[piece].const_data_ptr());
    std::memcpy(to, from + static_cast<size_t>(wanted[i] - first_[piece]) * bytes, bytes);
  }
  return rows;
}

ScatteredRows::Piece ScatteredRows::own_piece(const InOrder& mine, int64_t window) const {
  const auto* const first = mine.first.const_data_ptr<int64_t>() + window;
  const int64_t count = first[1] - first[0];
  return {
      .places = mine.places.narrow(0, first[0], count) - window * kWindow,
      .rows = rows_at(mine.numbers.narrow(0, first[0], count))
  };
}

Status ScatteredRows::send_window(
    const InOrder& mine,
    int64_t window,
    const std::vector<std::vector<int64_t>>& counts,
    comm::Communicator& communicator,
    const Piece& together
) const {
  const bool receives = communicator.rank() == 0;
  for (int64_t rank = receives ? 0 : 1; rank < communicator.world_size(); ++rank) {
    const int64_t count = counts[static_cast<size_t>(rank)][static_cast<size_t>(window)];
    if (count == 0) continue;
    const Piece piece =
        rank == communicator.rank()
            ? own_piece(mine, window)
            : Piece{.places = at::empty({count}, at::kLong), .rows = empty_rows(count)};
    if (rank > 0) {
      GNN_RETURN_IF_ERROR(communicator.broadcast(piece.places, rank));
      GNN_RETURN_IF_ERROR(communicator.broadcast(piece.rows, rank));
    }
    if (!receives) continue;
    together.rows.index_copy_(0, piece.places, piece.rows);
    together.places.index_fill_(0, piece.places, 1);
  }
  return {};
}

Result<bool> ScatteredRows::send(
    int64_t num_places,
    comm::Communicator& communicator,
    const EvaluationContext& context,
    const TakeInOrder& take
) {
  const int64_t windows = (num_places + kWindow - 1) / kWindow;
  const InOrder mine = in_order(windows);
  GNN_ASSIGN_OR_RETURN(const auto counts, counts_of_ranks(communicator, mine.first));
  const bool receives = communicator.rank() == 0;
  Status whole;
  for (int64_t window = 0; window < windows; ++window) {
    if (window % kWindowsBetweenStops == 0) {
      GNN_ASSIGN_OR_RETURN(const bool going_on, none_stops(communicator, context.stop));
      if (!going_on) return false;
    }
    const int64_t size = receives ? std::min(kWindow, num_places - window * kWindow) : 0;
    const Piece together{.places = at::zeros({size}, at::kLong), .rows = empty_rows(size)};
    GNN_RETURN_IF_ERROR(send_window(mine, window, counts, communicator, together));
    if (receives && !together.places.all().item<bool>()) whole = some_are_missing();
    if (receives && whole) take(together.rows);
    context.progress.on_mark();
  }
  pieces_.clear();
  GNN_RETURN_IF_ERROR(agree(communicator, whole, "has not the rows of all nodes"));
  return none_stops(communicator, context.stop);
}

}  // namespace gnn::training
