// Ranks without a graph, whose batches servers make, against ranks that have all data: real servers on
// connections of this machine.

#include "common/api/codec.h"
#include "common/api/defaults.h"
#include "common/guarded.h"
#include "common/progress_bar.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/tasks/logged_models.h"
#include "worker/data/co_occurrence.h"
#include "worker/data/generate.h"
#include "worker/data/native.h"
#include "worker/data/transforms.h"
#include "worker/graph/load.h"
#include "worker/partition/extract.h"
#include "worker/partition/partition.h"
#include "worker/progress/console_sink.h"
#include "worker/rpc/client.h"
#include "worker/rpc/server.h"
#include "worker/servers/batch_request.h"
#include "worker/servers/batch_service.h"
#include "worker/servers/hello.h"
#include "worker/tasks/job_servers.h"
#include "worker/tasks/link_data.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/node_data.h"
#include "worker/tasks/node_workload.h"
#include "worker/tasks/registry.h"
#include "worker/tasks/serve.h"
#include "worker/training/trainer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Servers, nodes of workers, ranks of each, partitions of the data.
struct Cast {
  int64_t servers = 1;
  int64_t nodes = 1;
  int64_t ranks = 1;
  int64_t partitions = 1;
};

std::string text_of(const Cast& cast) {
  return std::to_string(cast.servers) + " servers, " + std::to_string(cast.nodes) + " x " +
         std::to_string(cast.ranks) + " ranks, " + std::to_string(cast.partitions) + " partitions";
}

// ---- data

using Made = Result<data::DatasetArrays>;

// Where the partition of a data set is that has no other one.
std::string part_of(const std::string& folder, int64_t part) {
  return folder + "-part-" + std::to_string(part);
}

void publish_parts(
    const std::string& folder,
    int64_t partitions,
    const std::function<Made(data::ArrayStorage&)>& make
) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  ThreadPool none(0);
  auto writer = data::NativeWriter::open(folder, "k").value();
  const auto parts = partition::partition(
      make(memory).value(),
      {.parts = partitions, .method = partition::Method::Ldg, .fanout = {5, 3}, .batch_size = 8},
      *writer,
      none,
      silent
  );
  ASSERT_TRUE(parts) << parts.error().message;
  const Status published = writer->publish(*parts, false);
  ASSERT_TRUE(published) << published.error().message;
  const std::string digest = data::digest_of(data::open_native(folder).value());
  for (int64_t part = 0; part < partitions; ++part) {
    auto alone = data::NativeWriter::open(part_of(folder, part), "k").value();
    const auto extracted = partition::extract(*parts, part, digest, *alone, silent);
    ASSERT_TRUE(extracted) << extracted.error().message;
    ASSERT_TRUE(alone->publish(*extracted, false));
  }
}

Made make_products(data::ArrayStorage& storage, uint64_t seed) {
  SilentProgressBar silent;
  return data::generate(
      {.shape = data::Shape::Products, .scale = 0.0005, .seed = seed}, storage, silent
  );
}

// Users and items with links, their reverse, and edges between items.
Made make_shop(data::ArrayStorage& storage) {
  SilentProgressBar silent;
  GNN_ASSIGN_OR_RETURN(
      auto arrays,
      data::generate({.shape = data::Shape::Taobao, .scale = 0.0003, .seed = 4}, storage, silent)
  );
  const data::EdgeTypeName link = data::name_of(arrays.edge_tables.at(0));
  GNN_ASSIGN_OR_RETURN(
      arrays,
      data::transform(std::move(arrays), {.link = link, .add_reverse = true}, storage, silent)
  );
  ThreadPool pool(0);
  GNN_ASSIGN_OR_RETURN(
      auto items,
      data::co_occurrence(
          arrays.edge_tables.at(0),
          {.num_sources = data::find_node_table(arrays, link.source)->num_nodes, .at_least = 2},
          pool,
          storage,
          silent
      )
  );
  items.source = items.destination = link.destination;
  items.relation = "to";
  arrays.edge_tables.push_back(std::move(items));
  return arrays;
}

// ---- jobs

