#pragma once

#include "worker/distributed/comm/communicator.h"
#include "worker/distributed/comm/process_groups.h"

#include <c10/util/intrusive_ptr.h>

#include <memory>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace gnn::comm {

struct C10dStoreHandle {
  c10::intrusive_ptr<c10d::Store> store;
};

struct C10dGroupHandle {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

/// A communicator over a c10d group whose backends are set.
[[nodiscard]] std::shared_ptr<Communicator> make_c10d_communicator(
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    const char* backend,
    const CommunicatorOptions& options
);

/// Runs `collective`, which may throw as c10d does, and gives kPeerLost for what it throws. Tells
/// `activity` (may be null) when it began and ended.
template <class Collective>
[[nodiscard]] Status run_collective(
    const char* what, CollectiveActivity* activity, Collective collective
) {
  if (activity != nullptr) activity->started();
  Status status;
  try {
    collective();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    status = fail(ErrorKind::kPeerLost, std::string(what) + ": " + text.substr(0, text.find('\n')));
  }
  if (activity != nullptr) activity->finished();
  return status;
}

}  // namespace gnn::comm
