#include "worker/tasks/serve.h"

#include "worker/comm/communicator.h"
#include "worker/progress/console_sink.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/key.h"
#include "worker/rpc/server.h"
#include "worker/servers/batch_service.h"
#include "worker/servers/holder_peer.h"
#include "worker/servers/holders.h"
#include "worker/tasks/data_description.h"
#include "worker/tasks/dealt_batches.h"
#include "worker/tasks/link_batches.h"
#include "worker/tasks/link_data.h"
#include "worker/tasks/models.h"
#include "worker/tasks/node_batches.h"
#include "worker/tasks/node_data.h"
#include "worker/tasks/registry.h"
#include "worker/tasks/run_training.h"

#include <chrono>
#include <string_view>
#include <utility>

namespace gnn::tasks {
namespace {

// Shows a task's messages beside its progress.
class MessageSink final : public progress::NullSink {
 public:
  explicit MessageSink(ProgressBar& bar) : bar_(bar) {}
  void on_message(const std::string& message) override { bar_.say(message); }

 private:
  ProgressBar& bar_;
};

class BatchServer final : public RunningServer {
 public:
  BatchServer(const api::GnnJobSpec& spec, const ServeContext& context, const rpc::Key& key)
      : spec_(spec), context_(context), key_(key), loop_(std::make_shared<rpc::EventLoop>()) {}

  // What it made goes in the reverse order: first nobody asks any more, last the data.
  ~BatchServer() override {
    server_.reset();
    if (service_ != nullptr) service_->stop();
    if (holders_ != nullptr) holders_->close();
  }
  BatchServer(const BatchServer&) = delete;
  BatchServer& operator=(const BatchServer&) = delete;

  Status start() {
    MessageSink sink(context_.loading);
    const auto alone = comm::make_single_communicator();
    TaskContext task{
        .communicator = alone,
        .num_cpus = context_.num_cpus,
        .memory_bytes = context_.memory_bytes,
        .incarnation = {},
        .data_endpoint = context_.data_endpoint,
        .server = context_.server,
        .loading = context_.loading,
        .progress = sink,
        .stop = context_.stop
    };
    return spec_.task.type == api::TaskType::LinkPrediction ? serve_links(task) : serve_nodes(task);
  }

  [[nodiscard]] uint16_t port() const override { return server_->port(); }

  [[nodiscard]] progress::ServerData stats() const override {
    const servers::ServiceStats stats = service_->stats();
    progress::ServerData data{
        .batches = stats.batches,
        .bytes = 0,
        .queue_length = stats.queue_length + stats.under_way,
        .threads = stats.threads,
        .busy_seconds = stats.busy_seconds,
        .clients = server_->num_clients(),
        .refused = stats.refused + server_->refused(),
        .seconds =
            {.queue = stats.queue_seconds,
             .sample = stats.sample_seconds,
             .gather = stats.gather_seconds,
             .wire = stats.wire_seconds}
    };
    for (const rpc::PeerStats& peer : server_->stats()) {
      for (const rpc::MethodStats& method : peer.methods) data.bytes += method.payload_sent;
    }
    return data;
  }

  void drain(Duration limit) override { service_->drain(limit); }

 private:
  [[nodiscard]] int64_t part() const { return context_.server % spec_.placement->partitions; }
  [[nodiscard]] Ranks ranks() const {
    return {
        .count = context_.nodes * context_.processes_per_node,
        .per_node = context_.processes_per_node
    };
  }
  [[nodiscard]] rpc::Identity identity() const {
    return {
        .job_uid = context_.job_uid, .role = rpc::Role::Server, .node = context_.server, .rank = 0
    };
  }

  Status serve_nodes(TaskContext& task) {
    GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, open_node_data(spec_, task));
    DataDescription data = describe_data(dataset);
    data.text = describe(dataset);
    GNN_RETURN_IF_ERROR(count_items(data, [&](api::Part of, Use use) {
      return node_items(dataset, spec_.training, ranks(), of, use);
    }));
    GNN_RETURN_IF_ERROR(make_service(std::move(data)));
    GNN_ASSIGN_OR_RETURN(
        auto batches,
        NodeBatches::create(
            std::move(dataset),
            task.groups,
            {.sampling = *spec_.sampling,
             .training = spec_.training,
             .ranks = ranks(),
             .partitioned = partitioned(task)}
        )
    );
    return begin(std::move(batches));
  }

  Status serve_links(TaskContext& task) {
    GNN_ASSIGN_OR_RETURN(SplitDataset split, open_link_data(spec_, task));
    DataDescription data = describe_data(split.dataset);
    data.text = describe(split);
    GNN_RETURN_IF_ERROR(count_items(data, [&](api::Part of, Use use) {
      return link_items(split, spec_.training, ranks(), of, use);
    }));
    // The model is made for what it reads alone.
    GNN_ASSIGN_OR_RETURN(const LinkWidths widths, link_widths_of(data, spec_.model));
    GNN_ASSIGN_OR_RETURN(
        const auto model,
        make_link_model(
            spec_.model,
            {.dataset = split.dataset,
             .link = split.dataset.links->edge_type,
             .widths = widths.of_inputs}
        )
    );
    LinkReads reads{.edge_types = model->reads(), .features = {}};
    for (const int64_t table : widths.tables) reads.features.push_back(table < 0);
    GNN_RETURN_IF_ERROR(make_service(std::move(data)));
    GNN_ASSIGN_OR_RETURN(
        auto batches,
        LinkBatches::create(
            std::move(split),
            std::move(reads),
            task.groups,
            {.sampling = *spec_.sampling,
             .training = spec_.training,
             .split_seed = split_seed_of(spec_),
             .ranks = ranks(),
             .partitioned = partitioned(task)}
        )
    );
    return begin(std::move(batches));
  }

