#include "worker/tasks/job_servers.h"

#include "worker/rpc/key.h"
#include "worker/tasks/run_training.h"

#include <chrono>
#include <string>

namespace gnn::tasks {
namespace {

progress::ServedData served_data_of(const servers::HoldersStats& stats) {
  return {
      .batches = stats.batches,
      .bytes = stats.bytes,
      .under_way = stats.under_way,
      .failovers = stats.failovers,
      .waiting = stats.waiting,
      .gave_up = stats.gave_up,
      .seconds =
          {.queue = stats.times.queue_seconds,
           .sample = stats.times.sample_seconds,
           .gather = stats.times.gather_seconds,
           .wire = stats.wire_seconds}
  };
}

// All ranks have asked servers of their own: of one job and one data set.
Status check_same(comm::Communicator& communicator, const std::string& description) {
  GNN_ASSIGN_OR_RETURN(const auto of_ranks, comm::all_gather_bytes(communicator, description));
  std::vector<std::string> digests;
  for (const std::string& text : of_ranks) {
    const auto data = decode_description(text);
    digests.push_back(data ? data->digest : "none");
  }
  std::string differences = comm::describe_differences(digests);
  if (differences.empty() && !comm::describe_differences(of_ranks).empty())
    differences = "the same, but other items or types";
  if (differences.empty()) return {};
  return fail(
      ErrorKind::Data,
      "spec.dataset: expected servers of one data set for all ranks, found the digest " +
          differences
  );
}

}  // namespace

JobServers::~JobServers() {
  if (meter_ != nullptr) meter_->stop();
  if (holders_ != nullptr) holders_->close();
}

Result<std::shared_ptr<JobServers>> JobServers::open(
    const api::GnnJobSpec& spec, TaskContext& context
) {
  if (context.servers == nullptr) {
    return fail(
        ErrorKind::Configuration,
        "spec.servers: expected an agent that names the job's sampling servers, found none"
    );
  }
  std::shared_ptr<JobServers> made(new JobServers());
  GNN_ASSIGN_OR_RETURN(const rpc::Key key, rpc::Key::read_file(context.data_endpoint.key_file));
  const comm::RankGroups& groups = context.groups;
  GNN_ASSIGN_OR_RETURN(
      made->holders_,
      servers::Holders::create(
          made->loop_,
          {.identity =
               {.job_uid = context.incarnation.job_uid,
                .role = rpc::Role::Client,
                .attempt = context.incarnation.attempt,
                .round = context.incarnation.round,
                .node = groups.all->rank() / groups.node->world_size(),
                .rank = groups.node->rank()},
           .partitions = spec.placement->partitions,
           .peer_timeout = std::chrono::seconds(spec.training.timeouts.peer_seconds),
           .server_timeout = context.server_timeout,
           // Before the rank counts as hung.
           .answer_timeout = std::chrono::milliseconds(spec.training.timeouts.step_seconds * 500)},
          key,
          context.servers
      )
  );
  made->meter_ = std::make_shared<progress::ServedMeter>([holders = made->holders_.get()] {
    return served_data_of(holders->stats());
  });
  context.progress.on_served_meter(made->meter_);
  GNN_ASSIGN_OR_RETURN(const std::string description, made->holders_->open());
  GNN_RETURN_IF_ERROR(check_same(*context.communicator, description));
  GNN_ASSIGN_OR_RETURN(made->data_, decode_description(description));
  if (made->data_.config_hash != config_hash(spec)) {
    return fail(
        ErrorKind::Configuration,
        "expected servers of this job's configuration, found those of another one: they were "
        "started with another file"
    );
  }
  return made;
}

ServedOptions served_options(
    const api::GnnJobSpec& spec, const TaskContext& context, ItemOptionsOf items
) {
  return {
      .items = items,
      .training = spec.training,
      .partitions = spec.placement->partitions,
      .ranks = ranks_of(context.groups),
      .rank = context.groups.all->rank(),
      .pipeline = pipeline_options(*spec.sampling, true, context.num_cpus, context.device),
      .max_bytes_in_flight = spec.servers->bytes_in_flight() / 2,
  };
}

}  // namespace gnn::tasks
