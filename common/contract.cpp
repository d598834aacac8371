#include "common/contract.h"

#include <charconv>

namespace gnn::contract {
namespace {

// Before the number of a pod that replaced another of its node.
constexpr std::string_view kRestartMark = "-r";

// What follows the last dash, from 1.
std::optional<int64_t> number_at_end(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  const std::string_view digits = name.substr(dash + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number < 1 ? std::nullopt : std::optional(number);
}

}  // namespace

std::string pod_name(std::string_view job, int64_t attempt, int64_t node, int64_t restart) {
  const std::string name =
      std::string(job) + "-" + std::to_string(attempt) + "-" + std::to_string(node);
  return restart == 0 ? name : name + std::string(kRestartMark) + std::to_string(restart);
}

std::optional<PodNumbers> numbers_of_pod(std::string_view job, std::string_view pod) {
  if (pod.size() <= job.size() || !pod.starts_with(job)) return std::nullopt;
  PodNumbers found;
  std::string_view rest = pod.substr(job.size());
  const auto read = [&rest](std::string_view mark, int64_t& number) {
    if (!rest.starts_with(mark)) return false;
    rest.remove_prefix(mark.size());
    const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    rest.remove_prefix(static_cast<size_t>(end.ptr - rest.data()));
    return end.ec == std::errc();
  };
  if (!read("-", found.attempt) || !read("-", found.node)) return std::nullopt;
  if (!rest.empty() && !read(kRestartMark, found.restart)) return std::nullopt;
  // More is in it, or a number is written in another way.
  if (found.attempt < 1 || found.node < 0 || found.restart < 0 ||
      pod != pod_name(job, found.attempt, found.node, found.restart)) {
    return std::nullopt;
  }
  return found;
}

std::string group_name(std::string_view job, int64_t attempt) {
  return std::string(job) + "-" + std::to_string(attempt);
}

std::string prepare_pod_name(std::string_view job, int64_t attempt) {
  return prepare_hostname(job) + "-" + std::to_string(attempt);
}

std::optional<int64_t> attempt_of_group(std::string_view job, std::string_view group) {
  const std::optional<int64_t> attempt = number_at_end(group);
  if (!attempt || group != group_name(job, *attempt)) return std::nullopt;
  return attempt;
}

std::optional<int64_t> attempt_of_prepare_pod(std::string_view job, std::string_view pod) {
  const std::optional<int64_t> attempt = number_at_end(pod);
  if (!attempt || pod != prepare_pod_name(job, *attempt)) return std::nullopt;
  return attempt;
}

std::string prepare_hostname(std::string_view job) {
  return std::string(job) + "-prepare";
}

std::string server_pod_name(std::string_view job, int64_t server, int64_t restart) {
  return server_hostname(job, server) + "-" + std::to_string(restart);
}

std::optional<ServerPodNumbers> numbers_of_server_pod(std::string_view job, std::string_view pod) {
  constexpr std::string_view kMark = "-s";
  if (!pod.starts_with(job) || !pod.substr(job.size()).starts_with(kMark)) return std::nullopt;
  ServerPodNumbers found;
  const char* const end = pod.data() + pod.size();
  const auto server = std::from_chars(pod.data() + job.size() + kMark.size(), end, found.server);
  if (server.ec != std::errc() || server.ptr == end) return std::nullopt;
  std::from_chars(server.ptr + 1, end, found.restart);
  // More is in it, or a number is written in another way.
  if (found.server < 0 || found.restart < 0 ||
      pod != server_pod_name(job, found.server, found.restart)) {
    return std::nullopt;
  }
  return found;
}

std::string server_hostname(std::string_view job, int64_t server) {
  return std::string(job) + "-s" + std::to_string(server);
}

std::string pod_hostname(std::string_view job, int64_t node) {
  return std::string(job) + "-" + std::to_string(node);
}

std::string child_name(std::string_view job) {
  return std::string(job) + "-gnn";
}

std::string data_key_name(std::string_view job, std::string_view suffix) {
  return std::string(job) + "-key-" + std::string(suffix);
}

std::optional<std::string> suffix_of_data_key(std::string_view job, std::string_view secret) {
  constexpr size_t kDigits = 32;
  if (secret.size() < kDigits) return std::nullopt;
  const std::string_view suffix = secret.substr(secret.size() - kDigits);
  if (suffix.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  if (secret != data_key_name(job, suffix)) return std::nullopt;
  return std::string(suffix);
}

std::string master_address(std::string_view job) {
  return pod_hostname(job, 0) + "." + child_name(job);
}

int exit_code_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Configuration:
      return kExitConfiguration;
    case ErrorKind::Data:
      return kExitData;
    case ErrorKind::PeerLost:
      return kExitPeerLost;
    case ErrorKind::Preempted:
      return kExitPreempted;
    case ErrorKind::OutOfMemory:
      return kExitOutOfMemory;
    case ErrorKind::Io:
    case ErrorKind::Network:
    case ErrorKind::Timeout:
    case ErrorKind::Cancelled:
    case ErrorKind::NotFound:
    case ErrorKind::Conflict:
    case ErrorKind::Internal:
      return kExitOther;
  }
  return kExitOther;
}

std::string_view exit_reason(int exit_code) {
  switch (exit_code) {
    case kExitDone:
      return "Done";
    case kExitConfiguration:
      return "Configuration";
    case kExitData:
      return "Data";
    case kExitPeerLost:
      return "PeerLost";
    case kExitPreempted:
      return "Preempted";
    case kExitOutOfMemory:
      return "OutOfMemory";
    default:
      return "Error";
  }
}

}  // namespace gnn::contract
