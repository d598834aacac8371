#include "worker/training/run_recorder.h"

#include "common/api/codec.h"
#include "common/log.h"
#include "worker/report/record_json.h"

#include <chrono>
#include <utility>

namespace gnn::training {
namespace {

constexpr Duration kBetweenWrites = std::chrono::milliseconds(500);

}  // namespace

RunRecorder::RunRecorder(
    TrainingCheckpoints& checkpoints,
    Now now,
    report::RunFacts facts,
    report::AttemptRecord attempt,
    const std::vector<progress::EpochReport>& history,
    bool goes_on
)
    : checkpoints_(checkpoints), now_(std::move(now)) {
  attempt.began = now_();
  record_ = report::begin_attempt(
      goes_on ? read() : std::nullopt, std::move(facts), std::move(attempt), history
  );
  write();
}

std::optional<report::RunRecord> RunRecorder::read() const {
  const auto text =
      checkpoints_.read_file(report::kRecordFile, static_cast<int64_t>(api::kMaxDocumentBytes));
  if (text && !*text) return std::nullopt;
  Result<report::RunRecord> record =
      text ? report::parse_record(**text) : tl::unexpected(text.error());
  if (record) return *std::move(record);
  log_warning(
      "the record of earlier attempts cannot be read; it begins anew",
      {{"file", report::kRecordFile}, {"error", record.error().message}}
  );
  return std::nullopt;
}

void RunRecorder::add_epoch(
    report::EpochRecord epoch, const std::vector<report::RankRecord>& ranks
) {
  report::add_epoch(record_, std::move(epoch), ranks);
  const Duration passed = now_() - written_;
  // Below 0: the clock was set back.
  if (passed >= kBetweenWrites || passed < Duration::zero()) write();
}

void RunRecorder::end(report::AttemptEnd end, const std::string& reason) {
  record_.attempts.back().end = end;
  record_.attempts.back().reason = reason;
  write();
}

void RunRecorder::set_outcome(const progress::FinalReport& report) {
  record_.outcome = report::Outcome{
      .metrics = report.metrics,
      .test_model = report.test_model,
      .checkpoint = report.checkpoint,
      .parameters_hash = report.parameters_hash,
  };
  if (report.best) record_.outcome->best_epoch = report.best->epoch;
}

void RunRecorder::write() {
  const TimePoint now = now_();
  record_.attempts.back().seen = now;
  written_ = now;
  const Status status = checkpoints_.replace_file(report::kRecordFile, report::to_text(record_));
  if (status || warned_) return;
  warned_ = true;
  log_warning(
      "the record of the run cannot be written",
      {{"file", report::kRecordFile}, {"error", status.error().message}}
  );
}

}  // namespace gnn::training
