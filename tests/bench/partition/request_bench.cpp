// What a batch costs where its rows, or rows and lists, lie on another node: one process serves a part of a data set,
// another makes batches of it as a rank does, without a trainer. Prints one JSON object of CPU seconds of a batch.

#include "common/host_port.h"
#include "common/progress_bar.h"
#include "worker/graph/load.h"
#include "worker/loader/node_loader.h"
#include "worker/rpc/client.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/key.h"
#include "worker/rpc/server.h"
#include "worker/shards/rpc_peer.h"
#include "worker/shards/shards.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::bench {
namespace {

constexpr rpc::Identity kIdentity{.job_uid = "bench", .attempt = 1};

struct Options {
  std::string data;
  std::string address;
  std::string key;
  int64_t part = 0;
  std::vector<int64_t> fanout{15, 10, 5};
  int64_t batch_size = 1024;
  double cache = 0.1;
  int64_t warm_up = 5;
  int64_t batches = 20;
  pid_t server = 0;
};

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void check(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

graph::Dataset open(const Options& options) {
  SilentProgressBar silent;
  api::Dataset spec;
  spec.format = api::DatasetFormat::Native;
  spec.path = options.data;
  return value_of(graph::load_dataset(spec, {}, silent));
}

sampling::NeighborSamplerOptions draws(const Options& options) {
  sampling::NeighborSamplerOptions made;
  made.fanout = options.fanout;
  return made;
}

std::unique_ptr<shards::Shards> share(
    const graph::Dataset& data, const Options& options, shards::Held lists
) {
  shards::ShardsOptions made{
      .part = {.part = options.part, .topology = lists, .features = shards::Held::Own},
      .cache = {.policy = shards::CachePolicy::Hotness, .rows = options.cache}
  };
  std::vector<shards::SamplerSpec> samplers;
  if (lists == shards::Held::Own) {
    const auto part = value_of(shards::Part::create(data, made.part));
    samplers.push_back({.options = draws(options), .relations = {{.lists = part->lists(0)}}});
  }
  return value_of(shards::Shards::create(data, made, std::move(samplers)));
}

int serve(const Options& options) {
  const graph::Dataset data = open(options);
  const auto shards = share(data, options, shards::Held::Own);
  const auto loop = std::make_shared<rpc::EventLoop>();
  const auto server = value_of(rpc::Server::start(
      loop,
      {.address = value_of(parse_host_port(options.address)), .identity = kIdentity},
      value_of(rpc::Key::read_file(options.key)),
      shards::handler_of(shards->service())
  ));
  std::printf("serves\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0)
    throw std::runtime_error("cannot read a process's CPU time");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// CPU time of this process and the one that serves, and the calls' counts.
struct Reading {
  double here = 0;
  double there = 0;
  double seconds = 0;
  rpc::PeerStats calls{};
};

class Meter {
 public:
  Meter(pid_t server, std::shared_ptr<const shards::RpcPeer> peer) : peer_(std::move(peer)) {
    if (clock_getcpuclockid(server, &server_) != 0)
      throw std::runtime_error("--server: no such process");
  }

  [[nodiscard]] Reading read() const {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    return {
        .here = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID),
        .there = cpu_seconds(server_),
        .seconds = now.count(),
        .calls = peer_->stats()
    };
  }

 private:
  clockid_t server_{};
  std::shared_ptr<const shards::RpcPeer> peer_;
};

nlohmann::ordered_json run(
    loader::NodeLoader& batches, const Options& options, const Meter& meter
) {
  check(batches.start_epoch(0));
  for (int64_t i = 0; i < options.warm_up; ++i) value_of(batches.next());
  const Reading before = meter.read();
  int64_t edges = 0;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  for (int64_t i = 0; i < options.batches; ++i) {
    const auto batch = value_of(batches.next());
    if (!batch) throw std::runtime_error("the part has too few batches");
    edges += batch->subgraph.num_edges();
    rows += batch->x.size(0);
    row_bytes = static_cast<int64_t>(batch->x.nbytes()) / batch->x.size(0);
  }
  const Reading after = meter.read();
  const loader::LoaderStats stats = batches.stats();
  batches.stop();
  const auto each = [&](double sum) { return sum / static_cast<double>(options.batches); };
  const auto bytes = [&](shards::Method method) {
    const auto number = static_cast<uint16_t>(method);
    return each(static_cast<double>(
        after.calls.of(number).payload_received - before.calls.of(number).payload_received
    ));
  };
  return {
      {"cpuSeconds", each(after.here - before.here)},
      {"serverCpuSeconds", each(after.there - before.there)},
      {"seconds", each(after.seconds - before.seconds)},
      {"sampleShare", stats.sample_seconds / (stats.sample_seconds + stats.fetch_seconds)},
      {"edges", each(static_cast<double>(edges))},
      {"rows", each(static_cast<double>(rows))},
      {"bytesOfRow", row_bytes},
      {"rowBytes", bytes(shards::Method::Features)},
      {"hopBytes", bytes(shards::Method::Hop)},
  };
}

loader::NodeLoaderOptions loading(const Options& options) {
  loader::NodeLoaderOptions made;
  made.sampling = draws(options);
  made.items.batch_size = options.batch_size;
  made.items.shuffle = true;
  made.concurrency = 4;
  return made;
}

at::Tensor seeds_of(const graph::Dataset& data, int64_t part) {
  const data::IdRange own = data.partitions->book.range_of(0, part);
  return data.split.train.masked_select(
      data.split.train.ge(own.begin).logical_and(data.split.train.lt(own.end))
  );
}

int ask(const Options& options) {
  const graph::Dataset data = open(options);
  const at::Tensor seeds = seeds_of(data, options.part);
  const auto loop = std::make_shared<rpc::EventLoop>();
  const auto peer = value_of(shards::RpcPeer::connect(
      loop,
      {.address = options.address, .node = 0, .identity = kIdentity},
      value_of(rpc::Key::read_file(options.key))
  ));
  const Meter meter(options.server, peer);
  shards::Peers peers(2);
  peers.at(static_cast<size_t>(1 - options.part)) = peer;
  SilentProgressBar silent;
  const loader::NodeLoaderOptions how = loading(options);
  nlohmann::ordered_json out;
  {
    const auto rows = std::make_shared<loader::LocalFeatureFetcher>(
        value_of(loader::LocalFeatureFetcher::create(data.features().rows()))
    );
    const auto batches =
        value_of(loader::NodeLoader::create(how, data.graph(), seeds, rows, data.target().labels));
    out["local"] = run(*batches, options, meter);
  }
  for (const auto lists : {shards::Held::Whole, shards::Held::Own}) {
    const auto shards = share(data, options, lists);
    check(shards->connect(peers, silent));
    std::shared_ptr<sampling::Sampler> sampler;
    if (lists == shards::Held::Own) {
      sampler = value_of(shards->sampler(0));
    } else {
      sampler = std::make_shared<sampling::LocalSampler>(
          value_of(sampling::NeighborSampler::create(how.sampling, data.graph()))
      );
    }
    const auto batches = value_of(loader::NodeLoader::create(
        how, std::move(sampler), seeds, shards->features(0), shards->labels(0)
    ));
    out[lists == shards::Held::Own ? "bothPartitioned" : "featuresPartitioned"] =
        run(*batches, options, meter);
  }
  std::printf("%s\n", out.dump(1).c_str());
  peer->close();
  return 0;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  gnn::bench::Options options;
  CLI::App app{"What a batch costs where rows, or rows and lists, lie on another node"};
  app.require_subcommand(1);
  app.add_option("--data", options.data, "a native data set of two partitions")->required();
  app.add_option("--address", options.address, "HOST:PORT of the process that serves")->required();
  app.add_option("--key", options.key, "file with 64 hexadecimal digits")->required();
  app.add_option("--part", options.part, "of this process");
  app.add_option("--fanout", options.fanout)->delimiter(',');
  app.add_option("--batch-size", options.batch_size);
  app.add_option("--cache", options.cache, "share of all rows");
  app.add_option("--warm-up", options.warm_up, "batches that are not counted");
  app.add_option("--batches", options.batches, "that are counted");
  auto* const served = app.add_subcommand("serve", "Serves until its input ends")->fallthrough();
  auto* const asking =
      app.add_subcommand("ask", "Makes batches, and prints what they cost")->fallthrough();
  asking->add_option("--server", options.server, "the other's process")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return served->parsed() ? gnn::bench::serve(options) : gnn::bench::ask(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
