#include "worker/rendezvous/rendezvous.h"

#include "common/contract.h"

#include <charconv>
#include <cstdlib>
#include <random>

namespace gnn::rendezvous {
namespace {

Result<std::string> require(const EnvironmentLookup& environment, std::string_view name) {
  auto value = environment(name);
  if (!value || value->empty())
    return fail(
        ErrorKind::Configuration, "environment variable " + std::string(name) + " is not set"
    );
  return *value;
}

Status check_position(const Rendezvous& rendezvous) {
  if (rendezvous.world_size % rendezvous.local_world_size != 0)
    return fail(
        ErrorKind::Configuration,
        "WORLD_SIZE " + std::to_string(rendezvous.world_size) +
            " is not a multiple of LOCAL_WORLD_SIZE " + std::to_string(rendezvous.local_world_size)
    );
  const int64_t expected =
      rendezvous.node_rank * rendezvous.local_world_size + rendezvous.local_rank;
  if (rendezvous.rank != expected)
    return fail(
        ErrorKind::Configuration,
        "RANK is " + std::to_string(rendezvous.rank) +
            ", but GROUP_RANK, LOCAL_WORLD_SIZE and LOCAL_RANK give " + std::to_string(expected)
    );
  return {};
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::string attempt_prefix(const Incarnation& incarnation) {
  return incarnation.job_uid + "/" + std::to_string(incarnation.attempt) + "/";
}

std::string round_prefix(const Incarnation& incarnation) {
  return attempt_prefix(incarnation) + std::to_string(incarnation.round) + "/";
}

std::string fresh_job_uid() {
  std::random_device device;
  return "local-" + std::to_string(device()) + std::to_string(device());
}

Result<int64_t> parse_integer(
    const EnvironmentLookup& environment,
    std::string_view name,
    int64_t least,
    int64_t most,
    std::optional<int64_t> fallback
) {
  const auto text = environment(name);
  if (!text || text->empty()) {
    if (fallback) return *fallback;
    return fail(
        ErrorKind::Configuration, "environment variable " + std::string(name) + " is not set"
    );
  }
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most)
    return fail(
        ErrorKind::Configuration,
        "environment variable " + std::string(name) + " must be a number from " +
            std::to_string(least) + " to " + std::to_string(most) + ", found '" + *text + "'"
    );
  return value;
}

Result<Rendezvous> parse_rendezvous(const EnvironmentLookup& environment) {
  namespace c = contract;
  constexpr int64_t kMost = 1'000'000;
  Rendezvous rendezvous;
  rendezvous.job = environment(c::kEnvJob).value_or("local");
  rendezvous.incarnation.job_uid = environment(c::kEnvJobUid).value_or("");
  if (!environment(c::kEnvRank)) return rendezvous;

  GNN_ASSIGN_OR_RETURN(
      rendezvous.world_size, parse_integer(environment, c::kEnvWorldSize, 1, kMost)
  );
  GNN_ASSIGN_OR_RETURN(
      rendezvous.rank, parse_integer(environment, c::kEnvRank, 0, rendezvous.world_size - 1)
  );
  GNN_ASSIGN_OR_RETURN(
      rendezvous.local_world_size,
      parse_integer(environment, c::kEnvLocalWorldSize, 1, rendezvous.world_size)
  );
  GNN_ASSIGN_OR_RETURN(
      rendezvous.local_rank,
      parse_integer(environment, c::kEnvLocalRank, 0, rendezvous.local_world_size - 1)
  );
  GNN_ASSIGN_OR_RETURN(
      rendezvous.node_rank,
      parse_integer(environment, c::kEnvGroupRank, 0, rendezvous.world_size - 1)
  );
  GNN_RETURN_IF_ERROR(check_position(rendezvous));
  GNN_ASSIGN_OR_RETURN(
      rendezvous.incarnation.attempt, parse_integer(environment, c::kEnvAttempt, 0, kMost, 0)
  );
  GNN_ASSIGN_OR_RETURN(
      rendezvous.incarnation.round, parse_integer(environment, c::kEnvRound, 0, kMost, 0)
  );
  if (rendezvous.world_size == 1) return rendezvous;

  GNN_ASSIGN_OR_RETURN(rendezvous.incarnation.job_uid, require(environment, c::kEnvJobUid));
  GNN_ASSIGN_OR_RETURN(rendezvous.store_host, require(environment, c::kEnvMasterAddr));
  GNN_ASSIGN_OR_RETURN(const int64_t port, parse_integer(environment, c::kEnvMasterPort, 1, 65535));
  rendezvous.store_port = static_cast<uint16_t>(port);
  GNN_ASSIGN_OR_RETURN(
      const int64_t timeout,
      parse_integer(
          environment, c::kEnvCollectiveTimeout, 1, kMaxTimeoutSeconds, c::kDefaultCollectiveSeconds
      )
  );
  rendezvous.collective_timeout = std::chrono::seconds(timeout);
  return rendezvous;
}

}  // namespace gnn::rendezvous
