#include "common/contract.h"

#include <charconv>

namespace gnn::contract {

std::string pod_name(std::string_view job, int64_t attempt, int64_t node) {
  return std::string(job) + "-" + std::to_string(attempt) + "-" + std::to_string(node);
}

std::optional<PodNumbers> numbers_of_pod(std::string_view job, std::string_view pod) {
  const size_t dash = pod.rfind('-');
  if (dash == std::string_view::npos || dash <= job.size()) return std::nullopt;
  PodNumbers found;
  const auto read = [](std::string_view text, int64_t& into) {
    return std::from_chars(text.data(), text.data() + text.size(), into).ec == std::errc();
  };
  const std::string_view attempt = pod.substr(job.size() + 1, dash - job.size() - 1);
  if (!read(attempt, found.attempt) || !read(pod.substr(dash + 1), found.node)) return std::nullopt;
  // Something else is in it, or a number is written in another way.
  if (found.attempt < 1 || found.node < 0 || pod != pod_name(job, found.attempt, found.node))
    return std::nullopt;
  return found;
}

std::string pod_hostname(std::string_view job, int64_t node) {
  return std::string(job) + "-" + std::to_string(node);
}

std::string child_name(std::string_view job) {
  return std::string(job) + "-gnn";
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
