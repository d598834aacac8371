#include "controller/app/lease.h"

#include <array>
#include <unistd.h>
#include <utility>

namespace gnn::app {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

std::string lease_identity(const Options& options, const std::string& suffix) {
  return (options.identity.empty() ? host_name() : options.identity) + "_" + suffix;
}

runtime::LeaderOptions lease_options(
    const Options& options, const Connection& connection, std::string identity
) {
  const std::string& name_space = options.lease_namespace;
  runtime::LeaderOptions lease;
  lease.lease = {
      name_space.empty() ? connection.config.namespace_ : name_space, options.lease_name
  };
  lease.identity = std::move(identity);
  lease.lease_duration = options.lease_duration;
  lease.renew_deadline = options.renew_deadline;
  lease.retry_period = options.retry_period;
  return lease;
}

}  // namespace gnn::app