constexpr const char* kApart = "topology: Partitioned, features: Partitioned, ";

std::string common_fields(const Cast& cast, const std::string& placement) {
  return "  placement: {" + placement + "partitions: " + std::to_string(cast.partitions) + "}\n" +
         "  workers: {nodes: " + std::to_string(cast.nodes) +
         ", processesPerNode: " + std::to_string(cast.ranks) + ", template: {image: none}}\n" +
         (cast.servers > 0 ? "  servers: {nodes: " + std::to_string(cast.servers) + "}\n" : "");
}

api::GnnJob parse(const std::string& spec) {
  auto job =
      api::parse_job_yaml(
          "apiVersion: gnn.dev/v1alpha1\nkind: GNNJob\nmetadata: {name: served}\nspec:\n" + spec,
          api::UnknownFields::Reject
      )
          .value();
  api::apply_defaults(job.spec);
  return job;
}

api::GnnJob node_job(
    const std::string& folder,
    const Cast& cast,
    const std::string& placement,
    const std::string& more = ""
) {
  return parse(
      "  task: {type: NodeClassification}\n"
      "  dataset: {format: Native, path: " +
      folder +
      "}\n"
      "  model: {type: GraphSAGE, graphSage: {layers: 2, hiddenChannels: 8, dropout: \"0\"}}\n"
      "  sampling: {fanout: [5, 3], numThreads: 2, concurrency: 3}\n"
      "  training: {epochs: 3, batchSize: 8, evaluation: {every: 2, fanout: [4, 2], maxBatches: 3, "
      "parts: [Train, Validation]}}\n" +
      common_fields(cast, placement) + more
  );
}

api::GnnJob link_job(
    const std::string& folder,
    const Cast& cast,
    const std::string& placement,
    const std::string& metric
) {
  return parse(
      "  task: {type: LinkPrediction, link: {source: user, relation: to, destination: item}}\n"
      "  dataset: {format: Native, path: " +
      folder + ", split: {type: RandomLink, validation: \"0.1\", test: \"0.2\", " +
      (metric == "MRR" ? "" : "negativeRatio: \"1\", ") +
      "seed: 5}}\n"
      "  model: {type: BipartiteSAGE, bipartiteSage: {hiddenChannels: 4, outChannels: 4}}\n"
      "  sampling: {fanout: [3, 2], numThreads: 1, excludeSeedEdges: true, negatives: {strict: "
      "true}}\n"
      "  training: {epochs: 1, batchSize: 512, evaluation: {metric: " +
      metric + (metric == "MRR" ? ", negatives: 3" : "") + ", parts: [Validation]}}\n" +
      common_fields(cast, placement)
  );
}

api::GnnJob in_bfloat16(api::GnnJob job) {
  job.spec.training.precision = api::Precision::BFloat16;
  return job;
}

// ---- servers

// The servers of a job, each begun on a thread of its own: those of several partitions wait for each
// other.
class Servers {
 public:
  Servers(const Cast& cast, std::string key_file)
      : cast_(cast),
        key_file_(std::move(key_file)),
        directory_(std::make_shared<servers::Directory>()) {}
  ~Servers() { wait(); }

  [[nodiscard]] const std::shared_ptr<servers::Directory>& directory() const { return directory_; }

