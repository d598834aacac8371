#include "worker/sampling/async_sampler.h"

#include <memory>
#include <utility>

namespace gnn::sampling {

std::future<Result<SampledSubgraph>> Sampler::submit(SampleRequest request) {
  const auto promise = std::make_shared<std::promise<Result<SampledSubgraph>>>();
  start(std::move(request), run_at_once(), [promise](Result<SampledSubgraph> sampled) {
    promise->set_value(std::move(sampled));
  });
  return promise->get_future();
}

void LocalSampler::start(SampleRequest request, const Executor& /*executor*/, Done done) {
  done(sampler_.sample(request.seeds, request.position, request.excluded));
}

}  // namespace gnn::sampling
