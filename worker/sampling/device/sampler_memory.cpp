#include "worker/sampling/device/sampler_memory.h"

#include "worker/gpu/kernels/sampler_memory.h"

namespace gnn::sampling::device {

Result<SamplerMemory> memory_of_sampler(const SamplerSpec& spec) {
  GNN_ASSERT(spec.largest.has_value(), "the caller has said how large batches are");
  GNN_ASSIGN_OR_RETURN(
      const gpu::SamplerMemory memory,
      gpu::sampler_memory(
          {.num_nodes = spec.num_nodes,
           .relations = spec.relations,
           .options = spec.options,
           .largest = *spec.largest}
      )
  );
  return SamplerMemory{
      .device_bytes = static_cast<int64_t>(memory.sampler),
      .pinned_bytes = static_cast<int64_t>(memory.pinned)
  };
}

}  // namespace gnn::sampling::device
