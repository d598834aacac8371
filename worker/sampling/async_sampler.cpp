#include "worker/sampling/async_sampler.h"

#include <utility>

namespace gnn::sampling {

std::future<Result<SampledSubgraph>> LocalSampler::submit(SampleRequest request) {
  std::promise<Result<SampledSubgraph>> promise;
  promise.set_value(sampler_.sample(request.seeds, request.position, request.excluded));
  return promise.get_future();
}

}  // namespace gnn::sampling
