#include "worker/training/parameters_hash.h"

#include <ATen/ATen.h>

#include <iomanip>
#include <sstream>
#include <xxhash.h>

namespace gnn::training {

std::string hash_of(const std::vector<at::Tensor>& tensors) {
  XXH64_hash_t hash = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
    hash = XXH64(bytes.const_data_ptr(), bytes.nbytes(), hash);
  }
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << hash;
  return text.str();
}

}  // namespace gnn::training
