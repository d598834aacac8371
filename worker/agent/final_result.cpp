#include "worker/agent/final_result.h"

#include "common/contract.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace gnn::agent {
namespace {

// Why the node ended, in a sentence. It names the node only if the failure is another node's:
// attempt, node, rank, reason and exit code have fields of their own.
std::string explain(const AgentOptions& options, const NodeResult& result) {
  std::string text = result.message;
  if (!result.failure) return text;
  const auto& failure = *result.failure;
  if (text.find(failure.message) == std::string::npos)
    text += (text.empty() ? "" : "; ") + failure.message;
  if (failure.node == options.node) return text;
  return "node " + std::to_string(failure.node) + ": " + text;
}

}  // namespace

std::string encode_result(const AgentOptions& options, const NodeResult& result, size_t max_bytes) {
  api::ProgressReport report = make_report(options, result.round, result.numbers);
  report.exit_code = result.exit_code;
  report.reason = contract::exit_reason(static_cast<int>(result.exit_code));
  if (result.failure && result.failure->rank >= 0) report.rank = result.failure->rank;
  report.parameters_hash = result.numbers.parameters_hash;
  if (const auto& remote = result.numbers.remote) {
    report.remote_bytes_per_step = api::encode_decimal(remote->bytes_per_step);
    if (std::isfinite(remote->hit_rate))
      report.cache_hit_rate = api::encode_decimal(remote->hit_rate);
    if (remote->expected_hit_rate)
      report.expected_cache_hit_rate = api::encode_decimal(*remote->expected_hit_rate);
  }
  report.message = explain(options, result);
  if (result.exit_code == contract::kExitDone) return api::encode(report, max_bytes);
  if (result.failure) report.stderr_tail = result.failure->stderr_tail;
  return api::encode(report, max_bytes);
}

Status write_result(const AgentOptions& options, const NodeResult& result) {
  const std::string text = encode_result(options, result, contract::kMaxResultBytes);
  std::FILE* file = std::fopen(options.termination_log.c_str(), "we");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed)
    return fail(
        ErrorKind::Io, "cannot write " + options.termination_log + ": " + std::strerror(errno)
    );
  return {};
}

}  // namespace gnn::agent
