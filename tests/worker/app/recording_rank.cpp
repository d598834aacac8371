// A rank that also writes down each loss that it is told, bit by bit, to FOLDER/rank-<rank>:
//   gnn_recording_rank MANIFEST FOLDER [path=value]...

#include "worker/agent/agent_link.h"
#include "worker/app/job_file.h"
#include "worker/app/rank_run.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/console_sink.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using gnn::training::CheckpointReport;
using gnn::training::EpochReport;
using gnn::training::FinalReport;
using gnn::training::Phase;
using gnn::training::ProgressSink;
using gnn::training::StepReport;
using gnn::training::StopToken;
using gnn::training::TeeSink;

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
    file_ << "parameters " << report.parameters_hash << std::endl;
  }
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string&) override {}

 private:
  std::ofstream file_;
};

gnn::Result<gnn::tasks::TaskOutcome> run(
    const std::string& manifest, const std::string& folder, const std::vector<std::string>& fields
) {
  const auto environment = gnn::comm::process_environment();
  const auto stop = std::make_shared<StopToken>();
  const auto activity = std::make_shared<gnn::comm::CollectiveActivity>();
  GNN_ASSIGN_OR_RETURN(
      const auto link, gnn::agent::AgentLink::from_environment(environment, activity, stop)
  );
  GNN_ASSIGN_OR_RETURN(const auto rendezvous, gnn::comm::parse_rendezvous(environment));
  GNN_ASSIGN_OR_RETURN(const auto job, gnn::app::load_job(manifest, fields));
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
  const auto outcome = run(arguments[1], arguments[2], {arguments + 3, arguments + count});
  if (!outcome) std::cerr << outcome.error().message << std::endl;
  return gnn::app::exit_code_of(outcome);
}
