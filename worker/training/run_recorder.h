#pragma once

#include "common/clock.h"
#include "worker/progress/progress_sink.h"
#include "worker/report/run_record.h"
#include "worker/training/training_checkpoints.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gnn::training {

/// The wall clock.
using Now = std::function<TimePoint()>;

/// Keeps the record of a training beside its checkpoints, for people who look at the run later. Only
/// rank 0 has one. A record that cannot be written is a warning and changes nothing else.
class RunRecorder {
 public:
  /// Begins an attempt with the epochs of `history` behind it, and writes that. `goes_on`: whether what
  /// the folder's record knows of earlier attempts is about the same training.
  RunRecorder(
      TrainingCheckpoints& checkpoints,
      Now now,
      report::RunFacts facts,
      report::AttemptRecord attempt,
      const std::vector<progress::EpochReport>& history,
      bool goes_on
  );

  void set_data(std::optional<report::DataRecord> data) { record_.data = std::move(data); }
  void set_answers(const report::AnswerCounts& answers) {
    record_.confusion = report::confusion_of(answers);
  }
  /// Adds the next epoch, and what each rank has done in it. Written at once, or with one that ends
  /// later: at most twice a second.
  void add_epoch(report::EpochRecord epoch, const std::vector<report::RankRecord>& ranks);
  /// Writes how the attempt ended.
  void end(report::AttemptEnd end, const std::string& reason = {});
  void set_outcome(const progress::FinalReport& report);

 private:
  [[nodiscard]] std::optional<report::RunRecord> read() const;
  void write();

  TrainingCheckpoints& checkpoints_;
  Now now_;
  report::RunRecord record_;
  TimePoint written_;
  bool warned_ = false;
};

}  // namespace gnn::training
