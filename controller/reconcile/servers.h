#pragma once

#include "controller/reconcile/gang.h"
#include "controller/reconcile/observed.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Sampling servers, the second role of a job. They stay up through attempts and rounds, and nothing
/// that happens to one restarts a worker: its pod is replaced alone, under the next number, without a
/// charge. They come and go with the job's hold on its machines.
namespace gnn::reconcile {

struct Pass;

/// One server of the job and its present pod.
struct ServerView {
  int64_t restart = 0;                     ///< number of the pod
  bool made = false;                       ///< it has been seen before
  NodeView seen;                           ///< `node` is the server's number
  const objects::Pod* stranger = nullptr;  ///< holds the name of its pod
};

/// The pods of a job's servers. Pointers point into Observed.
struct ServersView {
  std::vector<ServerView> servers;               ///< those that the job is to have, in order
  std::vector<const objects::Pod*> superfluous;  ///< replaced, or of servers that it is not to have
  /// With a number that the status does not know. Where there are some, what we see of the job may be out
  /// of date.
  std::vector<const objects::Pod*> ahead;
};

/// How many servers the job is to have; 0 without spec.servers.
[[nodiscard]] int64_t desired_servers(const api::GnnJob& job);

/// How many of them the workers need: one for each partition, those with the lowest numbers.
[[nodiscard]] int64_t needed_servers(const api::GnnJob& job);

[[nodiscard]] ServersView view_servers(const Observed& observed);

/// Whether servers may run now: not before the data are prepared, nor while the job has given its
/// machines back.
[[nodiscard]] bool keeps_servers(const Pass& pass);

/// The failure of a server that ends the job, in a sentence.
struct ServersVerdict {
  std::string_view reason;
  NodeFailure failure;
  std::string message;
};
/// Nothing if no server has failed in a way that ends the job.
[[nodiscard]] std::optional<ServersVerdict> judge_servers(const Pass& pass);
void fail_by_server(Pass& pass, const ServersVerdict& verdict);

/// Counts servers, takes down what was lost, removes pods that are not wanted, and sets ServersReady.
/// Creates none.
void tend_servers(Pass& pass);

/// Which servers to create: those without which the workers cannot run, or those that the job has
/// beyond one for each partition.
enum class ServerShare { Needed, Further };
/// Creates the pods that are missing, if they may be made now and nobody else has their names.
void create_server_pods(
    Pass& pass, ServerShare share, const std::optional<objects::GroupMembership>& group = {}
);
/// Whether create_server_pods() has something to create.
[[nodiscard]] bool lacks_server_pods(const Pass& pass);

/// How many partitions wait for a place: none of their servers has one, and not because of failures.
[[nodiscard]] int64_t parts_without_place(const Pass& pass);
/// Until when they must have one; nothing if all do, or no pod waits.
[[nodiscard]] std::optional<TimePoint> servers_scheduling_deadline(const Pass& pass);
/// What the scheduler says of the first that waits; may be empty.
[[nodiscard]] std::string why_servers_wait(const Pass& pass);

/// For a job without pods: removes the servers' pods, and sets ServersReady.
void suspend_servers(Pass& pass, std::string_view why, const std::string& message);
/// Whether pods of servers exist, wanted or not.
[[nodiscard]] bool has_server_pods(const ServersView& servers);
/// Sets ServersReady for a job that has ended.
void finish_servers(Pass& pass, const std::string& message);

/// Whether two states of the servers differ only in how many are ready, or in that new pods of a first
/// number were seen.
[[nodiscard]] bool differ_only_in_counts(
    const std::optional<api::ServerCounts>& before, const std::optional<api::ServerCounts>& after
);

}  // namespace gnn::reconcile
