#include "worker/comm/nccl/nccl_backend.h"

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace gnn::comm::nccl_backend {

bool available() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t world_size,
    c10::Device device,
    const CommunicatorOptions& options
) {
  c10::cuda::set_device(device.index());
  auto native = c10d::ProcessGroupNCCL::Options::create();
  native->timeout = options.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(
      store, static_cast<int>(rank), static_cast<int>(world_size), native
  );
}

}  // namespace gnn::comm::nccl_backend
