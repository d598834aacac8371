#include "worker/sampling/device/device_errors.h"

#include "common/out_of_memory.h"
#include "worker/sampling/sample_parts.h"

#include <c10/util/Exception.h>

#include <string>

namespace gnn::sampling::device {
namespace {

// Makes tensors of a batch's arrays, whose types are those of tensors' elements.
class Copies {
 public:
  explicit Copies(BatchSampler& sampler) : sampler_(sampler) {}

  template <class T>
  at::Tensor operator()(const T* array, int64_t count) const {
    return sampler_.copy_of(array, count, c10::CppTypeToScalarType<T>::value);
  }

 private:
  BatchSampler& sampler_;
};

}  // namespace

Error device_error(Error error) {
  if (error.kind != ErrorKind::OutOfMemory) return error;
  error.message +=
      "; sampling.device: CUDA takes less of its memory with sampling.topologyMemory: ZeroCopy, a "
      "smaller sampling.fanout, sampling.concurrency, sampling.prefetch or training.batchSize";
  return error;
}

Error device_error(const std::exception& thrown) {
  const auto* const by_torch = dynamic_cast<const c10::Error*>(&thrown);
  const std::string what = by_torch == nullptr ? thrown.what() : by_torch->what_without_backtrace();
  return device_error(Error{
      .kind = is_out_of_memory(thrown) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
      .message = "sampling on the device: " + what
  });
}

Result<SampledSubgraph> subgraph_of(
    BatchSampler& sampler,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations
) {
  GNN_ASSIGN_OR_RETURN(const gpu::SampledBatch batch, sampler.wait());
  const BatchArrays arrays = arrays_of(batch, options, relations, Copies(sampler));
  GNN_RETURN_IF_ERROR(sampler.finish());
  return subgraph_in(arrays, options, relations);
}

}  // namespace gnn::sampling::device