  void begin(int64_t server, const api::GnnJob& job, int64_t restart = 0) {
    threads_.emplace_back([this, server, job, restart] {
      SilentProgressBar silent;
      const StopToken stop;
      auto running = serve(
          job,
          {.server = server,
           .restart = restart,
           .nodes = cast_.nodes,
           .processes_per_node = cast_.ranks,
           .job_uid = "job",
           .data_endpoint = {.address = {.host = "127.0.0.1", .port = 0}, .key_file = key_file_},
           .num_cpus = 2,
           .peer_timeout = std::chrono::seconds(20),
           .server_timeout = std::chrono::seconds(20),
           .directory = directory_,
           .loading = silent,
           .stop = stop,
           .on_listening =
               [&](uint16_t port) {
                 list(
                     {.server = server,
                      .restart = restart,
                      .address = "127.0.0.1:" + std::to_string(port)}
                 );
               }}
      );
      if (!running) {
        errors_.lock()->push_back(running.error().message);
        { const auto live = live_.lock(); }
        live_.notify_all();
        return;
      }
      (*running_.lock())[server] = std::move(*running);
    });
  }
  // Returns once the server has opened its data set, or one has failed.
  void wait_until_listed(int64_t server) {
    live_.lock().wait([&](const auto& live) {
      return live.contains(server) || !errors_.lock()->empty();
    });
  }
  void list(const servers::LiveServer& server) {
    const auto live = live_.lock();
    (*live)[server.server] = server;
    std::vector<servers::LiveServer> all;
    for (const auto& each : *live) all.push_back(each.second);
    directory_->update(all);
    live_.notify_all();
  }
  [[nodiscard]] servers::LiveServer listed(int64_t server) { return live_.lock()->at(server); }
  // Returns once all that were begun make batches, or have failed.
  void wait() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Without a word to anybody.
  void kill(int64_t server) {
    std::unique_ptr<RunningServer> gone = std::move((*running_.lock())[server]);
  }
  [[nodiscard]] std::vector<std::string> errors() const { return *errors_.lock(); }
  [[nodiscard]] int64_t batches_of(int64_t server) const {
    return running_.lock()->at(server)->stats().batches;
  }

 private:
  const Cast cast_;
  const std::string key_file_;
  const std::shared_ptr<servers::Directory> directory_;
  Guarded<std::map<int64_t, servers::LiveServer>> live_;
  mutable Guarded<std::map<int64_t, std::unique_ptr<RunningServer>>> running_;
  mutable Guarded<std::vector<std::string>> errors_;
  std::vector<std::thread> threads_;
};

// What a server answers to a question of one's own.
Result<rpc::Reply> ask(
    const servers::LiveServer& server,
    const rpc::Identity& identity,
    const rpc::Key& key,
    servers::Method method,
    const std::vector<std::byte>& request = {}
) {
  const auto client = rpc::Client::connect(
                          std::make_shared<rpc::EventLoop>(),
                          {.address = server.address,
                           .role = rpc::Role::Server,
                           .node = server.server,
                           .identity = identity},
                          key
  )
                          .value();
  const auto reply = std::make_shared<std::promise<Result<rpc::Reply>>>();
  client->call(
      {.method = static_cast<uint16_t>(method),
       .request = {std::span(request)},
       .most_rest = int64_t{1} << 20},
      [reply](Result<rpc::Reply> answer) { reply->set_value(std::move(answer)); }
  );
  return reply->get_future().get();
}

// A server that lives, serves what another one does, and answers neither ranks nor servers.
class MuteServer {
 public:
  MuteServer(int64_t number, const servers::LiveServer& other, const rpc::Key& key)
      : number_(number),
        loop_(std::make_shared<rpc::EventLoop>()),
        hello_(hello_like(other, key)),
        server_(rpc::Server::start_late(
                    loop_,
                    servers::BatchService::with_bounds(
                        {.address = {.host = "127.0.0.1", .port = 0}, .identity = identity()}
                    ),
                    key,
                    [this](
                        const rpc::Peer& peer,
                        uint16_t method,
                        std::span<const std::byte> /*request*/,
                        const rpc::Responder& respond
                    ) { answer(peer, method, respond); }
        ).value()) {}
  ~MuteServer() {
    server_.reset();
    owed_.lock()->clear();
  }
  MuteServer(const MuteServer&) = delete;
  MuteServer& operator=(const MuteServer&) = delete;

  [[nodiscard]] servers::LiveServer live() const {
    return {
        .server = number_, .restart = 0, .address = "127.0.0.1:" + std::to_string(server_->port())
    };
  }
  // Who has asked for more than a hello.
  [[nodiscard]] std::vector<rpc::Peer> asked_by() const { return *asked_by_.lock(); }

