#include "worker/comm/nccl/nccl_backend.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gnn::comm::nccl_backend {

bool available() {
  return false;
}

c10::intrusive_ptr<c10d::Backend>
make(const c10::intrusive_ptr<c10d::Store>&, int64_t, int64_t, c10::Device, const CommunicatorOptions&) {
  TORCH_CHECK(false, "this build has no NCCL (GNN_WITH_NCCL)");
}

}  // namespace gnn::comm::nccl_backend
