#include "worker/report/run_record.h"

#include "tests/worker/report/records.h"
#include "worker/report/record_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gnn::report {
namespace {

using testing::attempt_of;
using ::testing::ElementsAre;
using testing::epoch_report;
using testing::full_record;
using testing::rank_record;

std::vector<int64_t> numbers_of(const std::vector<EpochRecord>& epochs) {
  std::vector<int64_t> numbers;
  for (const EpochRecord& epoch : epochs) numbers.push_back(epoch.epoch);
  return numbers;
}

TEST(RunRecord, GoesOnWithTheEpochsThatAreDone) {
  // Four epochs were recorded, and the checkpoint of the second is the newest.
  const RunRecord before = full_record(4);
  RunRecord record = begin_attempt(
      before, before.facts, attempt_of("6f0c", 2), {epoch_report(0), epoch_report(1)}
  );
  EXPECT_THAT(numbers_of(record.epochs), ElementsAre(0, 1));
  EXPECT_TRUE(record.epochs[1].step_seconds.has_value());
  EXPECT_EQ(record.attempts.size(), 2U);
  EXPECT_FALSE(record.outcome.has_value());
  add_epoch(record, epoch_record_of(epoch_report(2)), {rank_record(1), rank_record(3)});
  EXPECT_THAT(numbers_of(record.epochs), ElementsAre(0, 1, 2));
  EXPECT_EQ(record.epochs[2].step_seconds->wait, 2);
  EXPECT_EQ(record.epochs[2].rows->cache, 60);
  EXPECT_EQ(record.ranks->first_epoch, 2);
  EXPECT_EQ(record.ranks->ranks[1].seconds.wait, 3);

  // The same numbers of epochs in another training are other epochs, and its attempts are no restarts.
  progress::EpochReport other = epoch_report(0);
  other.average_loss = 7;
  const RunRecord continued = begin_attempt(before, {}, attempt_of("6f0c", 2), {other});
  EXPECT_FALSE(continued.epochs[0].step_seconds.has_value());
  EXPECT_EQ(begin_attempt(before, {}, attempt_of("b0b", 1), {}).attempts.size(), 1U);
}

TEST(RunRecord, StaysWithinWhatItsReaderTakesHoweverLongTheRun) {
  RunRecord record = full_record(1, 5000);
  for (int64_t attempt = 2; attempt < 300; ++attempt) {
    record.attempts.back().end = AttemptEnd::Failed;
    record.attempts.back().reason = std::string(5000, 'x');
    record = begin_attempt(record, record.facts, attempt_of("6f0c", attempt), {});
  }
  const std::vector<RankRecord> ranks(5000, rank_record(1.0 / 3));
  EpochRecord epoch = full_record(1).epochs[0];
  epoch.loss = 1.0 / 3;
  epoch.seconds = 1.0 / 7;
  for (epoch.epoch = 0; epoch.epoch < 6'002; ++epoch.epoch) add_epoch(record, epoch, ranks);
  record.data = full_record(1).data;
  record.confusion = confusion_of({.classes = 500, .counts = std::vector<int64_t>(250'000, 1)});
  const auto read = parse_record(to_text(record));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_LE(read->epochs.size(), kMaxEpochs);
  EXPECT_GT(read->epochs.size(), kMaxEpochs / 2);
  EXPECT_EQ(read->epochs.front().epoch, 0);
  EXPECT_EQ(read->epochs.back().epoch, 6'001);
  EXPECT_EQ(read->attempts.size(), kMaxAttempts);
  EXPECT_EQ(read->attempts_left_out + std::ssize(read->attempts), 299);
}

TEST(RunRecord, KeepsTheClassesThatAreConfusedMost) {
  // 1 and 3 are taken for each other; 0 and 2 are always right but for one answer.
  const AnswerCounts answers{
      .classes = 4, .counts = {9, 0, 1, 0, 0, 2, 0, 5, 0, 0, 8, 0, 0, 6, 0, 3}
  };
  const Confusion two = confusion_of(answers, 2);
  EXPECT_THAT(two.classes, ElementsAre(1, 3, -1));
  EXPECT_THAT(two.counts, ElementsAre(2, 5, 0, 6, 3, 0, 0, 0, 18));
  const Confusion all = confusion_of(answers, 4);
  EXPECT_THAT(all.classes, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(all.counts, answers.counts);
  const LabelRecord labels = label_record_of({4, 7, 4, 1}, 2);
  EXPECT_THAT(labels.classes, ElementsAre(1, 0));
  EXPECT_EQ(labels.others, 5);
}

}  // namespace
}  // namespace gnn::report
