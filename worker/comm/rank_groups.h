#pragma once

#include "worker/comm/communicator.h"

#include <memory>
#include <utility>

namespace gnn::comm {

/// The groups of one rank of a job with p ranks per node: rank r is rank r % p of node r / p.
struct RankGroups {
  /// Each rank is a node of its own.
  // NOLINTNEXTLINE(google-explicit-constructor): one group is all that such a rank has
  RankGroups(std::shared_ptr<Communicator> every)
      : all(std::move(every)), node(make_single_communicator()), peers(all) {}
  RankGroups(
      std::shared_ptr<Communicator> every,
      std::shared_ptr<Communicator> of_node,
      std::shared_ptr<Communicator> of_local_rank
  )
      : all(std::move(every)), node(std::move(of_node)), peers(std::move(of_local_rank)) {}

  std::shared_ptr<Communicator> all;
  std::shared_ptr<Communicator> node;   ///< the ranks of this node, by local rank
  std::shared_ptr<Communicator> peers;  ///< those with this local rank, by node
};

}  // namespace gnn::comm
