#include "worker/tasks/node_check.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

constexpr std::chrono::seconds kBetweenSigns{1};

// A rank's bar during a check. Each sign of progress is a reduction over the node: a rank that is
// done takes part until all are.
class SharedProgress final : public ProgressBar {
 public:
  SharedProgress(comm::Communicator& node, ProgressBar& progress, ProgressBarClock clock)
      : node_(node), progress_(progress), clock_(clock), last_sign_(clock()) {}

  void begin(std::string_view label, int64_t total, std::string_view unit) override {
    progress_.begin(label, total, unit);
  }
  void advance_to(int64_t done, std::string_view note) override {
    progress_.advance_to(done, note);
    if (!reached_ || clock_() - last_sign_ < kBetweenSigns) return;
    if (const auto ranks = ranks_done(0); !ranks) reached_ = tl::unexpected(ranks.error());
    last_sign_ = clock_();
  }
  void end() override { progress_.end(); }
  void say(std::string_view line) override { progress_.say(line); }

  // Waits until all ranks are done; fails if one is lost, or was at an earlier sign.
  Status wait_for_others() {
    GNN_RETURN_IF_ERROR(reached_);
    if (node_.world_size() == 1) return {};
    progress_.begin("waiting for the other ranks of the node", node_.world_size(), "ranks");
    for (int64_t ranks = 0; ranks < node_.world_size();) {
      GNN_ASSIGN_OR_RETURN(ranks, ranks_done(1));
      progress_.advance_to(ranks, {});
    }
    progress_.end();
    return {};
  }

 private:
  Result<int64_t> ranks_done(int64_t mine) {
    const at::Tensor count = at::full({1}, mine, at::kLong);
    GNN_RETURN_IF_ERROR(node_.all_reduce(count));
    return count.item<int64_t>();
  }

  comm::Communicator& node_;
  ProgressBar& progress_;
  ProgressBarClock clock_;
  std::chrono::steady_clock::time_point last_sign_;
  Status reached_;  // all ranks, at the latest sign
};

enum class Known { Nothing, SameFiles, Checked };

// What the ranks of the node know together: the same answer on all of them.
Result<Known> compare(const NodeCheck& context, const std::string& version) {
  const bool checked = version == context.checked_version;
  GNN_ASSIGN_OR_RETURN(
      const auto of_ranks,
      comm::all_gather_bytes(context.node, version + (checked ? " checked" : ""))
  );
  const auto is_mine = [&](const std::string& other) { return other.starts_with(version); };
  if (!std::all_of(of_ranks.begin(), of_ranks.end(), is_mine)) return Known::Nothing;
  const auto is_checked = [&](const std::string& other) { return other != version; };
  return std::all_of(of_ranks.begin(), of_ranks.end(), is_checked) ? Known::Checked
                                                                   : Known::SameFiles;
}

}  // namespace

Status check_on_node(
    const NodeCheck& context, const std::string& version, const graph::ContentCheck& check
) {
  GNN_ASSIGN_OR_RETURN(const Known known, compare(context, version));
  if (known == Known::Checked) return {};
  if (known == Known::Nothing) return check({}, context.progress);
  SharedProgress progress(context.node, context.progress, context.clock);
  const Status mine =
      check({.index = context.node.rank(), .count = context.node.world_size()}, progress);
  GNN_RETURN_IF_ERROR(progress.wait_for_others());
  GNN_ASSIGN_OR_RETURN(
      const auto messages,
      comm::all_gather_bytes(context.node, mine ? std::string() : mine.error().message)
  );
  for (const std::string& message : messages) {
    if (!message.empty()) return fail(ErrorKind::Data, message);
  }
  return {};
}

}  // namespace gnn::tasks
