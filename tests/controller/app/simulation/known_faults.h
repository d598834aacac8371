#pragma once

#include <cstdlib>

/// What the simulation leaves alone, because the operator is known to go wrong there. Each is true until the fault
/// is mended.
namespace gnn::simulation::known_faults {

inline bool is_left_alone(const char* name) {
  return std::getenv(name) == nullptr;
}

/// `--cascade=orphan` leaves children behind.
inline const bool kOrphaning = is_left_alone("GNN_SIMULATION_ORPHANING");
/// A pod with a job as its controller, and the name of a later attempt, freezes that job.
inline const bool kForeignPodsWithOwner = is_left_alone("GNN_SIMULATION_OWNED");
/// A suspension that is taken back counts as a failure.
inline const bool kOwnStops = is_left_alone("GNN_SIMULATION_OWN_STOPS");
/// A deleted job gives its quota back while its pods run.
inline const bool kQuotaOfDeletedJobs = is_left_alone("GNN_SIMULATION_DELETED_QUOTA");

}  // namespace gnn::simulation::known_faults
