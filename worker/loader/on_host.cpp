#include "worker/loader/on_host.h"

#include <ATen/Functions.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace gnn::loader {

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return tensor.cpu();
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  const c10::Stream stream = guard.getStreamFromGlobalPool(tensor.device());
  const c10::StreamGuard on(stream);
  at::Tensor host = at::empty(
      tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(true)
  );
  host.copy_(tensor, /*non_blocking=*/true);
  stream.synchronize();
  return host;
}

}  // namespace gnn::loader
