#include "worker/tasks/dealt_batches.h"

#include <algorithm>
#include <string>

namespace gnn::tasks {
namespace {

std::string text_of(const servers::BatchRequest& request) {
  return std::to_string(request.count) + " items of partition " +
         std::to_string(request.partition) + " from position " +
         std::to_string(request.first_position);
}

}  // namespace

servers::BatchRequest request_of(
    const sampling::core::ItemSampler& sampler, const BatchName& name
) {
  const sampling::core::RankShare share = sampler.share_of(name.rank);
  const int64_t size = sampler.options().batch_size;
  const int64_t begin = name.index * size;
  return {
      .use = name.use,
      .of = name.of,
      .epoch = name.epoch,
      .partition = sampler.partition_of(name.rank),
      .first_position = share.first + begin * share.stride,
      .count = std::min(size, share.num_items - begin),
      .rank = name.rank,
      .index = name.index
  };
}

Status check_request(
    const sampling::core::ItemSampler& sampler,
    const servers::BatchRequest& request,
    int64_t partition
) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    return fail(
        ErrorKind::Data,
        "batch " + std::to_string(request.index) + " of rank " + std::to_string(request.rank) +
            " in epoch " + std::to_string(request.epoch) + ": expected " + expected + ", found " +
            found
    );
  };
  const int64_t ranks = sampler.options().world_size;
  if (request.rank < 0 || request.rank >= ranks)
    return refuse("one of " + std::to_string(ranks) + " ranks", std::to_string(request.rank));
  const int64_t batches = sampler.share_of(request.rank).num_batches;
  if (request.epoch < 0 || request.index < 0 || request.index >= batches) {
    return refuse(
        "an epoch from 0 and one of " + std::to_string(batches) + " batches",
        std::to_string(request.index)
    );
  }
  const servers::BatchRequest expected = request_of(
      sampler,
      {.of = request.of,
       .use = request.use,
       .epoch = request.epoch,
       .rank = request.rank,
       .index = request.index}
  );
  if (request != expected) {
    return refuse(
        text_of(expected) + ", as this server deals them",
        text_of(request) + ": the two have another data set or job"
    );
  }
  if (expected.partition < 0 || expected.partition == partition) return {};
  return refuse("items of partition " + std::to_string(partition), text_of(request));
}

std::shared_ptr<const sampling::core::EpochOrder> EpochOrders::order(int64_t rank, int64_t epoch)
    const {
  const int64_t partition = sampler_.partition_of(rank);
  const int64_t shuffled = sampler_.options().shuffle ? epoch : 0;
  const auto entries = entries_.lock();
  const auto found = std::find_if(entries->begin(), entries->end(), [&](const Entry& entry) {
    return entry.partition == partition && entry.epoch == shuffled;
  });
  if (found != entries->end()) {
    std::rotate(found, found + 1, entries->end());
    return entries->back().order;
  }
  if (entries->size() >= kMostOrders) entries->pop_front();
  entries->push_back(
      {partition,
       shuffled,
       std::make_shared<const sampling::core::EpochOrder>(sampler_.order_for(rank, epoch))}
  );
  return entries->back().order;
}

}  // namespace gnn::tasks