 private:
  [[nodiscard]] rpc::Identity identity() const {
    return {.job_uid = "job", .role = rpc::Role::Server, .node = number_};
  }
  [[nodiscard]] std::vector<std::byte> hello_like(
      const servers::LiveServer& other, const rpc::Key& key
  ) const {
    const auto reply = ask(other, identity(), key, servers::Method::Hello);
    auto hello = servers::decode_hello(reply.value().rest).value();
    hello.server = number_;
    hello.restart = 0;
    hello.part = number_ % hello.partitions;
    return servers::encode(hello);
  }
  void answer(const rpc::Peer& peer, uint16_t method, const rpc::Responder& respond) {
    if (method == static_cast<uint16_t>(servers::Method::Hello))
      return respond(rpc::Answer{.segments = {std::span(hello_)}});
    if (method == static_cast<uint16_t>(servers::Method::Ready)) return respond(rpc::Answer{});
    asked_by_.lock()->push_back(peer);
    owed_.lock()->push_back(respond);
  }

  const int64_t number_;
  const std::shared_ptr<rpc::EventLoop> loop_;
  const std::vector<std::byte> hello_;
  mutable Guarded<std::vector<rpc::Peer>> asked_by_;
  Guarded<std::vector<rpc::Responder>> owed_;
  std::unique_ptr<rpc::Server> server_;
};

// ---- ranks

// What a job ends with.
struct Trained {
  std::string hash;  // of parameters and embeddings
  std::map<std::string, double> metrics;
  std::vector<std::vector<uint64_t>> batches;  // of each rank
};

// Calls back after each step.
class StepSink final : public progress::NullSink {
 public:
  std::function<void(int64_t step)> on_step_done;
  void on_step(const progress::StepReport& report) override {
    if (on_step_done) on_step_done(report.global_step);
  }
  void on_served_meter(const std::shared_ptr<const progress::ServedMeter>& meter) override {
    served = meter;
  }
  std::shared_ptr<const progress::ServedMeter> served;
};

class ServedTraining : public ::testing::Test {
 protected:
  ServedTraining() : key_file_(folder_.path("key")) {
    std::ofstream(key_file_) << rpc::Key::draw().value().to_hex() << '\n';
    at::set_num_threads(1);
  }

  [[nodiscard]] std::string products(int64_t partitions, uint64_t seed = 4) {
    const std::string path =
        folder_.path("products-" + std::to_string(partitions) + "-" + std::to_string(seed));
    if (!std::filesystem::exists(path)) {
      publish_parts(path, partitions, [seed](data::ArrayStorage& storage) {
        return make_products(storage, seed);
      });
    }
    return path;
  }
  [[nodiscard]] std::string shop(int64_t partitions) {
    const std::string path = folder_.path("shop-" + std::to_string(partitions));
    if (!std::filesystem::exists(path)) publish_parts(path, partitions, &make_shop);
    return path;
  }

  [[nodiscard]] TaskContext context_of(
      const comm::RankGroups& groups,
      progress::ProgressSink& sink,
      const std::shared_ptr<servers::Directory>& directory
  ) {
    return {
        .communicator = groups.all,
        .groups = groups,
        .incarnation = {.job_uid = "job", .attempt = 3, .round = 2},
        .data_endpoint = {.address = {.host = "127.0.0.1", .port = 0}, .key_file = key_file_},
        .servers = directory,
        .server_timeout = std::chrono::seconds(20),
        .loading = silent_,
        .progress = sink,
        .stop = stop_
    };
  }

  // As gnn-worker runs a rank, in a job of one.
  [[nodiscard]] Result<TaskResult> run_alone(
      const api::GnnJob& job, const std::shared_ptr<servers::Directory>& directory
  ) {
    progress::NullSink sink;
    const comm::RankGroups groups(comm::make_single_communicator());
    TaskContext context = context_of(groups, sink, directory);
    return parse_task(job).value()->run(context);
  }

  template <class Workload>
  void train(
      Workload& workload,
      const comm::RankGroups& groups,
      const api::Training& training,
      progress::ProgressSink& sink,
      Trained& trained
  ) {
    training::TrainerContext context{.communicator = groups.all, .progress = sink, .stop = stop_};
    const auto result = comm::require(training::train(workload, context, {.training = training}));
    EXPECT_GE(result.report.global_steps, 10);
    if (groups.all->rank() != 0) return;
    trained.hash = result.report.parameters_hash;
    trained.metrics = result.report.metrics;
  }

