#include "worker/comm/ddp.h"

#include "common/hash.h"
#include "worker/comm/c10d_communicator.h"
#include "worker/comm/reduce_timer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cmath>
#include <numeric>
#include <sstream>

namespace gnn::comm {
namespace {

// Indices of the numbers that travel as the "gradient" of the agreement tensor.
constexpr int64_t kStopVotes = 0;
constexpr int64_t kActiveRanks = 1;
constexpr int64_t kBatchSize = 2;
constexpr int64_t kAbandonVotes = 3;
constexpr int64_t kLossSum = 4;
constexpr int64_t kAgreementFields = 5;

// What a rank says of the step it takes part in.
struct Votes {
  bool stop = false;
  bool active = false;   // it had a batch
  bool abandon = false;  // it gives the step up
};

constexpr size_t kBroadcastBytes = size_t{250} * 1024 * 1024;

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& item : named) tensors.push_back(item.tensor);
  return tensors;
}

// One line per tensor, of what must be equal on all ranks.
std::string describe(const std::vector<NamedTensor>& named) {
  std::ostringstream text;
  for (const auto& item : named)
    text << item.name << ' ' << item.tensor.dtype().name() << ' ' << item.tensor.sizes() << '\n';
  return text.str();
}

std::string first_different_line(const std::string& expected, const std::string& found) {
  std::istringstream left(expected);
  std::istringstream right(found);
  std::string a = "nothing";
  std::string b = "nothing";
  for (;;) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left) a = "nothing";
    if (!more_right) b = "nothing";
    if (a != b || (!more_left && !more_right)) break;
  }
  return "'" + a + "', found '" + b + "'";
}

Status check_same_layout(Communicator& communicator, const std::string& layout) {
  GNN_ASSIGN_OR_RETURN(const auto layouts, all_gather_bytes(communicator, layout));
  for (size_t r = 1; r < layouts.size(); ++r) {
    if (layouts[r] == layouts[0]) continue;
    return fail(
        ErrorKind::Configuration,
        "the model differs between ranks: expected on rank " + std::to_string(r) +
            ", as on rank 0, " + first_different_line(layouts[0], layouts[r])
    );
  }
  return {};
}

// Buckets in the order in which gradients become ready: the reverse of registration.
std::vector<std::vector<size_t>> bucket_layout(
    const std::vector<at::Tensor>& parameters, const DdpOptions& options
) {
  const std::vector<at::Tensor> reversed(parameters.rbegin(), parameters.rend());
  std::vector<int64_t> indices(parameters.size());
  std::iota(indices.rbegin(), indices.rend(), 0);
  const std::vector<size_t> limits{
      static_cast<size_t>(options.first_bucket_bytes), static_cast<size_t>(options.bucket_bytes)
  };
  return std::get<0>(c10d::compute_bucket_assignment_by_size(
      reversed, limits, std::vector<bool>(parameters.size(), false), indices
  ));
}

uint64_t hash_layout(const std::string& names, const std::vector<std::vector<size_t>>& buckets) {
  constexpr std::array<size_t, 1> kEnd{SIZE_MAX};
  uint64_t hash = fnv1a(names);
  for (const auto& bucket : buckets) {
    hash = fnv1a(std::as_bytes(std::span(bucket)), hash);
    hash = fnv1a(std::as_bytes(std::span(kEnd)), hash);
  }
  return hash;
}

// Averages a bucket over the ranks, and notes when this rank's part of it was ready.
class TimedAllReduce final
    : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  TimedAllReduce(c10::intrusive_ptr<c10d::ProcessGroup> group, std::shared_ptr<ReduceTimer> timer)
      : CppCommHookInterface(std::move(group)), timer_(std::move(timer)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    timer_->ready();
    std::vector<at::Tensor> gradients{bucket.getBufferRef()};
    gradients.front().div_(state_->getSize());  // first, so that no sum overflows
    return state_->allreduce(gradients)->getFuture();
  }

 private:
  std::shared_ptr<ReduceTimer> timer_;
};

}  // namespace

struct DistributedDataParallel::Impl {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::shared_ptr<Communicator> communicator;
  DdpOptions options;
  // No parameter of the model: its gradient carries this rank's StepContribution through the first
  // bucket.
  at::Tensor agreement;
  std::unique_ptr<c10d::Reducer> reducer;  // null in a group of one
  // The autograd nodes that the reducer's hooks hang on.
  std::vector<std::shared_ptr<torch::autograd::Node>> hooked;
  uint64_t layout_hash = 0;
  double accumulated_batch_size = 0;
  at::Tensor accumulated_loss;  // [1], each batch's mean loss times its size; undefined: none
  std::shared_ptr<progress::CollectiveActivity> activity;
  std::shared_ptr<ReduceTimer> reduce_timer;  // null as the reducer

  double world_size() const { return static_cast<double>(communicator->world_size()); }

