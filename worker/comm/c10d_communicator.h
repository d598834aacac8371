#pragma once

#include "worker/comm/communicator.h"
#include "worker/comm/process_groups.h"

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

/// The exception being handled, as an error, by its type: PeerLost for c10d's DistError and Gloo's
/// IoException, which say that a peer is lost or late; else OutOfMemory or Internal. Call it inside
/// a catch block only.
[[nodiscard]] Error error_of_current_exception(const char* what);

/// Runs `collective`, which may throw as c10d does. Tells `activity`, which may be null, when it
/// starts and ends.
/// Errors: those of error_of_current_exception().
template <class Collective>
[[nodiscard]] Status run_collective(
    const char* what, progress::CollectiveActivity* activity, Collective collective
) {
  if (activity != nullptr) activity->started();
  Status status;
  try {
    collective();
  } catch (const std::exception&) {
    status = tl::make_unexpected(error_of_current_exception(what));
  }
  if (activity != nullptr) activity->finished();
  return status;
}

}  // namespace gnn::comm
