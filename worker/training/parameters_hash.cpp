#include "worker/training/parameters_hash.h"

#include "worker/embedding/embeddings.h"

#include <ATen/ATen.h>

#include <iomanip>
#include <sstream>
#include <xxhash.h>

namespace gnn::training {
namespace {

XXH64_hash_t add_to_hash(XXH64_hash_t hash, const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
  return XXH64(bytes.const_data_ptr(), bytes.nbytes(), hash);
}

XXH64_hash_t add_to_hash(XXH64_hash_t hash, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) hash = add_to_hash(hash, tensor);
  return hash;
}

std::string hash_text(XXH64_hash_t hash) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << hash;
  return text.str();
}

}  // namespace

std::string hash_of(const std::vector<at::Tensor>& tensors) {
  return hash_text(add_to_hash(0, tensors));
}

std::string hash_of(
    const std::vector<at::Tensor>& tensors, const embedding::Embeddings& embeddings
) {
  XXH64_hash_t hash = add_to_hash(0, tensors);
  embeddings.for_each_part([&](const at::Tensor& rows) { hash = add_to_hash(hash, rows); });
  return hash_text(hash);
}

}  // namespace gnn::training
