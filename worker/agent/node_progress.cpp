#include "worker/agent/node_progress.h"

#include "common/contract.h"

namespace gnn::agent {
namespace {

using progress::BatchStage;
using progress::kBatchStages;
using progress::RemoteData;
using progress::ServedData;
using progress::StepSeconds;
using progress::TrackerCounts;

constexpr auto kRateWindow = std::chrono::seconds(10);

struct StepPhase {
  const char* name;
  double StepSeconds::*field;
};
constexpr StepPhase kStepPhases[] = {
    {"wait", &StepSeconds::wait},
    {"forward", &StepSeconds::forward},
    {"backward", &StepSeconds::backward},
    {"reduce", &StepSeconds::reduce},
    {"optimizer", &StepSeconds::optimizer},
};

struct Stall {
  const char* stage;
  double progress::DataPath::*field;
};
constexpr Stall kStalls[] = {
    {"sample", &progress::DataPath::sample_stall_seconds},
    {"copy", &progress::DataPath::copy_stall_seconds},
    {"train", &progress::DataPath::training_stall_seconds},
};

struct Owner {
  const char* name;
  int64_t progress::MemoryByOwner::*field;
};
constexpr Owner kOwners[] = {
    {"graph", &progress::MemoryByOwner::graph},
    {"features", &progress::MemoryByOwner::features},
    {"sampler", &progress::MemoryByOwner::sampler},
    {"model", &progress::MemoryByOwner::model},
};

constexpr const char* kMemoryName = "gnn_memory_bytes";
constexpr const char* kMemoryHelp = "Memory of a rank by owner; total is its resident memory.";

struct Count {
  const char* name;
  const char* help;
  int64_t RankReport::*field;
};
constexpr Count kCounts[] = {
    {"gnn_train_steps_total", "Optimizer steps, including shadow steps.", &RankReport::steps},
    {"gnn_train_samples_total", "Trained seeds (or graphs).", &RankReport::items},
    {"gnn_sampler_edges_total", "Sampled edges.", &RankReport::sampled_edges},
    {"gnn_sampler_nodes_total", "Input nodes of sampled batches.", &RankReport::input_nodes},
    {"gnn_checkpoint_failures_total",
     "Checkpoints that could not be written.",
     &RankReport::checkpoint_failures},
};

const std::vector<double> kStepBuckets{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30
};
const std::vector<double> kCheckpointBuckets{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300};

constexpr const char* kRowsName = "gnn_feature_rows_total";
constexpr const char* kRowsHelp =
    "Feature rows by what they were read for and where they came from.";

struct RowUse {
  const char* name;
  progress::RowOrigins RemoteData::*rows;
};
constexpr RowUse kRowUses[] = {
    {"training", &RemoteData::training},
    {"evaluation", &RemoteData::evaluation},
};

struct RowOrigin {
  const char* name;
  int64_t progress::RowOrigins::*count;
};
constexpr RowOrigin kRowOrigins[] = {
    {"local", &progress::RowOrigins::local},
    {"cache", &progress::RowOrigins::cache},
    {"remote", &progress::RowOrigins::remote},
};

std::vector<double> bounds_of_calls() {
  std::vector<double> bounds;
  for (size_t bucket = 0; bucket + 1 < LatencyHistogram::kBuckets; ++bucket)
    bounds.push_back(std::chrono::duration<double>(LatencyHistogram::upper_bound(bucket)).count());
  return bounds;
}
const std::vector<double> kCallBuckets = bounds_of_calls();

MetricLabels with(MetricLabels labels, const char* name, const std::string& value) {
  labels[name] = value;
  return labels;
}

double to_unix_seconds(TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Counters of a report start with the rank: a smaller one is from a new process.
template <class Number>
double growth(Number before, Number now) {
  return static_cast<double>(now >= before ? now - before : now);
}

void add_latency(Histogram shown, const LatencyHistogram& before, const LatencyHistogram& now) {
  std::vector<double> increments;
  for (size_t bucket = 0; bucket < LatencyHistogram::kBuckets; ++bucket)
    increments.push_back(growth(before.counts[bucket], now.counts[bucket]));
  const auto seconds = [](const LatencyHistogram& of) {
    return std::chrono::duration<double>(of.sum).count();
  };
  shown.add(increments, growth(seconds(before), seconds(now)));
}

bool is_known(const std::optional<progress::Measure>& measure) {
  return measure && measure->count > 0;
}

template <class T>
void keep_known(std::optional<T>& kept, const std::optional<T>& value) {
  if (value) kept = value;
}

}  // namespace

NodeProgress::NodeProgress(const AgentOptions& options) : options_(&options) {
  registry_.counter(
      "gnn_agent_rounds_total", "In-place restarts seen by this agent.", node_labels()
  );
  // Start at zero, so that the first failure is an increase.
  for (const int code :
       {contract::kExitConfiguration,
        contract::kExitData,
        contract::kExitOther,
        contract::kExitPeerLost,
        contract::kExitPreempted,
        contract::kExitOutOfMemory})
    failures(code);
  on_round(0);
  on_refused(0);
  on_phase("Rendezvous", 0);
}

MetricLabels NodeProgress::node_labels() const {
  return {{"job", options_->job}, {"node", std::to_string(options_->node)}};
}

MetricLabels NodeProgress::rank_labels(int64_t rank) const {
  return with(node_labels(), "rank", std::to_string(rank));
}

void NodeProgress::on_round(int64_t round) {
  if (round > 0)
    registry_
        .counter("gnn_agent_rounds_total", "In-place restarts seen by this agent.", node_labels())
        .increment();
  auto labels = with(node_labels(), "attempt", std::to_string(options_->attempt));
  registry_.remove_series(labels);
  labels["round"] = std::to_string(round);
  labels["version"] = std::to_string(contract::kVersion);
  registry_
      .gauge(
          "gnn_agent_info",
          "Always 1; attempt, round and version of the contract as labels.",
          labels
      )
      .set(1);
}

void NodeProgress::on_phase(const std::string& phase, int64_t running_ranks) {
  const auto show = [&](const std::string& name, double value) {
    registry_
        .gauge(
            "gnn_agent_phase",
            "1 for the current phase of the node, else 0.",
            with(node_labels(), "phase", name)
        )
        .set(value);
  };
  if (phase != shown_phase_) {
    if (!shown_phase_.empty()) show(shown_phase_, 0);
    show(phase, 1);
    shown_phase_ = phase;
  }
  registry_.gauge("gnn_agent_ranks", "Running ranks of this node.", node_labels())
      .set(static_cast<double>(running_ranks));
}

Counter NodeProgress::failures(int exit_code) {
  return registry_.counter(
      "gnn_agent_rank_failures_total",
      "Ranks that failed, by reason.",
      with(node_labels(), "reason", std::string(contract::exit_reason(exit_code)))
  );
}

void NodeProgress::on_failure(const Failure& failure) {
  failures(static_cast<int>(failure.exit_code)).increment();
}

void NodeProgress::on_refused(int64_t refused) {
  registry_
      .counter(
          "gnn_agent_handshakes_refused_total",
          "Refused handshakes: another job, attempt or round.",
          node_labels()
      )
      .increment(static_cast<double>(refused - refused_));
  refused_ = refused;
}

void NodeProgress::on_servers(int64_t servers) {
  registry_.gauge("gnn_agent_servers", "Sampling servers that take part in the job.", node_labels())
      .set(static_cast<double>(servers));
}

void NodeProgress::on_memory(int64_t rank, int64_t resident_bytes) {
  registry_.gauge(kMemoryName, kMemoryHelp, with(rank_labels(rank), "owner", "total"))
      .set(static_cast<double>(resident_bytes));
}

void NodeProgress::on_report(
    int64_t rank, const RankReport& report, MonotonicPoint now, TimePoint wall_time
) {
  count(rank, reports_[rank], report);
  if (report.remote) {
    const RankReport& before = reports_[rank];
    const bool same_process = before.remote && report.marks >= before.marks;
    count_remote(rank, same_process ? *before.remote : RemoteData(), *report.remote);
  }
  if (report.served) {
    const RankReport& before = reports_[rank];
    const bool same_process = before.served && report.marks >= before.marks;
    count_served(rank, same_process ? *before.served : ServedData(), *report.served);
  }
  count_tracking(rank, reports_[rank].tracking, report.tracking);
  show(rank, report, wall_time);
  reports_[rank] = report;
  auto& samples = samples_[rank];
  if (!samples.empty() && report.steps < samples.back().steps) samples.clear();
  samples.push_back({.at = now, .items = report.items, .steps = report.steps});
  while (samples.size() > 2 && now - samples.front().at > kRateWindow) samples.pop_front();
  if (rank == options_->node * options_->processes_per_node) read_numbers(report);
}

void NodeProgress::count(int64_t rank, const RankReport& before, const RankReport& report) {
  const auto labels = rank_labels(rank);
  for (const auto& item : kCounts)
    registry_.counter(item.name, item.help, labels)
        .increment(growth(before.*item.field, report.*item.field));
  for (const auto& phase : kStepPhases)
    registry_
        .counter(
            "gnn_train_phase_seconds_total",
            "Seconds that steps spent in each phase.",
            with(labels, "phase", phase.name)
        )
        .increment(growth(before.seconds.*phase.field, report.seconds.*phase.field));
  const progress::DataPath& path_before = before.step.data_path;
  const progress::DataPath& path = report.step.data_path;
  registry_.counter("gnn_feature_bytes_total", "Feature bytes gathered for training.", labels)
      .increment(growth(path_before.feature_bytes, path.feature_bytes));
  for (const auto& stall : kStalls)
    registry_
        .counter(
            "gnn_loader_stall_seconds_total",
            "Seconds that a stage of the data path waited for another.",
            with(labels, "stage", stall.stage)
        )
        .increment(growth(path_before.*stall.field, path.*stall.field));
  auto steps = registry_.histogram(
      "gnn_train_step_duration_seconds", "Duration of a whole step.", kStepBuckets, labels
  );
  for (const double duration : report.step_durations) steps.observe(duration);
  // Only rank 0 writes checkpoints; start at zero, so that the first one is an increase.
  if (rank == 0) checkpoint_durations(rank);
}

void NodeProgress::count_remote(int64_t rank, const RemoteData& before, const RemoteData& data) {
  const auto labels = rank_labels(rank);
  const auto add = [&](const char* name, const char* help, const MetricLabels& of, double more) {
    registry_.counter(name, help, of).increment(more);
  };
  for (const progress::DataKind kind : progress::kDataKinds) {
    const auto of_kind = with(labels, "kind", std::string(to_string(kind)));
    add("gnn_remote_received_bytes_total",
        "Bytes that other nodes sent this rank, by kind of data.",
        of_kind,
        growth(before.received_bytes[kind], data.received_bytes[kind]));
    add("gnn_remote_served_bytes_total",
        "Bytes that this rank sent other nodes, by kind of data.",
        of_kind,
        growth(before.served_bytes[kind], data.served_bytes[kind]));
    if (data.latency[kind].sum.count() == 0) continue;  // most jobs ask for one or two kinds
    add_latency(
        registry_.histogram(
            "gnn_remote_call_duration_seconds",
            "Time from a question to another node to its answer, by kind of data.",
            kCallBuckets,
            of_kind
        ),
        before.latency[kind],
        data.latency[kind]
    );
  }
  for (const RowUse& use : kRowUses) {
    for (const RowOrigin& origin : kRowOrigins)
      add(kRowsName,
          kRowsHelp,
          with(with(labels, "use", use.name), "origin", origin.name),
          growth(before.*use.rows.*origin.count, data.*use.rows.*origin.count));
  }
  add(kRowsName,
      kRowsHelp,
      with(with(labels, "use", "cache"), "origin", "remote"),
      growth(before.cache_rows, data.cache_rows));
  add("gnn_remote_peers_lost_total",
      "Connections to and from other nodes that broke or fell silent.",
      labels,
      growth(before.peers_lost, data.peers_lost));
  add("gnn_remote_connections_refused_total",
      "Connections that the data port has refused.",
      labels,
      growth(before.connections_refused, data.connections_refused));
  registry_
      .gauge("gnn_remote_calls_under_way", "Questions to other nodes without an answer.", labels)
      .set(static_cast<double>(data.calls_under_way));
  if (data.expected_hit_rate)
    registry_
        .gauge(
            "gnn_feature_cache_expected_hit_ratio",
            "Expected share of training's remote rows that caches have.",
            labels
        )
        .set(*data.expected_hit_rate);
}

void NodeProgress::count_served(int64_t rank, const ServedData& before, const ServedData& data) {
  const auto labels = rank_labels(rank);
  const auto add = [&](const char* name, const char* help, const MetricLabels& of, double more) {
    registry_.counter(name, help, of).increment(more);
  };
  const auto show = [&](const char* name, const char* help, double value) {
    registry_.gauge(name, help, labels).set(value);
  };
  add("gnn_served_batches_total",
      "Batches that servers made for this rank.",
      labels,
      growth(before.batches, data.batches));
  add("gnn_served_bytes_total",
      "Bytes of the batches that servers made for this rank.",
      labels,
      growth(before.bytes, data.bytes));
  for (const BatchStage& stage : kBatchStages)
    add("gnn_served_batch_seconds_total",
        "Seconds from the question for a batch to its answer, by what they went to.",
        with(labels, "stage", stage.name),
        growth(before.seconds.*stage.field, data.seconds.*stage.field));
  add("gnn_served_failovers_total",
      "Batches that this rank asked of another server, because the first was lost.",
      labels,
      growth(before.failovers, data.failovers));
  show(
      "gnn_served_requests_under_way",
      "Batches that this rank has asked for and not received.",
      static_cast<double>(data.under_way)
  );
  show(
      "gnn_served_waiting",
      "1 while no server takes part that holds what this rank needs, else 0.",
      data.waiting ? 1 : 0
  );
}

void NodeProgress::count_tracking(
    int64_t rank, const progress::TrackingData& before, const progress::TrackingData& data
) {
  for (const auto& [name, counts] : data) {
    const auto found = before.find(name);
    const progress::TrackerCounts last = found == before.end() ? TrackerCounts() : found->second;
    const auto labels = with(rank_labels(rank), "tracker", name);
    const auto add = [&](const char* series, const char* help, int64_t TrackerCounts::*count) {
      registry_.counter(series, help, labels).increment(growth(last.*count, counts.*count));
    };
    add("gnn_tracking_records_total",
        "Records of steps and epochs that a tracker was told.",
        &TrackerCounts::written);
    add("gnn_tracking_dropped_records_total",
        "Records of steps and epochs that a tracker was not told.",
        &TrackerCounts::dropped);
    add("gnn_tracking_failures_total", "Failed calls to a tracker.", &TrackerCounts::failures);
  }
}

Histogram NodeProgress::checkpoint_durations(int64_t rank) {
  return registry_.histogram(
      "gnn_checkpoint_duration_seconds",
      "Time to write a checkpoint.",
      kCheckpointBuckets,
      rank_labels(rank)
  );
}

void NodeProgress::show(int64_t rank, const RankReport& report, TimePoint wall_time) {
  const auto gauge = [&](const char* name, const char* help, double value) {
    registry_.gauge(name, help, rank_labels(rank)).set(value);
  };
  gauge(
      "gnn_agent_rank_last_report_timestamp_seconds",
      "Time of the rank's last report.",
      to_unix_seconds(wall_time)
  );
  for (const double duration : report.checkpoint_durations) {
    checkpoint_durations(rank).observe(duration);
    gauge(
        "gnn_checkpoint_last_success_timestamp_seconds",
        "Time when the newest checkpoint was complete.",
        to_unix_seconds(wall_time)
    );
  }
  if (report.checkpoint_bytes > 0)
    gauge(
        "gnn_checkpoint_bytes",
        "Size of the newest checkpoint.",
        static_cast<double>(report.checkpoint_bytes)
    );
  if (report.steps == 0) return;
  for (const auto& owner : kOwners)
    registry_.gauge(kMemoryName, kMemoryHelp, with(rank_labels(rank), "owner", owner.name))
        .set(static_cast<double>(report.step.memory.*owner.field));
  gauge("gnn_train_epoch", "Current epoch, from 1.", static_cast<double>(report.step.epoch + 1));
  gauge("gnn_train_epochs", "Number of epochs.", static_cast<double>(report.step.epochs));
  gauge("gnn_train_loss", "Loss of the last step, over all ranks.", report.step.loss);
  gauge("gnn_train_learning_rate", "Learning rate of the last step.", report.step.learning_rate);
  if (report.step.gradient_norm)
    gauge(
        "gnn_train_gradient_norm",
        "Norm of the last step's gradients, before they were clipped.",
        *report.step.gradient_norm
    );
  if (report.epoch) show_epoch(rank, *report.epoch);
}

void NodeProgress::show_epoch(int64_t rank, const progress::EpochReport& epoch) {
  const auto show_measure = [&](const char* split,
                                const std::optional<progress::Measure>& measure) {
    if (!is_known(measure)) return;
    const MetricLabels labels = with(rank_labels(rank), "split", split);
    registry_
        .gauge(
            "gnn_train_metric",
            "Latest value of the metric, by split.",
            with(labels, "metric", measure->metric)
        )
        .set(measure->value);
  };
  show_measure("train", epoch.train);
  show_measure("train_set", epoch.train_set);
  show_measure("validation", epoch.validation);
  show_measure("test", epoch.test);
}

void NodeProgress::read_numbers(const RankReport& report) {
  phase_ = report.phase;
  if (report.steps > 0) {
    numbers_.epoch = report.step.epoch + 1;
    numbers_.epochs = report.step.epochs;
    numbers_.global_step = report.step.global_step;
    numbers_.steps_per_epoch = report.step.steps_per_epoch;
    numbers_.step = report.step.step + 1;
    if (!report.epoch) numbers_.loss = report.step.loss;
    const double steps_per_second = rate_of(samples_.begin()->second, &Sample::steps);
    const int64_t left = (report.step.epochs - report.step.epoch) * report.step.steps_per_epoch -
                         report.step.step - 1;
    if (steps_per_second > 0)
      numbers_.eta_seconds = static_cast<int64_t>(static_cast<double>(left) / steps_per_second);
  }
  if (report.epoch) {
    numbers_.loss = report.epoch->average_loss;
    read_measures(*report.epoch);
  }
  if (!report.checkpoint_path.empty()) numbers_.checkpoint = report.checkpoint_path;
  if (report.final) read_final(*report.final);
}

// The three numbers are of one metric.
void NodeProgress::choose_metric(const std::string& metric) {
  if (metric.empty() || metric == numbers_.metric) return;
  numbers_.metric = metric;
  numbers_.train_metric.reset();
  numbers_.validation_metric.reset();
  numbers_.test_metric.reset();
  numbers_.best.reset();
}

void NodeProgress::read_measures(const progress::EpochReport& epoch) {
  // Between evaluations of another metric, that of the training batches does not replace it.
  const bool evaluated = epoch.train_set || epoch.validation || epoch.test;
  if (evaluated || numbers_.metric.empty()) choose_metric(epoch.metric());
  const auto read = [&](std::optional<double>& kept, const std::optional<progress::Measure>& from) {
    if (is_known(from) && from->metric == numbers_.metric) kept = from->value;
  };
  if (epoch.train.metric != numbers_.metric) read(numbers_.train_metric, epoch.train_set);
  read(numbers_.train_metric, epoch.train);
  read(numbers_.validation_metric, epoch.validation);
  read(numbers_.test_metric, epoch.test);
  keep_known(numbers_.best, epoch.best);
}

void NodeProgress::read_final(const progress::FinalReport& final) {
  choose_metric(final.metric);
  const auto metric = [&](const std::string& split) -> std::optional<double> {
    const auto found = final.metrics.find(split + "_" + numbers_.metric);
    return found == final.metrics.end() ? std::nullopt : std::optional(found->second);
  };
  // An Inference job has neither.
  if (final.epochs > 0 || final.global_steps > 0) {
    numbers_.global_step = final.global_steps;
    numbers_.loss = final.average_loss;
  }
  keep_known(numbers_.train_metric, metric("train"));
  keep_known(numbers_.validation_metric, metric("validation"));
  keep_known(numbers_.test_metric, metric("test"));
  numbers_.test_model = final.test_model;
  keep_known(numbers_.best, final.best);
  if (!final.checkpoint.empty()) numbers_.checkpoint = final.checkpoint;
  numbers_.parameters_hash = final.parameters_hash;
  numbers_.remote = final.remote;
}

double NodeProgress::rate_of(const std::deque<Sample>& samples, int64_t Sample::*field) {
  if (samples.size() < 2) return 0;
  const std::chrono::duration<double> window = samples.back().at - samples.front().at;
  if (window.count() <= 0) return 0;
  return static_cast<double>(samples.back().*field - samples.front().*field) / window.count();
}

double NodeProgress::items_per_second() const {
  double sum = 0;
  for (const auto& [rank, samples] : samples_) sum += rate_of(samples, &Sample::items);
  return sum;
}

}  // namespace gnn::agent
