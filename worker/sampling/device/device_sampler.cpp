#include "worker/sampling/device/device_sampler.h"

#include "common/out_of_memory.h"
#include "worker/sampling/sample_parts.h"

#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace gnn::sampling::device {
namespace {

// What is used up, and what takes less of it.
Error with_advice(Error error) {
  if (error.kind != ErrorKind::OutOfMemory) return error;
  error.message +=
      "; sampling.device: CUDA takes less of its memory with sampling.topologyMemory: ZeroCopy, a "
      "smaller sampling.fanout, sampling.prefetch or training.batchSize";
  return error;
}

// A pointer to an array of the batch, which has a type that a tensor's elements have.
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

Error error_of(const std::exception& error, const std::string& what) {
  return {
      .kind = is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
      .message = "sampling on the device: " + what
  };
}

}  // namespace

DeviceSampler::DeviceSampler(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    std::shared_ptr<DeviceGraph> graph,
    size_t in_flight
)
    : options_(std::move(options)),
      num_nodes_(std::move(num_nodes)),
      graph_(std::move(graph)),
      idle_(in_flight) {}

Result<std::shared_ptr<DeviceSampler>> DeviceSampler::create(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    const std::vector<Relation>& relations,
    std::shared_ptr<DeviceGraph> graph,
    size_t in_flight
) {
  std::shared_ptr<DeviceSampler> made(
      new DeviceSampler(std::move(options), std::move(num_nodes), std::move(graph), in_flight)
  );
  std::vector<core::RelationView> views;
  for (size_t i = 0; i < relations.size(); ++i) views.push_back(view_of(relations[i], i));
  GNN_RETURN_IF_ERROR(check_options(made->options_, views));
  GNN_RETURN_IF_ERROR(check_relations(made->num_nodes_, relations));
  for (size_t i = 0; i < relations.size(); ++i) {
    GNN_ASSIGN_OR_RETURN(
        core::RelationView view,
        made->graph_->view_of(relations[i], i, made->options_.with_edge_ids)
    );
    made->relations_.push_back(std::move(view));
  }
  for (size_t i = 0; i < in_flight; ++i) {
    auto sampler = made->graph_->device().make_sampler(
        {.num_nodes = made->num_nodes_,
         .relations = made->relations_,
         .options = kernel_options(made->options_)}
    );
    if (!sampler) return tl::unexpected(with_advice(std::move(sampler).error()));
    GNN_RETURN_IF_ERROR(made->idle_.push(std::move(*sampler)));
  }
  return made;
}

void DeviceSampler::start(SampleRequest request, const Executor& /*executor*/, Done done) {
  auto sampled = sample(request);
  if (!sampled) return done(tl::unexpected(with_advice(std::move(sampled).error())));
  done(std::move(sampled));
}

Result<SampledSubgraph> DeviceSampler::sample(const SampleRequest& request) {
  GNN_ASSIGN_OR_RETURN(const auto seeds, checked_seeds(request.seeds, num_nodes_));
  GNN_ASSIGN_OR_RETURN(auto sampler, idle_.pop());
  GNN_ASSERT(sampler.has_value(), "nobody closes the queue");
  Result<SampledSubgraph> sampled = [&]() -> Result<SampledSubgraph> {
    try {
      return sample_by(**sampler, seeds, request);
    } catch (const c10::Error& error) {
      return tl::unexpected(error_of(error, error.what_without_backtrace()));
    } catch (const std::exception& error) {
      return tl::unexpected(error_of(error, error.what()));
    }
  }();
  GNN_RETURN_IF_ERROR(idle_.push(*std::move(sampler)));
  return sampled;
}

Result<SampledSubgraph> DeviceSampler::sample_by(
    BatchSampler& sampler,
    std::span<const std::span<const int64_t>> seeds,
    const SampleRequest& request
) const {
  const BatchExclusions exclusions(request.excluded, relations_.size());
  GNN_RETURN_IF_ERROR(sampler.begin(seeds, request.position, exclusions.by_relation()));
  GNN_ASSIGN_OR_RETURN(const gpu::SampledBatch batch, sampler.wait());
  const BatchArrays arrays = arrays_of(batch, options_, relations_, Copies(sampler));
  GNN_RETURN_IF_ERROR(sampler.finish());
  return subgraph_in(arrays, options_, relations_);
}

}  // namespace gnn::sampling::device
