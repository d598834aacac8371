// Linked in place of the .cu files where GNN_WITH_CUDA_KERNELS is off.
#include "worker/nn/cuda/spmm.h"

#include <c10/util/Exception.h>

namespace gnn::nn::cuda {

at::Tensor spmm(const Csr&, const at::Tensor&, const SpmmOptions&) {
  TORCH_CHECK(
      false,
      "spmm: the tensors are on a GPU, but this worker was built without CUDA kernels "
      "(GNN_WITH_CUDA_KERNELS)"
  );
}

}  // namespace gnn::nn::cuda