  // `directory` null: ranks that have all data.
  Trained train_nodes(
      const api::GnnJob& job,
      const std::shared_ptr<servers::Directory>& directory,
      const std::function<void(int64_t step)>& on_step = nullptr
  ) {
    const api::GnnJobSpec& spec = job.spec;
    const Ranks ranks{
        .count = spec.workers.nodes * spec.workers.processes_per_node,
        .per_node = spec.workers.processes_per_node
    };
    Trained trained;
    trained.batches.resize(static_cast<size_t>(ranks.count));
    std::vector<std::shared_ptr<LoggedNodeModel>> models;
    const graph::LoadOptions load{.accept_part = true};
    const auto whole = graph::load_dataset(spec.dataset, load, silent_).value();
    for (int64_t rank = 0; rank < ranks.count; ++rank) {
      torch::manual_seed(5);
      models.push_back(std::make_shared<LoggedNodeModel>(make_node_model(
          spec.model, {.in_channels = whole.features().width(), .num_classes = whole.num_classes}
      )));
    }
    comm::run_ranks_of_nodes(
        spec.workers.nodes,
        spec.workers.processes_per_node,
        [&](const comm::RankGroups& groups) {
          const auto rank = static_cast<size_t>(groups.all->rank());
          StepSink sink;
          if (rank == 0) sink.on_step_done = on_step;
          TaskContext context = context_of(groups, sink, directory);
          const NodeWorkloadOptions options{.sampling = *spec.sampling, .training = spec.training};
          std::unique_ptr<NodeWorkload> workload;
          if (directory == nullptr) {
            workload = comm::require(NodeWorkload::create(whole, models[rank], groups, options));
          } else {
            auto batches = comm::require(AskedBatches<loader::MiniBatch>::create(
                comm::require(JobServers::open(spec, context)),
                served_options(spec, context, &item_options)
            ));
            workload = comm::require(
                NodeWorkload::create(std::move(batches), models[rank], groups, options)
            );
          }
          train(*workload, groups, spec.training, sink, trained);
          trained.batches[rank] = models[rank]->log.batches();
          if (directory == nullptr) return;
          // By which its agent knows whether it waits for a server, or hangs.
          EXPECT_TRUE(sink.served != nullptr && sink.served->read().batches > 0);
        }
    );
    return trained;
  }

