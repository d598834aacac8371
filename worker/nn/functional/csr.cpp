#include "worker/nn/functional/csr.h"

#include "worker/nn/cpu/index_checks.h"
#include "worker/nn/cpu/transpose.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string_view>

namespace gnn::nn {
namespace {

bool is_index(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong;
}

// The row of each entry, int64 [E]. With the size of its result, which at::repeat_interleave would
// otherwise wait for.
at::Tensor rows_of_entries(const Csr& matrix) {
  return at::repeat_interleave(
      at::diff(matrix.indptr), std::optional<int64_t>(matrix.indices.numel())
  );
}

// For a GPU: torch's own operators, all of them deterministic on integers, and none of them one that
// the host waits for, as at::bincount is.
Csr transpose_with_operators(const Csr& matrix) {
  const auto [columns, order] =
      at::sort(matrix.indices, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor rows = rows_of_entries(matrix);
  return Csr{
      .indptr = at::searchsorted(columns, at::arange(matrix.num_cols + 1, columns.options())),
      .indices = rows.index_select(0, order).to(columns.scalar_type()),
      .num_rows = matrix.num_cols,
      .num_cols = matrix.num_rows,
  };
}

template <class I>
void check_columns(const at::Tensor& indices, int64_t num_cols) {
  const I* data = indices.const_data_ptr<I>();
  const int64_t outside = cpu::first_outside<I>(data, indices.numel(), num_cols);
  TORCH_CHECK(
      outside < 0,
      "block.indices[",
      outside,
      "]: expected a source in [0, ",
      num_cols,
      "), found ",
      outside < 0 ? 0 : data[outside]
  );
}

// Checks values on the CPU only: reading a GPU's memory here would stall the step.
void check_offsets(const at::Tensor& offsets, int64_t size, int64_t last, std::string_view name) {
  TORCH_CHECK(
      offsets.defined() && offsets.scalar_type() == at::kLong && offsets.dim() == 1 &&
          offsets.numel() == size && offsets.is_contiguous(),
      name,
      ": expected contiguous int64 [",
      size,
      "]"
  );
  if (!offsets.is_cpu()) return;
  const auto* data = offsets.const_data_ptr<int64_t>();
  const int64_t falling = cpu::first_falling(data, size);
  TORCH_CHECK(falling < 0, name, "[", falling, "]: expected no less than the entry before it");
  TORCH_CHECK(
      data[0] == 0 && data[size - 1] == last,
      name,
      ": expected to run from 0 to ",
      last,
      ", found ",
      data[0],
      " to ",
      data[size - 1]
  );
}

template <class I>
at::Tensor count_entries_off(const Csr& matrix, const at::Tensor& own_columns) {
  at::Tensor counts = at::empty({matrix.num_rows}, at::kLong);
  auto* const count = counts.mutable_data_ptr<int64_t>();
  const auto* const indptr = matrix.indptr.const_data_ptr<int64_t>();
  const auto* const own = own_columns.const_data_ptr<int64_t>();
  const I* const indices = matrix.indices.const_data_ptr<I>();
  for (int64_t row = 0; row < matrix.num_rows; ++row) {
    const int64_t entries = indptr[row + 1] - indptr[row];
    count[row] = entries - cpu::count_equal<I>(indices + indptr[row], entries, own[row]);
  }
  return counts;
}

}  // namespace

Csr to_csr(const graph::Block& block) {
  TORCH_CHECK(
      0 <= block.num_destinations && block.num_destinations <= block.num_sources,
      "block: expected 0 <= num_destinations <= num_sources, found num_destinations ",
      block.num_destinations,
      " and num_sources ",
      block.num_sources
  );
  return to_csr_between(block);
}

Csr to_csr_between(const graph::Block& block) {
  TORCH_CHECK(
      block.num_destinations >= 0 && block.num_sources >= 0,
      "block: expected num_destinations and num_sources of 0 or more, found ",
      block.num_destinations,
      " and ",
      block.num_sources
  );
  TORCH_CHECK(
      block.indices.defined() && is_index(block.indices) && block.indices.dim() == 1 &&
          block.indices.is_contiguous(),
      "block.indices: expected contiguous int32 or int64 [E]"
  );
  check_offsets(block.indptr, block.num_destinations + 1, block.indices.numel(), "block.indptr");
  TORCH_CHECK(
      block.indices.device() == block.indptr.device(),
      "block.indices: expected on ",
      block.indptr.device(),
      " like block.indptr, found on ",
      block.indices.device()
  );
  if (block.indices.is_cpu()) {
    if (block.indices.scalar_type() == at::kInt) {
      check_columns<int32_t>(block.indices, block.num_sources);
    } else {
      check_columns<int64_t>(block.indices, block.num_sources);
    }
  }
  return Csr{
      .indptr = block.indptr,
      .indices = block.indices,
      .num_rows = block.num_destinations,
      .num_cols = block.num_sources,
  };
}

Csr to_csr_of_segments(const at::Tensor& offsets, int64_t num_cols) {
  TORCH_CHECK(offsets.dim() == 1 && offsets.numel() >= 1, "offsets: expected int64 [segments + 1]");
  check_offsets(offsets, offsets.numel(), num_cols, "offsets");
  return Csr{
      .indptr = offsets,
      .indices = at::arange(num_cols, offsets.options()),
      .num_rows = offsets.numel() - 1,
      .num_cols = num_cols,
  };
}

Csr transpose(const Csr& matrix) {
  return matrix.indices.is_cpu() ? cpu::transpose(matrix) : transpose_with_operators(matrix);
}

at::Tensor in_degrees_without_loops(const graph::Block& block) {
  const Csr matrix = to_csr(block);
  const at::Tensor loops = rows_of_entries(matrix).eq(matrix.indices);
  // The loops before each entry, and before the end.
  const at::Tensor before = at::zeros({loops.numel() + 1}, matrix.indptr.options());
  at::Tensor after_first = before.narrow(0, 1, loops.numel());
  at::cumsum_out(after_first, loops, 0);
  return at::diff(matrix.indptr) - at::diff(before.index_select(0, matrix.indptr));
}

at::Tensor in_degrees_without_loops(const Csr& matrix, const at::Tensor& own_columns) {
  TORCH_CHECK(
      own_columns.is_cpu() && own_columns.scalar_type() == at::kLong &&
          own_columns.is_contiguous() && own_columns.numel() == matrix.num_rows,
      "in_degrees_without_loops: own_columns: expected contiguous int64 [",
      matrix.num_rows,
      "] on the CPU, found ",
      own_columns.scalar_type(),
      " ",
      own_columns.sizes()
  );
  return matrix.indices.scalar_type() == at::kInt ? count_entries_off<int32_t>(matrix, own_columns)
                                                  : count_entries_off<int64_t>(matrix, own_columns);
}

}  // namespace gnn::nn
