#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "worker/progress/measure.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/remote_data.h"
#include "worker/rendezvous/rendezvous.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gnn::report {

/// Name of a run's record, in the folder of its checkpoints.
inline constexpr const char* kRecordFile = "run.json";

// A record stays below what api::parse_json() reads, however long the run is and whatever its size.
inline constexpr size_t kMaxEpochs = 2000;
inline constexpr size_t kMaxAttempts = 100;
inline constexpr size_t kMaxRanks = 1024;
inline constexpr size_t kMaxClasses = 30;  ///< of a confusion matrix, and of a histogram of labels
inline constexpr size_t kMaxEdgeTypes = 32;
inline constexpr size_t kMaxTextBytes = 300;

/// What a run is of. Texts are for people.
struct RunFacts {
  std::string job{};
  std::string task{};
  std::string model{};
  std::string dataset{};     ///< its name
  std::string evaluation{};  ///< the metric of evaluations, as in progress::Measure
  int64_t epochs = 0;        ///< that the job asks for
  int64_t batch_size = 0;    ///< of a rank
};

/// One finished epoch, over all ranks.
struct EpochRecord {
  int64_t epoch = 0;  ///< from 0
  int64_t steps = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;
  progress::Measure train{};  ///< of the training batches
  std::optional<progress::Measure> train_set{};
  std::optional<progress::Measure> validation{};
  std::optional<progress::Measure> test{};
  std::optional<double> learning_rate{};                ///< of its last step
  std::optional<progress::StepSeconds> step_seconds{};  ///< the ranks' mean
  /// Where the feature rows of its training batches came from; nothing where the whole data set is
  /// on each node.
  std::optional<progress::RowOrigins> rows{};
};

/// What one rank has done since its attempt began.
struct RankRecord {
  progress::StepSeconds seconds{};
  int64_t items = 0;
  int64_t sampled_edges = 0;
  std::optional<progress::RowOrigins> rows{};
  std::optional<double> expected_hit_rate{};
};

/// The ranks of the newest attempt that has finished an epoch.
struct RankTable {
  int64_t attempt = 0;  ///< its number among all attempts of the record, from 0
  int64_t first_epoch = 0;
  int64_t last_epoch = 0;
  int64_t world_size = 0;
  std::vector<RankRecord> ranks{};  ///< at most kMaxRanks
};

enum class AttemptEnd {
  Unknown,  ///< it still runs, or was lost before it could say anything
  Complete,
  Stopped,  ///< on request
  Failed,
};

/// One start of all ranks: a pod's round, or a run on this machine.
struct AttemptRecord {
  rendezvous::Incarnation incarnation{};
  int64_t world_size = 1;
  std::string device{};
  TimePoint began{};
  int64_t epoch = 0;  ///< that it began at, from 0
  int64_t step = 0;   ///< in that epoch
  TimePoint seen{};   ///< when the record was last written by it
  AttemptEnd end = AttemptEnd::Unknown;
  std::string reason{};  ///< of a failure
};

/// How often each answer was given to items of each class.
struct AnswerCounts {
  int64_t classes = 0;
  std::vector<int64_t> counts{};  ///< [classes * classes], by class and, within it, by answer
};

/// Answers about the test set by class; of many classes those that are confused most.
struct Confusion {
  int64_t num_classes = 0;         ///< of the data set
  std::vector<int64_t> classes{};  ///< of rows and columns, ascending; -1, the last: all others
  std::vector<int64_t> counts{};   ///< [rows * rows], by class and, within it, by answer
};

/// Counts by powers of two: of 0, 1, 2 to 3, 4 to 7, and so on.
struct LogHistogram {
  std::vector<int64_t> counts{};

  void add(int64_t value);
};

/// In-degrees of the nodes that an edge type leads to.
struct DegreeRecord {
  std::string edge_type{};
  int64_t nodes = 0;   ///< of the destination's type
  int64_t looked = 0;  ///< nodes that the histogram counts: fewer of a large or a partitioned graph
  int64_t most = 0;    ///< of those
  LogHistogram histogram{};
};

/// Items by class, the largest classes first.
struct LabelRecord {
  std::string of{};  ///< what has the labels: a node type, or graphs
  int64_t num_classes = 0;
  int64_t items = 0;
  int64_t looked = 0;      ///< items that are counted
  int64_t unlabelled = 0;  ///< of those
  std::vector<int64_t> classes{};
  std::vector<int64_t> counts{};
  int64_t others = 0;  ///< items of the classes that are left out
};

struct DataRecord {
  std::string description{};
  std::vector<DegreeRecord> degrees{};
  std::optional<LabelRecord> labels{};
};

/// What the run came to.
struct Outcome {
  std::map<std::string, double> metrics{};  ///< as in progress::FinalReport
  std::string test_model{};                 ///< "last", "best" or empty
  std::optional<int64_t> best_epoch{};
  std::string checkpoint{};
  std::string parameters_hash{};
};

/// What is known of one training, over all its attempts.
struct RunRecord {
  RunFacts facts{};
  std::vector<EpochRecord> epochs{};  ///< ascending, each once
  int64_t epoch_stride = 1;           ///< above 1: but for the newest, epochs that it divides
  std::vector<AttemptRecord> attempts{};
  int64_t attempts_left_out = 0;  ///< before those
  std::optional<RankTable> ranks{};
  std::optional<Confusion> confusion{};
  std::optional<DataRecord> data{};
  std::optional<Outcome> outcome{};
};

/// The record of a training that begins an attempt with `history` behind it, which alone says which
/// epochs are done. `earlier`, if there is one, knows more of them.
[[nodiscard]] RunRecord begin_attempt(
    const std::optional<RunRecord>& earlier,
    RunFacts facts,
    AttemptRecord attempt,
    const std::vector<progress::EpochReport>& history
);

/// An epoch as its report tells it.
[[nodiscard]] EpochRecord epoch_record_of(const progress::EpochReport& report);

/// Adds the next epoch, and what each rank has done in it: `ranks` are sums over that epoch alone.
void add_epoch(RunRecord& record, EpochRecord epoch, const std::vector<RankRecord>& ranks);

/// The classes that take part in most wrong answers, at most `most`, and the rest as one.
[[nodiscard]] Confusion confusion_of(const AnswerCounts& answers, size_t most = kMaxClasses);

/// Items by class from counts[class], with the largest classes by themselves.
[[nodiscard]] LabelRecord label_record_of(
    const std::vector<int64_t>& counts, size_t most = kMaxClasses
);

}  // namespace gnn::report