  Trained train_links(
      const api::GnnJob& job, const std::shared_ptr<servers::Directory>& directory
  ) {
    const api::GnnJobSpec& spec = job.spec;
    const int64_t ranks = spec.workers.nodes * spec.workers.processes_per_node;
    Trained trained;
    trained.batches.resize(static_cast<size_t>(ranks));
    progress::NullSink nothing;
    const comm::RankGroups alone(comm::make_single_communicator());
    TaskContext loading = context_of(alone, nothing, nullptr);
    const SplitDataset split = open_link_data(spec, loading).value();
    const graph::Dataset& whole = split.dataset;
    std::vector<std::shared_ptr<LoggedLinkModel>> models;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      torch::manual_seed(5);
      models.push_back(std::make_shared<LoggedLinkModel>(
          make_link_model(
              spec.model, {.dataset = whole, .link = whole.links->edge_type, .widths = {4, 4}}
          ).value()
      ));
    }
    comm::run_ranks_of_nodes(
        spec.workers.nodes,
        spec.workers.processes_per_node,
        [&](const comm::RankGroups& groups) {
          const auto rank = static_cast<size_t>(groups.all->rank());
          progress::NullSink sink;
          TaskContext context = context_of(groups, sink, directory);
          LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, 1}};
          std::vector<embedding::TableOptions> tables;
          for (const graph::NodeTypeData& type : whole.node_types)
            tables.push_back({.name = type.name, .rows = type.num_nodes, .width = 4});
          inputs.embeddings = comm::require(embedding::Embeddings::create(
              {.tables = tables, .optimizer = spec.training.optimizer, .seed = 5}, *groups.all
          ));
          const LinkWorkloadOptions options{
              .sampling = *spec.sampling, .training = spec.training, .split_seed = 5
          };
          std::unique_ptr<LinkWorkload> workload;
          if (directory == nullptr) {
            workload = comm::require(
                LinkWorkload::create(split, models[rank], std::move(inputs), groups, options)
            );
          } else {
            auto asked = comm::require(JobServers::open(spec, context));
            const DescribedEdges link =
                asked->data().edges.at(static_cast<size_t>(asked->data().link.value()));
            auto batches = comm::require(AskedBatches<loader::LinkMiniBatch>::create(
                std::move(asked), served_options(spec, context, &link_item_options)
            ));
            workload = comm::require(LinkWorkload::create(
                std::move(batches),
                {.source_type = link.source_index, .destination_type = link.destination_index},
                models[rank],
                std::move(inputs),
                groups,
                options
            ));
          }
          train(*workload, groups, spec.training, sink, trained);
          trained.batches[rank] = models[rank]->log.batches();
        }
    );
    return trained;
  }

  // Makes a data set the one at the path that jobs have; returns that path.
  [[nodiscard]] std::string mount(const std::string& data) {
    std::string path = folder_.path("mounted");
    std::filesystem::remove(path);
    std::filesystem::create_symlink(data, path);
    return path;
  }

  // The job's data set is `whole`, of which the first server has all, and each other one its partition.
  void begin_all(
      Servers& servers, const Cast& cast, const api::GnnJob& job, const std::string& whole
  ) {
    for (int64_t server = 0; server < cast.servers; ++server) {
      EXPECT_EQ(
          mount(server == 0 ? whole : part_of(whole, server % cast.partitions)),
          job.spec.dataset.path
      );
      servers.begin(server, job);
      servers.wait_until_listed(server);
    }
    EXPECT_EQ(mount(whole), job.spec.dataset.path);
    servers.wait();
  }

  static void expect_same(const Trained& found, const Trained& expected, const char* metric) {
    EXPECT_FALSE(expected.hash.empty());
    EXPECT_EQ(found.hash, expected.hash);
    EXPECT_TRUE(expected.metrics.contains(metric));
    EXPECT_EQ(found.metrics, expected.metrics);
    for (size_t rank = 0; rank < expected.batches.size(); ++rank) {
      EXPECT_FALSE(expected.batches[rank].empty());
      EXPECT_EQ(found.batches[rank], expected.batches[rank]) << "rank " << rank;
    }
  }

  const testing::TemporaryFolder folder_;
  const std::string key_file_;
  SilentProgressBar silent_;
  const StopToken stop_;
};

constexpr Cast kCasts[] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 2, 1, 1}, {3, 2, 1, 2}};

TEST_F(ServedTraining, OfNodesHasTheBatchesMetricsAndBitsOfRanksThatHaveAllData) {
  for (const Cast& cast : kCasts) {
    SCOPED_TRACE(text_of(cast));
    const std::string whole = products(cast.partitions);
    const api::GnnJob job = node_job(mount(whole), cast, kApart);
    Servers servers(cast, key_file_);
    begin_all(servers, cast, job, whole);
    ASSERT_EQ(servers.errors(), std::vector<std::string>());
    const Trained trained = train_nodes(job, servers.directory());
    expect_same(trained, train_nodes(job, nullptr), "test_accuracy");
    for (int64_t server = 0; server < cast.servers; ++server)
      EXPECT_GT(servers.batches_of(server), 0) << "server " << server;
  }
}

TEST_F(ServedTraining, OfLinksHasTheBatchesMetricsAndBitsOfRanksThatHaveAllData) {
  std::string metric = "AUC";
  for (const Cast& cast : kCasts) {
    SCOPED_TRACE(text_of(cast));
    const std::string whole = shop(cast.partitions);
    const api::GnnJob job = link_job(mount(whole), cast, kApart, metric);
    Servers servers(cast, key_file_);
    begin_all(servers, cast, job, whole);
    ASSERT_EQ(servers.errors(), std::vector<std::string>());
    const Trained trained = train_links(job, servers.directory());
    expect_same(trained, train_links(job, nullptr), metric == "AUC" ? "test_auc" : "test_mrr");
    metric = metric == "AUC" ? "MRR" : "AUC";
  }
}

