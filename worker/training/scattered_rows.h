#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace gnn::training {

/// Rows whose places in a file have nothing to do with the rank that has them: rank 0 gets them in the order
/// of places, a window of consecutive places at a time, in which each rank sends what it has of it.
/// Memory on each rank: its rows, at most 32 bytes beside each, and on rank 0 a window.
/// Threads: one.
class ScatteredRows {
 public:
  /// Gets the rows of the next places, on rank 0.
  using TakeInOrder = std::function<void(const at::Tensor& rows)>;

  /// Rows of elements of that type and, if the row is not one element, of that shape.
  explicit ScatteredRows(at::ScalarType dtype, std::vector<int64_t> row_shape = {})
      : dtype_(dtype), row_shape_(std::move(row_shape)) {}

  /// Takes the rows (CPU, contiguous) of `places`, int64 [K], each of which is given once on one rank. The
  /// tensors are kept as they are.
  void add(const at::Tensor& places, const at::Tensor& rows);

  /// Gives rank 0 the rows of all places [0, num_places), and forgets them. Returns whether no rank was asked to
  /// stop. Collective.
  /// Errors: Data if a place has no row; PeerLost.
  [[nodiscard]] Result<bool> send(
      int64_t num_places,
      comm::Communicator& communicator,
      const EvaluationContext& context,
      const TakeInOrder& take
  );

 private:
  // This rank's rows in ascending places.
  struct InOrder {
    at::Tensor places;   // int64 [K], ascending
    at::Tensor numbers;  // int64 [K]: which row each is
    at::Tensor first;    // int64 [windows + 1]: by window, where it begins in these
  };
  // Rows of a window, and which places of it they are of; or, put together, 1 for each place that has one.
  struct Piece {
    at::Tensor places;  // int64 [K]
    at::Tensor rows;
  };

  [[nodiscard]] InOrder in_order(int64_t windows);
  [[nodiscard]] Piece own_piece(const InOrder& mine, int64_t window) const;
  // Puts together, on rank 0, what the ranks have of a window: counts[rank][window] rows.
  [[nodiscard]] Status send_window(
      const InOrder& mine,
      int64_t window,
      const std::vector<std::vector<int64_t>>& counts,
      comm::Communicator& communicator,
      const Piece& together
  ) const;
  [[nodiscard]] at::Tensor empty_rows(int64_t count) const;
  // Those of these numbers, counted as they came.
  [[nodiscard]] at::Tensor rows_at(const at::Tensor& numbers) const;

  at::ScalarType dtype_;
  std::vector<int64_t> row_shape_;
  std::vector<at::Tensor> places_;
  std::vector<at::Tensor> pieces_;
  std::vector<int64_t> first_;  // by piece: the number of its first row
  int64_t num_rows_ = 0;
};

}  // namespace gnn::training
