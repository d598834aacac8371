// Preloaded into gnn-worker, it makes one rank's training fail as LibTorch does when a GPU fails: with
// an error that an operator throws. Environment:
// FAILING_GPU_RANK: that rank.
// FAILING_GPU_ONCE: a file that the first failure makes; while it exists, nothing fails.

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

}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, registry) {
  registry.impl("_log_softmax", &log_softmax);
}
