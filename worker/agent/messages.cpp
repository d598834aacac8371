#include "worker/agent/messages.h"

#include "common/host_port.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

namespace gnn::agent {
namespace {

using nlohmann::json;
using progress::BestEpoch;
using progress::DataKind;
using progress::DataPath;
using progress::EpochReport;
using progress::FinalReport;
using progress::kDataKinds;
using progress::Measure;
using progress::MemoryByOwner;
using progress::Phase;
using progress::RemoteData;
using progress::RemoteSummary;
using progress::RowOrigins;
using progress::ServedData;
using progress::StepReport;
using progress::StepSeconds;
using progress::TrackingData;

constexpr std::array kPhases{
    Phase::Setup, Phase::Train, Phase::Validate, Phase::Test, Phase::Checkpoint, Phase::Done
};
constexpr std::array<std::string_view, 7> kAgentPhases{
    "ready", "running", "done", "stopped", "failed", "left", "unstarted"
};
constexpr std::array<std::string_view, 4> kDirectiveKinds{"prepare", "run", "stop", "leave"};

// JSON has neither NaN nor infinity: null stands for them.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}
double number_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

json to_json(const StepSeconds& s) {
  return {
      {"wait", s.wait},
      {"forward", s.forward},
      {"backward", s.backward},
      {"reduce", s.reduce},
      {"optimizer", s.optimizer},
      {"total", s.total}
  };
}

json to_json(const DataPath& d) {
  return {
      {"featureBytes", d.feature_bytes},
      {"sampleStall", d.sample_stall_seconds},
      {"copyStall", d.copy_stall_seconds},
      {"trainingStall", d.training_stall_seconds}
  };
}

DataPath data_path_of(const json& j) {
  return {
      .feature_bytes = j.value("featureBytes", int64_t{0}),
      .sample_stall_seconds = j.value("sampleStall", 0.0),
      .copy_stall_seconds = j.value("copyStall", 0.0),
      .training_stall_seconds = j.value("trainingStall", 0.0)
  };
}

json to_json(const MemoryByOwner& m) {
  return {{"graph", m.graph}, {"features", m.features}, {"sampler", m.sampler}, {"model", m.model}};
}

MemoryByOwner memory_of(const json& j) {
  return {
      .graph = j.value("graph", int64_t{0}),
      .features = j.value("features", int64_t{0}),
      .sampler = j.value("sampler", int64_t{0}),
      .model = j.value("model", int64_t{0})
  };
}

StepSeconds seconds_of(const json& j) {
  return {
      .wait = j.value("wait", 0.0),
      .forward = j.value("forward", 0.0),
      .backward = j.value("backward", 0.0),
      .reduce = j.value("reduce", 0.0),
      .optimizer = j.value("optimizer", 0.0),
      .total = j.value("total", 0.0)
  };
}

json to_json(const Measure& m) {
  return {{"metric", m.metric}, {"value", number(m.value)}, {"count", m.count}};
}
Measure measure_of(const json& j) {
  return {
      .metric = j.value("metric", ""),
      .value = number_of(j.value("value", json(nullptr))),
      .count = j.value("count", int64_t{0})
  };
}

json to_json(const StepReport& s) {
  json j{
      {"epoch", s.epoch},
      {"epochs", s.epochs},
      {"step", s.step},
      {"stepsPerEpoch", s.steps_per_epoch},
      {"globalStep", s.global_step},
      {"loss", number(s.loss)},
      {"learningRate", number(s.learning_rate)},
      {"dataPath", to_json(s.data_path)},
      {"memory", to_json(s.memory)}
  };
  if (s.gradient_norm) j["gradientNorm"] = number(*s.gradient_norm);
  return j;
}

StepReport step_of(const json& j) {
  StepReport s;
  s.epoch = j.value("epoch", int64_t{0});
  s.epochs = j.value("epochs", int64_t{0});
  s.step = j.value("step", int64_t{0});
  s.steps_per_epoch = j.value("stepsPerEpoch", int64_t{0});
  s.global_step = j.value("globalStep", int64_t{0});
  s.loss = number_of(j.at("loss"));
  s.learning_rate = number_of(j.value("learningRate", json(nullptr)));
  if (j.contains("gradientNorm")) s.gradient_norm = number_of(j.at("gradientNorm"));
  s.data_path = data_path_of(j.value("dataPath", json::object()));
  s.memory = memory_of(j.value("memory", json::object()));
  return s;
}

json to_json(const BestEpoch& b) {
  return {{"epoch", b.epoch}, {"value", number(b.value)}, {"checkpoint", b.checkpoint}};
}

BestEpoch best_of(const json& j) {
  return {
      .epoch = j.value("epoch", int64_t{0}),
      .value = number_of(j.at("value")),
      .checkpoint = j.value("checkpoint", "")
  };
}

json to_json(const EpochReport& e) {
  json j{
      {"epoch", e.epoch},
      {"epochs", e.epochs},
      {"steps", e.steps},
      {"seconds", e.seconds},
      {"train", to_json(e.train)},
      {"averageLoss", number(e.average_loss)}
  };
  if (e.train_set) j["trainSet"] = to_json(*e.train_set);
  if (e.validation) j["validation"] = to_json(*e.validation);
  if (e.test) j["test"] = to_json(*e.test);
  if (e.best) j["best"] = to_json(*e.best);
  return j;
}

EpochReport epoch_of(const json& j) {
  EpochReport e;
  e.epoch = j.value("epoch", int64_t{0});
  e.epochs = j.value("epochs", int64_t{0});
  e.steps = j.value("steps", int64_t{0});
  e.seconds = j.value("seconds", 0.0);
  e.average_loss = number_of(j.at("averageLoss"));
  e.train = measure_of(j.at("train"));
  if (j.contains("trainSet")) e.train_set = measure_of(j.at("trainSet"));
  if (j.contains("validation")) e.validation = measure_of(j.at("validation"));
  if (j.contains("test")) e.test = measure_of(j.at("test"));
  if (j.contains("best")) e.best = best_of(j.at("best"));
  return e;
}

json to_json(const RowOrigins& r) {
  return {{"local", r.local}, {"cache", r.cache}, {"remote", r.remote}};
}

RowOrigins origins_of(const json& j) {
  return {
      .local = j.value("local", int64_t{0}),
      .cache = j.value("cache", int64_t{0}),
      .remote = j.value("remote", int64_t{0})
  };
}

json to_json(const RemoteData& r) {
  json kinds = json::object();
  for (const DataKind kind : kDataKinds) {
    const LatencyHistogram& latency = r.latency[kind];
    kinds[std::string(to_string(kind))] = {
        {"received", r.received_bytes[kind]},
        {"served", r.served_bytes[kind]},
        {"calls", latency.counts},
        {"nanoseconds", latency.sum.count()}
    };
  }
  json j{
      {"kinds", kinds},
      {"underWay", r.calls_under_way},
      {"lost", r.peers_lost},
      {"refused", r.connections_refused},
      {"training", to_json(r.training)},
      {"evaluation", to_json(r.evaluation)},
      {"cacheRows", r.cache_rows},
      {"trainingBytes", r.training_bytes}
  };
  if (r.expected_hit_rate) j["expectedHitRate"] = *r.expected_hit_rate;
  return j;
}

RemoteData remote_of(const json& j) {
  RemoteData r;
  for (const DataKind kind : kDataKinds) {
    const json k = j.at("kinds").value(std::string(to_string(kind)), json::object());
    r.received_bytes[kind] = k.value("received", int64_t{0});
    r.served_bytes[kind] = k.value("served", int64_t{0});
    LatencyHistogram& latency = r.latency[kind];
    const auto counts = k.value("calls", std::vector<int64_t>());
    std::copy_n(
        counts.begin(), std::min(counts.size(), latency.counts.size()), latency.counts.begin()
    );
    latency.sum = std::chrono::nanoseconds(k.value("nanoseconds", int64_t{0}));
  }
  r.calls_under_way = j.value("underWay", int64_t{0});
  r.peers_lost = j.value("lost", int64_t{0});
  r.connections_refused = j.value("refused", int64_t{0});
  r.training = origins_of(j.value("training", json::object()));
  r.evaluation = origins_of(j.value("evaluation", json::object()));
  r.cache_rows = j.value("cacheRows", int64_t{0});
  r.training_bytes = j.value("trainingBytes", int64_t{0});
  if (j.contains("expectedHitRate")) r.expected_hit_rate = j.at("expectedHitRate").get<double>();
  return r;
}

json to_json(const ServedData& s) {
  json seconds = json::object();
  for (const progress::BatchStage& stage : progress::kBatchStages)
    seconds[stage.name] = s.seconds.*stage.field;
  return {
      {"batches", s.batches},
      {"bytes", s.bytes},
      {"underWay", s.under_way},
      {"failovers", s.failovers},
      {"waiting", s.waiting},
      {"gaveUp", s.gave_up},
      {"seconds", seconds}
  };
}

ServedData served_of(const json& j) {
  ServedData s;
  s.batches = j.value("batches", int64_t{0});
  s.bytes = j.value("bytes", int64_t{0});
  s.under_way = j.value("underWay", int64_t{0});
  s.failovers = j.value("failovers", int64_t{0});
  s.waiting = j.value("waiting", false);
  s.gave_up = j.value("gaveUp", false);
  const json seconds = j.value("seconds", json::object());
  for (const progress::BatchStage& stage : progress::kBatchStages)
    s.seconds.*stage.field = seconds.value(stage.name, 0.0);
  return s;
}

json to_json(const TrackingData& trackers) {
  json j = json::object();
  for (const auto& [name, counts] : trackers)
    j[name] = {
        {"written", counts.written}, {"dropped", counts.dropped}, {"failures", counts.failures}
    };
  return j;
}

// Of trackers that are known: their names become labels.
TrackingData tracking_of(const json& j) {
  TrackingData trackers;
  for (const std::string_view name : progress::kTrackers) {
    const auto found = j.find(name);
    if (found == j.end()) continue;
    trackers[std::string(name)] = {
        .written = found->value("written", int64_t{0}),
        .dropped = found->value("dropped", int64_t{0}),
        .failures = found->value("failures", int64_t{0})
    };
  }
  return trackers;
}

json to_json(const RemoteSummary& r) {
  json j{{"bytesPerStep", number(r.bytes_per_step)}, {"hitRate", number(r.hit_rate)}};
  if (r.expected_hit_rate) j["expectedHitRate"] = number(*r.expected_hit_rate);
  return j;
}

RemoteSummary summary_of(const json& j) {
  RemoteSummary r;
  r.bytes_per_step = number_of(j.at("bytesPerStep"));
  r.hit_rate = number_of(j.at("hitRate"));
  if (j.contains("expectedHitRate")) r.expected_hit_rate = number_of(j.at("expectedHitRate"));
  return r;
}

json to_json(const FinalReport& f) {
  json metrics = json::object();
  for (const auto& [name, value] : f.metrics) metrics[name] = number(value);
  json j{
      {"epochs", f.epochs},
      {"globalSteps", f.global_steps},
      {"checkpoint", f.checkpoint},
      {"averageLoss", number(f.average_loss)},
      {"preempted", f.preempted},
      {"seconds", f.seconds},
      {"parametersHash", f.parameters_hash},
      {"metric", f.metric},
      {"metrics", metrics}
  };
  if (!f.test_model.empty()) j["testModel"] = f.test_model;
  if (f.best) j["best"] = to_json(*f.best);
  if (f.remote) j["remote"] = to_json(*f.remote);
  return j;
}

FinalReport final_of(const json& j) {
  FinalReport f;
  f.epochs = j.value("epochs", int64_t{0});
  f.global_steps = j.value("globalSteps", int64_t{0});
  f.checkpoint = j.value("checkpoint", "");
  f.parameters_hash = j.value("parametersHash", "");
  f.average_loss = number_of(j.at("averageLoss"));
  f.preempted = j.value("preempted", false);
  f.seconds = j.value("seconds", 0.0);
  f.metric = j.value("metric", "");
  for (const auto& [name, value] : j.at("metrics").items()) f.metrics[name] = number_of(value);
  f.test_model = j.value("testModel", "");
  if (j.contains("best")) f.best = best_of(j.at("best"));
  if (j.contains("remote")) f.remote = summary_of(j.at("remote"));
  return f;
}

json to_json(const Failure& f) {
  return {
      {"node", f.node},
      {"rank", f.rank},
      {"exitCode", f.exit_code},
      {"signal", f.signal},
      {"followOn", f.follow_on},
      {"reason", f.reason},
      {"message", f.message},
      {"stderr", f.stderr_tail}
  };
}

Failure failure_of(const json& j) {
  Failure f;
  f.node = j.at("node").get<int64_t>();
  f.rank = j.at("rank").get<int64_t>();
  f.exit_code = j.at("exitCode").get<int64_t>();
  f.signal = j.value("signal", int64_t{0});
  f.follow_on = j.value("followOn", false);
  f.reason = j.value("reason", "");
  f.message = j.value("message", "");
  f.stderr_tail = j.value("stderr", "");
  return f;
}

template <class Enum, size_t n>
std::optional<Enum> find_name(
    const std::array<std::string_view, n>& names, const std::string& name
) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

// The tail of stderr may contain any bytes, and must not break the agents' messages.
std::string dump(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
struct ResultOf {
  using Type = Result<T>;
};
template <class T>
struct ResultOf<Result<T>> {
  using Type = Result<T>;
};

template <class Decode>
auto decoding(const char* what, std::string_view text, Decode decode) ->
    typename ResultOf<decltype(decode(json()))>::Type {
  try {
    return decode(json::parse(text));
  } catch (const json::exception& error) {
    return fail(ErrorKind::Internal, std::string(what) + " cannot be read: " + error.what());
  }
}

constexpr int64_t kMostRestarts = 1'000'000;

// Text that others have written goes into messages and connections of all ranks.
Result<LiveServer> checked(LiveServer server) {
  const auto where = server.address.size() <= kLongestServerAddress
                         ? parse_host_port(server.address)
                         : Result<HostPort>(fail(ErrorKind::Internal, "it is too long"));
  const bool fits = std::all_of(server.address.begin(), server.address.end(), [](char c) {
    return c > ' ' && c <= '~';
  });
  if (server.server < 0 || server.server >= kMostServers || server.restart < 0 ||
      server.restart > kMostRestarts || !fits || !where || where->host.empty() || where->port <= 0)
    return fail(
        ErrorKind::Internal,
        "a server must have a number below " + std::to_string(kMostServers) +
            ", a number of its pod and an address host:port of at most " +
            std::to_string(kLongestServerAddress) + " characters"
    );
  return server;
}

// [[0, 1, "10.0.0.7:29600"], ...]: number, restart and address.
json to_json(const std::vector<LiveServer>& servers) {
  json list = json::array();
  for (const LiveServer& server : servers)
    list.push_back(json::array({server.server, server.restart, server.address}));
  return list;
}

Result<std::vector<LiveServer>> servers_of(const json& list) {
  if (!list.is_array() || list.size() > static_cast<size_t>(kMostServers))
    return fail(
        ErrorKind::Internal, "servers must be a list of at most " + std::to_string(kMostServers)
    );
  std::vector<LiveServer> servers;
  for (const json& entry : list) {
    GNN_ASSIGN_OR_RETURN(
        LiveServer server,
        checked(
            {.server = entry.at(0).get<int64_t>(),
             .restart = entry.at(1).get<int64_t>(),
             .address = entry.at(2).get<std::string>()}
        )
    );
    servers.push_back(std::move(server));
  }
  return servers;
}

// The key of an object by node; -1, which is no node, if it is no number.
int64_t node_of(const std::string& key) {
  int64_t node = -1;
  std::from_chars(key.data(), key.data() + key.size(), node);
  return node;
}

// Or nothing: it goes into the environment of other processes.
std::string version_of(std::string text) {
  const bool fits =
      text.size() <= kLongestVersion &&
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  return fits ? std::move(text) : std::string();
}

}  // namespace

std::string encode(const RankReport& report) {
  json j{
      {"phase", to_string(report.phase)},
      {"marks", report.marks},
      {"inCollective", report.in_collective},
      {"collectives", report.collectives_done},
      {"step", to_json(report.step)},
      {"steps", report.steps},
      {"items", report.items},
      {"edges", report.sampled_edges},
      {"inputNodes", report.input_nodes},
      {"seconds", to_json(report.seconds)},
      {"stepDurations", report.step_durations},
      {"checkpointDurations", report.checkpoint_durations},
      {"checkpointPath", report.checkpoint_path},
      {"checkpointBytes", report.checkpoint_bytes},
      {"checkpointFailures", report.checkpoint_failures},
      {"checkedData", report.checked_version},
  };
  if (report.epoch) j["epoch"] = to_json(*report.epoch);
  if (report.final) j["final"] = to_json(*report.final);
  if (report.remote) j["remote"] = to_json(*report.remote);
  if (report.served) j["served"] = to_json(*report.served);
  if (!report.tracking.empty()) j["tracking"] = to_json(report.tracking);
  return dump({{"report", j}});
}

std::string encode(const RankFailure& failure) {
  return dump({{"failure", {{"kind", failure.kind}, {"message", failure.message}}}});
}

Result<RankMessage> decode_rank_message(std::string_view text) {
  return decoding("a rank's message", text, [](const json& j) {
    RankMessage message;
    if (j.contains("failure")) {
      const auto& f = j.at("failure");
      message.failure = RankFailure{.kind = f.at("kind"), .message = f.at("message")};
      return message;
    }
    const auto& r = j.at("report");
    RankReport report;
    const auto phase = r.at("phase").get<std::string>();
    for (const Phase candidate : kPhases)
      if (to_string(candidate) == phase) report.phase = candidate;
    report.marks = r.at("marks").get<int64_t>();
    report.in_collective = r.value("inCollective", false);
    report.collectives_done = r.value("collectives", int64_t{0});
    report.step = step_of(r.at("step"));
    report.steps = r.value("steps", int64_t{0});
    report.items = r.value("items", int64_t{0});
    report.sampled_edges = r.value("edges", int64_t{0});
    report.input_nodes = r.value("inputNodes", int64_t{0});
    report.seconds = seconds_of(r.at("seconds"));
    report.step_durations = r.value("stepDurations", std::vector<double>());
    report.checkpoint_durations = r.value("checkpointDurations", std::vector<double>());
    report.checkpoint_path = r.value("checkpointPath", std::string());
    report.checkpoint_bytes = r.value("checkpointBytes", int64_t{0});
    report.checkpoint_failures = r.value("checkpointFailures", int64_t{0});
    report.checked_version = version_of(r.value("checkedData", std::string()));
    if (r.contains("epoch")) report.epoch = epoch_of(r.at("epoch"));
    if (r.contains("final")) report.final = final_of(r.at("final"));
    if (r.contains("remote")) report.remote = remote_of(r.at("remote"));
    if (r.contains("served")) report.served = served_of(r.at("served"));
    if (r.contains("tracking")) report.tracking = tracking_of(r.at("tracking"));
    message.report = std::move(report);
    return message;
  });
}

int64_t marks_of_round(const std::vector<std::optional<NodeReport>>& reports, int64_t round) {
  uint64_t marks = 0;  // what others sent may overflow
  for (const auto& report : reports)
    if (report && report->round == round) marks += static_cast<uint64_t>(report->marks);
  return static_cast<int64_t>(marks);
}

std::string encode(const NodeReport& report) {
  json j{
      {"node", report.node},
      {"beat", report.beat},
      {"round", report.round},
      {"phase", kAgentPhases[static_cast<size_t>(report.phase)]},
      {"stop", report.stop_requested},
      {"rate", number(report.items_per_second)},
      {"marks", report.marks},
  };
  if (report.failure) j["failure"] = to_json(*report.failure);
  return dump(j);
}

Result<NodeReport> decode_node_report(std::string_view text) {
  return decoding("an agent's report", text, [](const json& j) {
    NodeReport report;
    report.node = j.at("node").get<int64_t>();
    report.beat = j.at("beat").get<int64_t>();
    report.round = j.at("round").get<int64_t>();
    report.phase = find_name<AgentPhase>(kAgentPhases, j.at("phase")).value_or(AgentPhase::Ready);
    report.stop_requested = j.value("stop", false);
    report.items_per_second = number_of(j.value("rate", json(0.0)));
    report.marks = j.value("marks", int64_t{0});
    if (j.contains("failure")) report.failure = failure_of(j.at("failure"));
    return report;
  });
}

std::string encode(const Directive& directive) {
  json j{
      {"kind", kDirectiveKinds[static_cast<size_t>(directive.kind)]},
      {"round", directive.round},
      {"exitCode", directive.exit_code},
      {"message", directive.message},
  };
  for (const auto& [node, restart] : directive.restarts)
    j["restarts"][std::to_string(node)] = restart;
  if (directive.failure) j["failure"] = to_json(*directive.failure);
  if (!directive.servers.empty()) j["servers"] = to_json(directive.servers);
  return dump(j);
}

Result<Directive> decode_directive(std::string_view text) {
  return decoding("node 0's directive", text, [](const json& j) -> Result<Directive> {
    Directive directive;
    directive.kind =
        find_name<DirectiveKind>(kDirectiveKinds, j.at("kind")).value_or(DirectiveKind::Prepare);
    directive.round = j.at("round").get<int64_t>();
    directive.exit_code = j.value("exitCode", int64_t{0});
    directive.message = j.value("message", "");
    const json restarts = j.value("restarts", json::object());
    for (const auto& [node, restart] : restarts.items())
      directive.restarts[node_of(node)] = restart.get<int64_t>();
    if (j.contains("failure")) directive.failure = failure_of(j.at("failure"));
    if (j.contains("servers")) {
      GNN_ASSIGN_OR_RETURN(directive.servers, servers_of(j.at("servers")));
    }
    return directive;
  });
}

std::string encode(const ServerReport& report) {
  return dump(
      {{"server", report.server.server},
       {"restart", report.server.restart},
       {"address", report.server.address},
       {"beat", report.beat},
       {"leaving", report.leaving}}
  );
}

Result<ServerReport> decode_server_report(std::string_view text, int64_t server) {
  if (text.size() > kLongestServerReport)
    return fail(
        ErrorKind::Internal,
        "a server's report must have at most " + std::to_string(kLongestServerReport) + " bytes"
    );
  return decoding("a server's report", text, [server](const json& j) -> Result<ServerReport> {
    ServerReport report;
    GNN_ASSIGN_OR_RETURN(
        report.server,
        checked(
            {.server = j.at("server").get<int64_t>(),
             .restart = j.at("restart").get<int64_t>(),
             .address = j.at("address").get<std::string>()}
        )
    );
    if (report.server.server != server)
      return fail(
          ErrorKind::Internal,
          "server " + std::to_string(report.server.server) + " wrote the report of server " +
              std::to_string(server)
      );
    report.beat = j.at("beat").get<int64_t>();
    report.leaving = j.value("leaving", false);
    return report;
  });
}

std::string encode(const std::vector<LiveServer>& servers) {
  return dump({{"servers", to_json(servers)}});
}

Result<AgentMessage> decode_agent_message(std::string_view text) {
  if (text == kStopMessage) return AgentMessage{.stop = true};
  if (text.size() > kLongestAgentMessage)
    return fail(
        ErrorKind::Internal,
        "an agent's message must have at most " + std::to_string(kLongestAgentMessage) + " bytes"
    );
  return decoding("an agent's message", text, [](const json& j) -> Result<AgentMessage> {
    AgentMessage message;
    if (j.contains("servers")) {
      GNN_ASSIGN_OR_RETURN(message.servers, servers_of(j.at("servers")));
    }
    return message;
  });
}

}  // namespace gnn::agent