TEST_F(ServedTraining, OfAWholeJobEndsWithTheBitsOfOneProcessInEitherPrecision) {
  const Cast alone{.servers = 0};
  const Cast served{.servers = 2};
  // Returns the hash of the parameters.
  const auto expect_equal = [&](const api::GnnJob& by_itself, const api::GnnJob& asking) {
    const auto expected = run_alone(by_itself, nullptr);
    EXPECT_TRUE(expected) << expected.error().message;
    Servers servers(served, key_file_);
    for (const int64_t server : {0, 1}) servers.begin(server, asking);
    servers.wait();
    EXPECT_EQ(servers.errors(), std::vector<std::string>());
    if (!expected || !servers.errors().empty()) return std::string();
    const auto found = run_alone(asking, servers.directory());
    EXPECT_TRUE(found) << found.error().message;
    if (!found) return std::string();
    EXPECT_EQ(found->report.parameters_hash, expected->report.parameters_hash);
    EXPECT_EQ(found->report.metrics, expected->report.metrics);
    EXPECT_EQ(found->report.global_steps, expected->report.global_steps);
    return found->report.parameters_hash;
  };
  const auto in_both = [&](const api::GnnJob& by_itself, const api::GnnJob& asking) {
    const std::string in_float = expect_equal(by_itself, asking);
    EXPECT_NE(expect_equal(in_bfloat16(by_itself), in_bfloat16(asking)), in_float);
  };
  in_both(node_job(products(1), alone, ""), node_job(products(1), served, ""));
  in_both(link_job(shop(1), alone, "", "AUC"), link_job(shop(1), served, "", "AUC"));
}

TEST_F(ServedTraining, GoesOnWithoutARestartWhenAServerIsReplacedInAnEpoch) {
  const Cast cast{.servers = 2, .nodes = 2, .ranks = 1, .partitions = 2};
  const api::GnnJob job = node_job(products(2), cast, kApart);
  Servers servers(cast, key_file_);
  for (const int64_t server : {0, 1}) servers.begin(server, job);
  servers.wait();
  ASSERT_EQ(servers.errors(), std::vector<std::string>());
  const Trained trained = train_nodes(job, servers.directory(), [&](int64_t step) {
    if (step != 3 && step != 7) return;
    const int64_t server = step == 3 ? 0 : 1;
    servers.kill(server);
    servers.begin(server, job, 1);
  });
  servers.wait();
  EXPECT_EQ(servers.errors(), std::vector<std::string>());
  expect_same(trained, train_nodes(job, nullptr), "test_accuracy");
}

TEST_F(ServedTraining, GoesOnBesideServersThatLiveAndAnswerNeitherRanksNorServers) {
  const Cast cast{.servers = 2, .nodes = 2, .ranks = 1, .partitions = 2};
  api::GnnJob job = node_job(products(2), cast, kApart);
  job.spec.training.timeouts.step_seconds = 2;
  Servers servers(cast, key_file_);
  for (const int64_t server : {0, 1}) servers.begin(server, job);
  servers.wait();
  ASSERT_EQ(servers.errors(), std::vector<std::string>());
  // Of part 0, whose rows server 1 asks for, and of part 1.
  const rpc::Key key = rpc::Key::read_file(key_file_).value();
  const MuteServer second(2, servers.listed(0), key);
  const MuteServer third(3, servers.listed(1), key);
  for (const MuteServer* mute : {&second, &third}) servers.list(mute->live());
  const Trained trained = train_nodes(job, servers.directory());
  expect_same(trained, train_nodes(job, nullptr), "test_accuracy");
  bool asked_by_server = false;
  for (const MuteServer* mute : {&second, &third}) {
    bool asked_by_rank = false;
    for (const rpc::Peer& peer : mute->asked_by()) {
      asked_by_server = asked_by_server || peer.role == rpc::Role::Server;
      if (peer.role != rpc::Role::Client) continue;
      asked_by_rank = true;
      // Servers tell ranks that were replaced by these.
      EXPECT_EQ(peer.attempt, 3);
      EXPECT_EQ(peer.round, 2);
    }
    EXPECT_TRUE(asked_by_rank) << mute->live().server;
  }
  EXPECT_TRUE(asked_by_server);
}

