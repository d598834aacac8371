#include "worker/agent/server_progress.h"

#include "common/api/report.h"
#include "common/contract.h"
#include "worker/agent/job_numbers.h"
#include "worker/progress/progress_sink.h"

#include <algorithm>

namespace gnn::agent {
namespace {

struct ServerCount {
  const char* name;
  const char* help;
  int64_t progress::ServerData::*field;
};
constexpr ServerCount kServerCounts[] = {
    {"gnn_server_batches_total",
     "Batches that this server has made and sent.",
     &progress::ServerData::batches},
    {"gnn_server_bytes_total",
     "Bytes of answers to ranks and to other servers.",
     &progress::ServerData::bytes},
    {"gnn_server_refused_total",
     "Connections and requests that this server has refused.",
     &progress::ServerData::refused},
};

}  // namespace

ServerProgress::ServerProgress(
    const ServerOptions& options, int64_t partitions, ProgressBar& console
)
    : options_(options), console_(console) {
  MetricLabels info = labels();
  info["restart"] = std::to_string(options.restart);
  info["part"] = std::to_string(options.server() % std::max<int64_t>(partitions, 1));
  info["version"] = std::to_string(contract::kVersion);
  registry_
      .gauge(
          "gnn_server_info",
          "Always 1; number of the pod, partition that it holds and version of the contract as "
          "labels.",
          info
      )
      .set(1);
  enter(to_string(progress::Phase::Setup), false);
  on_data({});
}

MetricLabels ServerProgress::labels() const {
  return {{"job", options_.pod.job}, {"server", std::to_string(options_.server())}};
}

void ServerProgress::set(const char* name, const char* help, double value) {
  registry_.gauge(name, help, labels()).set(value);
}

void ServerProgress::enter(std::string_view phase, bool ready) {
  *now_.lock() = Now{.phase = std::string(phase)};
  set("gnn_server_ready", "1 while this server makes batches, else 0.", ready ? 1 : 0);
}

void ServerProgress::on_ready() {
  enter(contract::kPhaseServe, true);
}

void ServerProgress::on_leaving() {
  enter("Leaving", false);
}

Pages ServerProgress::pages() const {
  return {
      .metrics = [this] { return registry_.expose(); },
      .progress = [this] { return progress_page(); },
      .healthy = [this] { return now_.lock()->phase == contract::kPhaseServe; },
      .unhealthy = "does not serve now"
  };
}

void ServerProgress::on_data(const progress::ServerData& data) {
  const auto add = [&](const char* name, const char* help, MetricLabels of, double more) {
    registry_.counter(name, help, of).increment(std::max(more, 0.0));
  };
  for (const ServerCount& count : kServerCounts)
    add(count.name,
        count.help,
        labels(),
        static_cast<double>(data.*count.field - shown_.*count.field));
  add("gnn_server_busy_seconds_total",
      "Seconds in which threads of this server worked on requests.",
      labels(),
      data.busy_seconds - shown_.busy_seconds);
  for (const progress::BatchStage& stage : progress::kBatchStages) {
    MetricLabels of = labels();
    of["stage"] = stage.name;
    add("gnn_server_batch_seconds_total",
        "Seconds from a request for a batch to the end of its answer, by what they went to.",
        of,
        data.seconds.*stage.field - shown_.seconds.*stage.field);
  }
  set("gnn_server_queue_length",
      "Requests that wait or are worked on.",
      static_cast<double>(data.queue_length));
  set("gnn_server_threads",
      "Threads that make batches and answer other servers.",
      static_cast<double>(data.threads));
  set("gnn_server_clients",
      "Ranks and servers that are connected.",
      static_cast<double>(data.clients));
  shown_ = data;
}

void ServerProgress::on_memory(int64_t resident_bytes) {
  set("gnn_server_memory_bytes",
      "Resident memory of the server, with what it has mapped and read.",
      static_cast<double>(resident_bytes));
}

void ServerProgress::begin(std::string_view label, int64_t total, std::string_view unit) {
  {
    const auto now = now_.lock();
    now->label = std::string(label);
    now->total = total;
    now->done = 0;
  }
  console_.begin(label, total, unit);
}

void ServerProgress::advance_to(int64_t done, std::string_view note) {
  now_.lock()->done = done;
  console_.advance_to(done, note);
}

void ServerProgress::end() {
  console_.end();
}

void ServerProgress::say(std::string_view line) {
  console_.say(line);
}

std::string ServerProgress::progress_page() const {
  const Now now = *now_.lock();
  api::ProgressReport report = make_report(options_.pod, 0, {});
  report.phase = now.phase;
  report.doing = now.label;
  if (now.total > 0) report.percent = std::clamp<int64_t>(100 * now.done / now.total, 0, 100);
  return api::encode(report, contract::kMaxProgressBytes);
}

}  // namespace gnn::agent