  template <class ItemsOf>
  Status count_items(DataDescription& data, const ItemsOf& items_of) const {
    data.config_hash = config_hash(spec_);
    for (const api::Part of : {api::Part::Train, api::Part::Validation, api::Part::Test}) {
      const Use use = of == api::Part::Train ? Use::Training : Use::Evaluation;
      GNN_ASSIGN_OR_RETURN(const auto items, items_of(of, use));
      data.items.at(static_cast<size_t>(of)) = counts_of(items);
    }
    return {};
  }

  Status make_service(const DataDescription& data) {
    description_ = encode(data);
    const bool asks_others = is_partitioned(spec_.placement) && spec_.placement->partitions > 1;
    GNN_ASSIGN_OR_RETURN(
        service_,
        servers::BatchService::create(
            {.hello =
                 {.server = context_.server,
                  .restart = context_.restart,
                  .partitions = spec_.placement->partitions,
                  .part = part(),
                  .description = description_},
             .num_threads = spec_.sampling->num_threads.value_or(context_.num_cpus),
             .concurrency =
                 asks_others ? spec_.sampling->concurrency.value_or(kDefaultConcurrency) : 1,
             .max_bytes_in_flight = spec_.servers->bytes_in_flight()}
        )
    );
    return {};
  }

  // Where it reads other parts from other servers.
  std::optional<PartitionedData> partitioned(TaskContext& task) {
    std::optional<PartitionedData> data = partitioned_data(spec_, task);
    if (!data) return data;
    data->server = ServerPlace{
        .part = part(),
        .connect = [this](std::shared_ptr<const shards::Service> shards
                   ) { return connect(std::move(shards)); }
    };
    return data;
  }

  Result<shards::Peers> connect(std::shared_ptr<const shards::Service> shards) {
    GNN_RETURN_IF_ERROR(listen(std::move(shards)));
    GNN_ASSIGN_OR_RETURN(
        holders_,
        servers::Holders::create(
            loop_,
            {.identity = identity(),
             .partitions = spec_.placement->partitions,
             .description = description_,
             .peer_timeout = context_.peer_timeout,
             .server_timeout = context_.server_timeout,
             // Before ranks leave this server, which waits, for another one.
             .answer_timeout = std::chrono::milliseconds(spec_.training.timeouts.step_seconds * 250)
            },
            key_,
            context_.directory
        )
    );
    shards::Peers peers(static_cast<size_t>(spec_.placement->partitions));
    for (int64_t other = 0; other < spec_.placement->partitions; ++other) {
      if (other == part()) continue;
      peers[static_cast<size_t>(other)] =
          std::make_shared<servers::HolderPeer>(holders_, other, context_.server);
    }
    return peers;
  }

  Status listen(std::shared_ptr<const shards::Service> shards) {
    GNN_ASSIGN_OR_RETURN(
        server_,
        rpc::Server::start_late(
            loop_,
            servers::BatchService::with_bounds(
                {.address = context_.data_endpoint.address,
                 .identity = identity(),
                 .num_threads = spec_.sampling->num_threads.value_or(context_.num_cpus),
                 .peer_timeout = context_.peer_timeout}
            ),
            key_,
            service_->handler(std::move(shards))
        )
    );
    if (context_.on_listening) context_.on_listening(server_->port());
    return {};
  }

  template <class Data>
  Status begin(std::shared_ptr<const Data> batches) {
    if (server_ == nullptr) GNN_RETURN_IF_ERROR(listen(nullptr));
    service_->set_maker<typename Data::Batch>(
        std::make_shared<DealtBatches<Data>>(std::move(batches), part())
    );
    return {};
  }

  const api::GnnJobSpec spec_;
  const ServeContext context_;
  const rpc::Key key_;
  const std::shared_ptr<rpc::EventLoop> loop_;
  std::string description_;
  std::shared_ptr<servers::BatchService> service_;  // with the data, once it makes batches
  std::shared_ptr<servers::Holders> holders_;       // null where it asks nobody
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<RunningServer>> serve(const api::GnnJob& job, const ServeContext& context) {
  if (auto errors = api::validate(job); !errors.empty()) return tl::unexpected(to_error(errors));
  if (!job.spec.servers || !job.spec.placement) {
    return fail(
        ErrorKind::Configuration, "spec.servers: expected a job with sampling servers, found none"
    );
  }
  GNN_ASSIGN_OR_RETURN(const rpc::Key key, rpc::Key::read_file(context.data_endpoint.key_file));
  auto server = std::make_unique<BatchServer>(job.spec, context, key);
  GNN_RETURN_IF_ERROR(server->start());
  return std::unique_ptr<RunningServer>(std::move(server));
}

}  // namespace gnn::tasks
