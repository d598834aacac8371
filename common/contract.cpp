#include "common/contract.h"

namespace gnn::contract {

std::string pod_name(std::string_view job, int64_t attempt, int64_t node) {
  return std::string(job) + "-" + std::to_string(attempt) + "-" + std::to_string(node);
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
