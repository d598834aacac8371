// A rank that also writes down each loss that it is told and the last metrics, bit by bit, to
// FOLDER/rank-<rank>:
//   gnn_recording_rank MANIFEST FOLDER [path=value]...
// In a value, {node} stands for the rank's node, which may so have data of its own.

#include "worker/agent/agent_link.h"
#include "worker/app/job_file.h"
#include "worker/app/run_rank.h"
#include "worker/progress/console_sink.h"
#include "worker/rendezvous/rendezvous.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gnn::StopToken;
using gnn::progress::CheckpointReport;
using gnn::progress::EpochReport;
using gnn::progress::FinalReport;
using gnn::progress::Phase;
using gnn::progress::ProgressSink;
using gnn::progress::StepReport;
using gnn::progress::TeeSink;

class LossFile final : public ProgressSink {
 public:
  explicit LossFile(const std::string& path) : file_(path) { file_ << std::hexfloat; }

  void on_phase(Phase) override {}
  void on_step(const StepReport& report) override {
    file_ << "step " << report.global_step << ' ' << report.loss << '\n';
  }
  void on_epoch(const EpochReport& report) override {
    file_ << "epoch " << report.epoch << ' ' << report.average_loss << '\n';
  }
  void on_final(const FinalReport& report) override {
    for (const auto& [name, value] : report.metrics)
      file_ << "metric " << name << ' ' << value << '\n';
    file_ << "parameters " << report.parameters_hash << std::endl;
  }
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string&) override {}

 private:
  std::ofstream file_;
};

std::vector<std::string> fields_of_node(std::vector<std::string> fields, int64_t node) {
  constexpr std::string_view kNode = "{node}";
  for (std::string& field : fields) {
    const size_t at = field.find(kNode);
    if (at != std::string::npos) field.replace(at, kNode.size(), std::to_string(node));
  }
  return fields;
}

gnn::Result<gnn::tasks::TaskResult> run(
    const std::string& manifest, const std::string& folder, const std::vector<std::string>& fields
) {
  const auto environment = gnn::rendezvous::process_environment();
  const auto stop = std::make_shared<StopToken>();
  const auto activity = std::make_shared<gnn::progress::CollectiveActivity>();
  GNN_ASSIGN_OR_RETURN(
      const auto link, gnn::agent::AgentLink::from_environment(environment, activity, stop)
  );
  GNN_ASSIGN_OR_RETURN(const auto rendezvous, gnn::rendezvous::parse_rendezvous(environment));
  GNN_ASSIGN_OR_RETURN(
      const auto job,
      gnn::app::load_job(
          manifest, fields_of_node(fields, rendezvous.rank / rendezvous.local_world_size)
      )
  );
  LossFile losses(folder + "/rank-" + std::to_string(rendezvous.rank));
  TeeSink progress({link.get(), &losses});
  return gnn::app::run_rank(
      job, {.rendezvous = rendezvous, .progress = progress, .stop = *stop, .activity = activity}
  );
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: gnn_recording_rank MANIFEST FOLDER [path=value]...\n";
    return 64;
  }
  const auto result = run(arguments[1], arguments[2], {arguments + 3, arguments + count});
  if (!result) std::cerr << result.error().message << std::endl;
  return gnn::app::exit_code_of(result);
}
