// Preloaded into gnn-worker, it makes one rank's training fail as when a GPU fails. On a CPU an
// operator throws the error that LibTorch makes of that; on a GPU a kernel fails. Environment:
// FAILING_GPU_RANK: that rank.
// FAILING_GPU_ONCE: a file that the first failure makes; while it exists, nothing fails.

#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sub.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

bool fails() {
  static int calls = 0;
  const char* const rank = std::getenv("RANK");
  const char* const wanted = std::getenv("FAILING_GPU_RANK");
  if (rank == nullptr || wanted == nullptr || std::string(rank) != wanted || ++calls < 5)
    return false;
  const char* const once = std::getenv("FAILING_GPU_ONCE");
  if (once == nullptr) return true;
  if (std::filesystem::exists(once)) return false;
  std::ofstream file(once);
  return true;
}

// A part of every loss.
at::Tensor log_softmax(const at::Tensor& input, int64_t dim, bool /*half_to_float*/) {
  TORCH_CHECK(!fails(), "CUDA error: uncorrectable ECC error encountered");
  return at::sub(input, at::logsumexp(input, {dim}, true));
}

at::Tensor log_softmax_on_gpu(const at::Tensor& input, int64_t dim, bool /*half_to_float*/) {
  // A row that is not there: the kernel that reads it fails.
  const auto integers = input.options().dtype(at::kLong);
  if (fails())
    static_cast<void>(at::index_select(input, 0, at::full({1}, input.size(0), integers)));
  return at::sub(input, at::logsumexp(input, {dim}, true));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, registry) {
  registry.impl("_log_softmax", &log_softmax);
}
TORCH_LIBRARY_IMPL(aten, CUDA, registry) {
  registry.impl("_log_softmax", &log_softmax_on_gpu);
}
