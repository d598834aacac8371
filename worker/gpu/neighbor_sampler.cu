#include "worker/gpu/cuda_error.h"
#include "worker/gpu/device_stream.cuh"
#include "worker/gpu/kernels/neighbor_steps.h"
#include "worker/gpu/kernels/sampler_memory.h"
#include "worker/gpu/neighbor_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::gpu {

namespace {

constexpr int kThreads = 256;

Status check_seeds(
    std::span<const std::span<const int64_t>> seeds, const std::vector<int64_t>& num_nodes
) {
  for (size_t type = 0; type < seeds.size(); ++type) {
    for (const int64_t seed : seeds[type]) {
      if (seed >= 0 && seed < num_nodes[type]) continue;
      return fail(
          ErrorKind::Data,
          "seed " + std::to_string(seed) +
              " is not in the graph, whose nodes of its type are 0 to " +
              std::to_string(num_nodes[type] - 1)
      );
    }
  }
  return {};
}

}  // namespace

class NeighborSampler::Impl {
 public:
  Impl(
      std::vector<int64_t> num_nodes,
      std::vector<sampling::core::RelationView> relations,
      const NeighborSamplerOptions& options,
      Stream stream
  )
      : num_nodes_(num_nodes),
        device_(stream),
        steps_(
            device_,
            std::move(num_nodes),
            std::move(relations),
            options.kernel,
            step_options(options)
        ) {}

  Status reserve(const SamplerShape& shape, const NeighborSamplerOptions& options) {
    return reserve_largest(steps_, shape, step_options(options));
  }

  Status begin(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded
  ) {
    GNN_RETURN_IF_ERROR(check_seeds(seeds, num_nodes_));
    if (std::exchange(under_way_, true)) device_.wait();
    return steps_.begin(seeds, position, excluded);
  }

  Status begin_hops(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded
  ) {
    GNN_RETURN_IF_ERROR(check_seeds(seeds, num_nodes_));
    if (std::exchange(under_way_, true)) device_.wait();
    steps_.begin_hops(seeds, position, excluded);
    return {};
  }
  [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const {
    return steps_.destinations(relation);
  }
  Status add_hop(std::span<const sampling::core::DrawnLists> drawn) {
    return steps_.add_hop(drawn);
  }

  SampledBatch wait() {
    device_.wait();
    under_way_ = false;
    return steps_.batch();
  }

  [[nodiscard]] size_t bytes() const { return steps_.bytes(); }

 private:
  static StepOptions step_options(const NeighborSamplerOptions& options) {
    StepOptions steps{.threads = kThreads};
    if (options.most_reading_threads > 0)
      steps.most_reading_blocks = std::max<int64_t>(1, options.most_reading_threads / kThreads);
    return steps;
  }

  std::vector<int64_t> num_nodes_;
  DeviceStream device_;
  NeighborSteps<DeviceStream> steps_;
  bool under_way_ = false;
};

NeighborSampler::NeighborSampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NeighborSampler::~NeighborSampler() = default;
NeighborSampler::NeighborSampler(NeighborSampler&&) noexcept = default;
NeighborSampler& NeighborSampler::operator=(NeighborSampler&&) noexcept = default;

Result<NeighborSampler> NeighborSampler::create(
    std::vector<int64_t> num_nodes,
    std::vector<sampling::core::RelationView> relations,
    NeighborSamplerOptions options,
    Stream stream
) {
  return caught([&]() -> Result<NeighborSampler> {
    auto impl = std::make_unique<Impl>(num_nodes, relations, options, stream);
    if (options.largest) {
      const SamplerShape shape{
          .num_nodes = std::move(num_nodes),
          .relations = std::move(relations),
          .options = options.kernel,
          .largest = *options.largest
      };
      GNN_RETURN_IF_ERROR(impl->reserve(shape, options));
    }
    return NeighborSampler(std::move(impl));
  });
}

Status NeighborSampler::begin(
    std::span<const std::span<const int64_t>> seeds,
    const sampling::core::StreamPosition& position,
    std::span<const sampling::core::ExcludedPairs* const> excluded
) {
  return caught([&]() -> Status { return impl_->begin(seeds, position, excluded); });
}

Status NeighborSampler::begin_hops(
    std::span<const std::span<const int64_t>> seeds,
    const sampling::core::StreamPosition& position,
    std::span<const sampling::core::ExcludedPairs* const> excluded
) {
  return caught([&]() -> Status { return impl_->begin_hops(seeds, position, excluded); });
}

std::span<const int64_t> NeighborSampler::destinations(size_t relation) const {
  return impl_->destinations(relation);
}

Status NeighborSampler::add_hop(std::span<const sampling::core::DrawnLists> drawn) {
  return caught([&]() -> Status { return impl_->add_hop(drawn); });
}

Result<SampledBatch> NeighborSampler::wait() {
  return caught([&]() -> Result<SampledBatch> { return impl_->wait(); });
}

size_t NeighborSampler::device_bytes() const {
  return impl_->bytes();
}

}  // namespace gnn::gpu
