#include "worker/report/run_record.h"

#include "common/printable.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace gnn::report {
namespace {

progress::RowOrigins& operator+=(progress::RowOrigins& sum, const progress::RowOrigins& more) {
  sum.local += more.local;
  sum.cache += more.cache;
  sum.remote += more.remote;
  return sum;
}

void add(
    std::optional<progress::RowOrigins>& sum, const std::optional<progress::RowOrigins>& more
) {
  if (!more) return;
  if (!sum) sum.emplace();
  *sum += *more;
}

progress::StepSeconds mean_of(const std::vector<RankRecord>& ranks) {
  progress::StepSeconds mean;
  for (const RankRecord& rank : ranks) mean += rank.seconds;
  const auto count = static_cast<double>(ranks.size());
  for (double* seconds :
       {&mean.wait, &mean.forward, &mean.backward, &mean.reduce, &mean.optimizer, &mean.total})
    *seconds /= count;
  return mean;
}

// Keeps every second of the epochs until they are few enough, and the newest.
void thin_out(RunRecord& record) {
  while (record.epochs.size() > kMaxEpochs) {
    record.epoch_stride *= 2;
    const int64_t newest = record.epochs.back().epoch;
    std::erase_if(record.epochs, [&](const EpochRecord& epoch) {
      return epoch.epoch % record.epoch_stride != 0 && epoch.epoch != newest;
    });
  }
}

// The newest epoch stands in for those of its stride until another one comes.
void drop_stand_in(RunRecord& record) {
  if (record.epochs.empty()) return;
  if (record.epochs.back().epoch % record.epoch_stride != 0) record.epochs.pop_back();
}

void add_ranks(RunRecord& record, int64_t epoch, const std::vector<RankRecord>& ranks) {
  const int64_t attempt = record.attempts_left_out + std::ssize(record.attempts) - 1;
  if (!record.ranks || record.ranks->attempt != attempt) {
    record.ranks = RankTable{
        .attempt = attempt, .first_epoch = epoch, .world_size = std::ssize(ranks), .ranks = {}
    };
    record.ranks->ranks.resize(std::min(ranks.size(), kMaxRanks));
  }
  RankTable& table = *record.ranks;
  table.last_epoch = epoch;
  for (size_t rank = 0; rank < table.ranks.size(); ++rank) {
    RankRecord& sum = table.ranks[rank];
    const RankRecord& more = ranks[rank];
    sum.seconds += more.seconds;
    sum.items += more.items;
    sum.sampled_edges += more.sampled_edges;
    add(sum.rows, more.rows);
    sum.expected_hit_rate = more.expected_hit_rate;
  }
}

// The places of the largest of `sizes`, at most `most`, the first of equals.
std::vector<size_t> largest(const std::vector<int64_t>& sizes, size_t most) {
  std::vector<size_t> places(sizes.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::stable_sort(places, [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  places.resize(std::min(places.size(), most));
  return places;
}

}  // namespace

void LogHistogram::add(int64_t value) {
  const auto bucket = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(value)));
  if (counts.size() <= bucket) counts.resize(bucket + 1);
  ++counts[bucket];
}

RunRecord begin_attempt(
    const std::optional<RunRecord>& earlier,
    RunFacts facts,
    AttemptRecord attempt,
    const std::vector<progress::EpochReport>& history
) {
  RunRecord record;
  record.facts = std::move(facts);
  const bool is_restart =
      earlier && !earlier->attempts.empty() &&
      earlier->attempts.back().incarnation.job_uid == attempt.incarnation.job_uid;
  if (earlier && (is_restart || !history.empty())) {
    record.attempts = earlier->attempts;
    record.attempts_left_out = earlier->attempts_left_out;
    record.ranks = earlier->ranks;
    record.confusion = earlier->confusion;
  }
  record.attempts.push_back(std::move(attempt));
  while (record.attempts.size() > kMaxAttempts) {
    record.attempts.erase(record.attempts.begin());
    ++record.attempts_left_out;
  }
  auto known = earlier ? earlier->epochs.begin() : std::vector<EpochRecord>::const_iterator();
  for (const progress::EpochReport& report : history) {
    EpochRecord epoch = epoch_record_of(report);
    if (earlier) {
      while (known != earlier->epochs.end() && known->epoch < epoch.epoch) ++known;
      // The same epoch of another training has another loss.
      if (known != earlier->epochs.end() && known->epoch == epoch.epoch &&
          known->loss == epoch.loss)
        epoch = *known;
    }
    record.epochs.push_back(std::move(epoch));
  }
  if (record.ranks && (history.empty() || record.ranks->first_epoch > history.back().epoch))
    record.ranks.reset();
  thin_out(record);
  return record;
}

EpochRecord epoch_record_of(const progress::EpochReport& report) {
  return {
      .epoch = report.epoch,
      .steps = report.steps,
      .loss = report.average_loss,
      .seconds = report.seconds,
      .train = report.train,
      .train_set = report.train_set,
      .validation = report.validation,
      .test = report.test,
  };
}

void add_epoch(RunRecord& record, EpochRecord epoch, const std::vector<RankRecord>& ranks) {
  if (!ranks.empty()) {
    epoch.step_seconds = mean_of(ranks);
    for (const RankRecord& rank : ranks) add(epoch.rows, rank.rows);
    add_ranks(record, epoch.epoch, ranks);
  }
  drop_stand_in(record);
  record.epochs.push_back(std::move(epoch));
  thin_out(record);
}

Confusion confusion_of(const AnswerCounts& answers, size_t most) {
  const auto classes = static_cast<size_t>(answers.classes);
  const auto count = [&](size_t of, size_t answer) {
    return answers.counts[of * classes + answer];
  };
  std::vector<int64_t> errors(classes);
  for (size_t of = 0; of < classes; ++of) {
    for (size_t answer = 0; answer < classes; ++answer) {
      if (of == answer) continue;
      errors[of] += count(of, answer);
      errors[answer] += count(of, answer);
    }
  }
  std::vector<size_t> chosen = largest(errors, most);
  std::ranges::sort(chosen);
  const bool has_others = chosen.size() < classes;
  const size_t rows = chosen.size() + (has_others ? 1 : 0);
  std::vector<size_t> row_of(classes, chosen.size());
  for (size_t row = 0; row < chosen.size(); ++row) row_of[chosen[row]] = row;
  Confusion confusion{.num_classes = answers.classes};
  for (const size_t of : chosen) confusion.classes.push_back(static_cast<int64_t>(of));
  if (has_others) confusion.classes.push_back(-1);
  confusion.counts.resize(rows * rows);
  for (size_t of = 0; of < classes; ++of) {
    for (size_t answer = 0; answer < classes; ++answer)
      confusion.counts[row_of[of] * rows + row_of[answer]] += count(of, answer);
  }
  return confusion;
}

LabelRecord label_record_of(const std::vector<int64_t>& counts, size_t most) {
  LabelRecord record{.num_classes = std::ssize(counts)};
  record.others = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (const size_t place : largest(counts, most)) {
    record.classes.push_back(static_cast<int64_t>(place));
    record.counts.push_back(counts[place]);
    record.others -= counts[place];
  }
  return record;
}

}  // namespace gnn::report