  Status send_from(const std::vector<NamedTensor>& named, int64_t source) {
    if (named.empty() || communicator->world_size() == 1) return {};
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> detached;
    detached.reserve(named.size());
    for (const auto& item : named) detached.push_back(item.tensor.detach());
    return run_collective("broadcast of the model", activity.get(), [&] {
      c10d::broadcast_coalesced(
          communicator->process_group()->group, detached, kBroadcastBytes, static_cast<int>(source)
      );
    });
  }

  void make_reducer() {
    auto tensors = tensors_of(parameters);
    auto dtype = tensors.back().scalar_type();
    if (dtype != at::kDouble) dtype = at::kFloat;
    agreement =
        at::zeros({kAgreementFields}, tensors.back().options().dtype(dtype)).requires_grad_(true);
    tensors.push_back(agreement);
    auto buckets = bucket_layout(tensors, options);
    layout_hash = hash_layout(describe(parameters) + describe(buffers), buckets);
    if (communicator->world_size() == 1) return;
    hooked = accumulators();
    std::unordered_map<size_t, std::string> names;
    for (size_t i = 0; i < parameters.size(); ++i) names[i] = parameters[i].name;
    names[parameters.size()] = "(agreement)";
    const size_t count = tensors.size();
    reducer = std::make_unique<c10d::Reducer>(
        std::move(tensors),
        std::move(buckets),
        communicator->process_group()->group,
        std::vector<bool>(count, false),
        options.bucket_bytes,
        /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/false,
        std::move(names),
        options.first_bucket_bytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false,
        std::vector<int64_t>{}
    );
    reduce_timer = std::make_shared<ReduceTimer>(agreement.device());
    reducer->register_comm_hook(
        std::make_unique<TimedAllReduce>(communicator->process_group()->group, reduce_timer)
    );
  }

  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators() const {
    std::vector<std::shared_ptr<torch::autograd::Node>> nodes;
    nodes.reserve(parameters.size());
    for (const auto& item : parameters)
      nodes.push_back(torch::autograd::impl::grad_accumulator(item.tensor));
    return nodes;
  }

  // A parameter that gets another storage (as torch's archives give it when they load) gets another
  // autograd node too: without new hooks its gradients would silently stay local.
  void follow_replaced_parameters() {
    if (reducer && accumulators() != hooked) {
      reducer.reset();
      make_reducer();
    }
  }

  // The gradient at the loss, so that gradients come out weighted.
  double weight_of(const StepContribution& mine) const {
    return options.average == GradientAverage::BatchSize ? mine.batch_size : 1.0;
  }

  void accumulate(const at::Tensor& loss, const StepContribution& mine) {
    const at::Tensor& reported = mine.reported_loss.defined() ? mine.reported_loss : loss;
    const at::Tensor sum = reported.detach().to(agreement.options()).reshape({1}) * mine.batch_size;
    accumulated_loss = accumulated_loss.defined() ? accumulated_loss + sum : sum;
    accumulated_batch_size += mine.batch_size;
  }

  // This rank's part of the agreement: its votes and what accumulate() gathered.
  at::Tensor contribution(const Votes& mine) const {
    const auto vote = [](bool yes) { return yes ? 1.0 : 0.0; };
    at::Tensor votes =
        at::tensor(
            {vote(mine.stop), vote(mine.active), accumulated_batch_size, vote(mine.abandon)},
            at::kDouble
        )
            .to(agreement.scalar_type());
    // A copy from other memory would wait for all that is queued on the device.
    if (agreement.is_cuda()) votes = votes.pin_memory();
    votes = votes.to(agreement.device(), /*non_blocking=*/true);
    return at::cat(
        {votes, accumulated_loss.defined() ? accumulated_loss : at::zeros({1}, votes.options())}
    );
  }

  // Takes part with zeros instead of a loss.
  Result<StepResult> step_without_loss(const Votes& mine) {
    std::vector<at::Tensor> roots = tensors_of(parameters);
    std::vector<at::Tensor> gradients;
    gradients.reserve(roots.size());
    for (const auto& root : roots) gradients.push_back(at::zeros_like(root));
    GNN_RETURN_IF_ERROR(reduce_backward(std::move(roots), std::move(gradients), contribution(mine))
    );
    return finish_step();
  }

  // Backward from `roots`, with the agreement as one more root, and the reduction that overlaps it.
  Status reduce_backward(
      std::vector<at::Tensor> roots, std::vector<at::Tensor> gradients, const at::Tensor& mine
  ) {
    return run_collective("gradient reduction", activity.get(), [&] {
      follow_replaced_parameters();
      agreement.mutable_grad().reset();
      roots.push_back(agreement);
      gradients.push_back(mine);
      if (reducer) {
        // Only roots with a graph behind them lead to parameters.
        std::vector<at::Tensor> outputs;
        for (const auto& root : roots)
          if (root.grad_fn()) outputs.push_back(root);
        reducer->prepare_for_backward(outputs);
      }
      torch::autograd::backward(roots, gradients);
      if (!reducer) return;
      reducer->check_finalized();  // throws when a parameter got no gradient
      // Drops what the reducer collects for rebuilding its buckets, which never happens here.
      reducer->reset_state();
    });
  }

