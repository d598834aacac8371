#pragma once

#include <cstdlib>
#include <string>

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

/// The clock of one of several API servers is an hour ahead.
inline const bool kWrongClocks = is_left_alone("GNN_SIMULATION_CLOCKS");
/// A job is deleted by a time to live that has been raised meanwhile.
inline const bool kStaleTtl = is_left_alone("GNN_SIMULATION_TTL");

/// For a first look: rules and actors that are switched off.
inline bool is_off(const std::string& name) {
  const char* const all = std::getenv("GNN_SIMULATION_OFF");
  return all != nullptr &&
         ("," + std::string(all) + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace gnn::simulation::known_faults
