#include "worker/comm/c10d_communicator.h"

#include "common/out_of_memory.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string_view>
#include <typeinfo>

namespace gnn::comm {
namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::Max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::Min:
      return c10d::ReduceOp::MIN;
  }
  TORCH_CHECK(false, "unknown ReduceOp");
}

// Gloo ends a collective that takes too long with an exception of its own, whereas c10d's wait would
// throw the type that it also has for mistakes of the caller. NCCL's waits for the device only if it
// is given a time-out.
void wait_for(c10d::Work& work, const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  work.wait(tensor.is_cuda() ? timeout : kNoTimeout);
}

// LibTorch installs none of Gloo's headers, so that its types have only their names here. Gloo throws
// this one when a connection breaks or a peer is late, and others for mistakes of the caller.
bool is_lost_connection_of_gloo(const std::exception& error) {
  return std::string_view(typeid(error).name()) == "N4gloo11IoExceptionE";
}

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(
      c10::intrusive_ptr<c10d::ProcessGroup> group,
      const char* backend,
      const CommunicatorOptions& options
  )
      : handle_{std::move(group)},
        backend_(backend),
        timeout_(options.timeout),
        activity_(options.activity) {}

  int64_t rank() const override { return handle_.group->getRank(); }
  int64_t world_size() const override { return handle_.group->getSize(); }
  const char* backend() const override { return backend_; }

  Status all_reduce(at::Tensor tensor, ReduceOp op, std::optional<Timeout> timeout) override {
    return run_collective("all_reduce", activity_.get(), [&] {
      std::vector<at::Tensor> tensors{tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = to_c10d(op);
      options.timeout = timeout.value_or(timeout_);
      wait_for(*handle_.group->allreduce(tensors, options), tensor, options.timeout);
    });
  }

  Status broadcast(at::Tensor tensor, int64_t root) override {
    return run_collective("broadcast", activity_.get(), [&] {
      std::vector<at::Tensor> tensors{tensor};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      options.timeout = timeout_;
      wait_for(*handle_.group->broadcast(tensors, options), tensor, options.timeout);
    });
  }

  Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) override {
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int64_t r = 0; r < world_size(); ++r) outputs[0].push_back(at::empty_like(tensor));
    GNN_RETURN_IF_ERROR(run_collective("all_gather", activity_.get(), [&] {
      std::vector<at::Tensor> inputs{tensor};
      c10d::AllgatherOptions options;
      options.timeout = timeout_;
      wait_for(*handle_.group->allgather(outputs, inputs, options), tensor, options.timeout);
    }));
    return std::move(outputs[0]);
  }

  // A reduction of one number: not every backend's barrier in c10d takes a time-out per call.
  Status barrier(std::optional<Timeout> timeout) override {
    return all_reduce(at::zeros({1}, at::kInt), ReduceOp::Sum, timeout);
  }

  std::shared_ptr<progress::CollectiveActivity> activity() const override { return activity_; }
  const C10dGroupHandle* process_group() const override { return &handle_; }

 private:
  C10dGroupHandle handle_;
  const char* backend_;
  Timeout timeout_;
  std::shared_ptr<progress::CollectiveActivity> activity_;
};

}  // namespace

Error error_of_current_exception(const char* what) {
  const auto make = [what](ErrorKind kind, const std::exception& error) {
    const std::string text = error.what();
    return Error{
        .kind = kind, .message = std::string(what) + ": " + text.substr(0, text.find('\n'))
    };
  };
  try {
    throw;
  } catch (const c10::DistError& error) {
    return make(ErrorKind::PeerLost, error);
  } catch (const std::exception& error) {
    if (is_lost_connection_of_gloo(error)) return make(ErrorKind::PeerLost, error);
    return make(is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal, error);
  }
}

std::shared_ptr<Communicator> make_c10d_communicator(
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    const char* backend,
    const CommunicatorOptions& options
) {
  return std::make_shared<C10dCommunicator>(std::move(group), backend, options);
}

}  // namespace gnn::comm