  // The sums over all ranks. On a GPU this is the one wait of the host in a step, which must know
  // whether to stop: a wait for the other ranks, as the reductions only start on the device before.
  Result<at::Tensor> read_agreement() const {
    at::Tensor sums;
    GNN_RETURN_IF_ERROR(run_collective("reading of the agreement", activity.get(), [&] {
      if (reduce_timer) reduce_timer->reduced();
      sums = agreement.grad().to(at::kCPU, at::kDouble) * world_size();
    }));
    return sums;
  }

  // Reads the agreement, and scales the gradients from sum / world size to the chosen average.
  Result<StepResult> finish_step() {
    GNN_ASSIGN_OR_RETURN(const at::Tensor sums, read_agreement());
    const auto field = [&](int64_t which) { return sums.const_data_ptr<double>()[which]; };
    StepResult result;
    result.stop = std::round(field(kStopVotes)) > 0;
    result.abandoned = std::round(field(kAbandonVotes)) > 0;
    result.active_ranks = static_cast<int64_t>(std::round(field(kActiveRanks)));
    result.total_batch_size = field(kBatchSize);
    result.mean_loss = field(kLossSum) / field(kBatchSize);
    const double scale = scale_of(result);
    if (scale != 1.0) {
      at::NoGradGuard no_grad;
      for (const auto& item : parameters)
        if (item.tensor.grad().defined()) item.tensor.grad().mul_(scale);
    }
    accumulated_batch_size = 0;
    accumulated_loss.reset();
    return result;
  }

  double scale_of(const StepResult& result) const {
    switch (options.average) {
      case GradientAverage::WorldSize:
        return 1.0;
      case GradientAverage::BatchSize:
        return result.total_batch_size > 0 ? world_size() / result.total_batch_size : 1.0;
    }
    return 1.0;
  }
};

DistributedDataParallel::DistributedDataParallel(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::DistributedDataParallel(DistributedDataParallel&&) noexcept = default;
DistributedDataParallel& DistributedDataParallel::operator=(DistributedDataParallel&&) noexcept =
    default;

Result<DistributedDataParallel> DistributedDataParallel::create(
    std::vector<NamedTensor> parameters,
    std::vector<NamedTensor> buffers,
    std::shared_ptr<Communicator> communicator,
    const DdpOptions& options
) {
  std::erase_if(parameters, [](const NamedTensor& item) { return !item.tensor.requires_grad(); });
  TORCH_CHECK(
      !parameters.empty(), "a model needs a parameter that requires a gradient, found none"
  );
  auto impl = std::make_unique<Impl>();
  impl->parameters = std::move(parameters);
  impl->buffers = std::move(buffers);
  impl->communicator = std::move(communicator);
  impl->activity = impl->communicator->activity();
  impl->options = options;
  GNN_RETURN_IF_ERROR(
      check_same_layout(*impl->communicator, describe(impl->parameters) + describe(impl->buffers))
  );
  GNN_RETURN_IF_ERROR(impl->send_from(impl->parameters, 0));
  GNN_RETURN_IF_ERROR(impl->send_from(impl->buffers, 0));
  impl->make_reducer();
  return DistributedDataParallel(std::move(impl));
}

Status DistributedDataParallel::start_step(int64_t buffer_source) {
  if (!impl_->options.broadcast_buffers) return {};
  return impl_->send_from(impl_->buffers, buffer_source);
}

Result<StepResult> DistributedDataParallel::backward(
    const at::Tensor& loss, const StepContribution& mine
) {
  auto& impl = *impl_;
  impl.accumulate(loss, mine);
  GNN_RETURN_IF_ERROR(impl.reduce_backward(
      {loss},
      {at::full_like(loss, impl.weight_of(mine))},
      impl.contribution({.stop = mine.stop, .active = true})
  ));
  return impl.finish_step();
}

Result<StepResult> DistributedDataParallel::shadow_step(bool stop) {
  return impl_->step_without_loss({.stop = stop, .active = impl_->accumulated_batch_size > 0});
}

Result<StepResult> DistributedDataParallel::abandon_step() {
  return impl_->step_without_loss(
      {.stop = true, .active = impl_->accumulated_batch_size > 0, .abandon = true}
  );
}

Status DistributedDataParallel::accumulate(const at::Tensor& loss, const StepContribution& mine) {
  impl_->accumulate(loss, mine);
  try {
    torch::autograd::backward({loss}, {at::full_like(loss, impl_->weight_of(mine))});
  } catch (const std::exception&) {
    return tl::make_unexpected(error_of_current_exception("backward"));
  }
  return {};
}

double DistributedDataParallel::exposed_reduce_seconds() const {
  return impl_->reduce_timer ? impl_->reduce_timer->seconds() : 0;
}

double DistributedDataParallel::factor_of_sums(const StepResult& result) const {
  return impl_->scale_of(result) / impl_->world_size();
}

void DistributedDataParallel::zero_grad() {
  for (auto& item : impl_->parameters) item.tensor.mutable_grad().reset();
}

uint64_t DistributedDataParallel::layout_hash() const {
  return impl_->layout_hash;
}

}  // namespace gnn::comm
