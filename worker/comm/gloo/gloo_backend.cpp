#include "worker/comm/gloo/gloo_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace gnn::comm::gloo_backend {

c10::intrusive_ptr<c10d::Backend> make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t world_size,
    const CommunicatorOptions& options
) {
  auto native = c10d::ProcessGroupGloo::Options::create(options.timeout);
  native->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(
      options.address.empty() ? "127.0.0.1" : options.address
  ));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, static_cast<int>(rank), static_cast<int>(world_size), native
  );
}

}  // namespace gnn::comm::gloo_backend