TEST_F(ServedTraining, AsksForNoMoreThanAServerKeepsForItsOnlyClient) {
  const api::GnnJob job = parse(R"(
  task: {type: NodeClassification}
  dataset: {format: Native, path: /data}
  model: {type: GraphSAGE, graphSage: {layers: 1}}
  sampling: {fanout: [5]}
  placement: {topology: Partitioned, features: Partitioned, partitions: 1}
  servers: {nodes: 1, maxBytesInFlight: 48Mi}
  workers: {nodes: 1, template: {image: none}}
)");
  progress::NullSink sink;
  const comm::RankGroups groups(comm::make_single_communicator());
  const TaskContext context = context_of(groups, sink, nullptr);
  EXPECT_EQ(
      served_options(job.spec, context, &item_options).max_bytes_in_flight, int64_t{24} << 20
  );
}

TEST_F(ServedTraining, ResumesACheckpointOfRanksThatHadAllData) {
  const auto job_of = [&](int64_t servers, int64_t epochs, const std::string& checkpoint) {
    api::GnnJob job = node_job(
        products(1),
        {.servers = servers},
        "",
        checkpoint.empty() ? "" : "  checkpoint: {path: " + folder_.path(checkpoint) + "}\n"
    );
    job.spec.training.epochs = epochs;
    return job;
  };
  ASSERT_TRUE(run_alone(job_of(0, 1, "saved"), nullptr));
  const auto expected = run_alone(job_of(0, 3, ""), nullptr);
  ASSERT_TRUE(expected) << expected.error().message;
  const api::GnnJob served = job_of(1, 3, "saved");
  Servers servers({.servers = 1}, key_file_);
  servers.begin(0, served);
  servers.wait();
  const auto found = run_alone(served, servers.directory());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LT(found->report.run_steps, expected->report.run_steps);
  EXPECT_EQ(found->report.parameters_hash, expected->report.parameters_hash);
}

TEST_F(ServedTraining, IsRefusedIfAServerHasAnotherDataSet) {
  const Cast cast{.servers = 2};
  const api::GnnJob job = node_job(products(1), cast, "");
  Servers servers(cast, key_file_);
  servers.begin(0, job);
  servers.begin(1, node_job(products(1, 9), cast, ""));
  servers.wait();
  ASSERT_EQ(servers.errors(), std::vector<std::string>());
  const auto refused = run_alone(job, servers.directory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Data);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("server 0"), HasSubstr("server 1")));

  // Nor do ranks go on that have each found one of them.
  comm::run_ranks_of_nodes(2, 1, [&](const comm::RankGroups& groups) {
    const auto own = std::make_shared<servers::Directory>();
    own->update({servers.listed(groups.all->rank())});
    progress::NullSink sink;
    TaskContext context = context_of(groups, sink, own);
    const auto opened = JobServers::open(job.spec, context);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::Data);
    EXPECT_THAT(opened.error().message, HasSubstr("servers of one data set for all ranks"));
  });
}

TEST_F(ServedTraining, IsRefusedIfServersRunAnotherJob) {
  const Cast cast;
  Servers servers(cast, key_file_);
  servers.begin(0, node_job(products(1), cast, ""));
  servers.wait();
  api::GnnJob other = node_job(products(1), cast, "");
  other.spec.sampling->fanout = {5, 4};
  const auto refused = run_alone(other, servers.directory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);

  // One that deals otherwise gets no batch.
  const auto batch =
      ask(servers.listed(0),
          {.job_uid = "job", .role = rpc::Role::Client, .attempt = 3, .round = 2},
          rpc::Key::read_file(key_file_).value(),
          servers::Method::Batch,
          servers::encode(servers::BatchRequest{.count = 3}));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().kind, ErrorKind::Data);
  EXPECT_THAT(batch.error().message, HasSubstr("as this server deals them"));
}

}  // namespace
}  // namespace gnn::tasks
