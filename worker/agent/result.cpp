#include "worker/agent/result.h"

#include "common/contract.h"
#include "worker/agent/report_fields.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gnn::agent {
namespace {

// What people read: why, who, and the last lines that the culprit wrote.
std::string explain(const NodeResult& result) {
  std::string text = result.message;
  if (!result.failure) return text;
  const auto& failure = *result.failure;
  if (text.find(failure.message) == std::string::npos)
    text += (text.empty() ? "" : "; ") + failure.message;
  text += " [node " + std::to_string(failure.node) +
          (failure.rank >= 0 ? ", rank " + std::to_string(failure.rank) : "") + ", " +
          failure.reason + "]";
  if (!failure.stderr_tail.empty()) text += "\n" + failure.stderr_tail;
  return text;
}

}  // namespace

std::string encode_result(const AgentOptions& options, const NodeResult& result, size_t most) {
  nlohmann::ordered_json j = begin_report(options, result.round);
  j["exitCode"] = result.exit_code;
  j["reason"] = contract::exit_reason(static_cast<int>(result.exit_code));
  if (result.failure && result.failure->rank >= 0) j["rank"] = result.failure->rank;
  add_numbers(j, result.numbers);
  if (!result.numbers.parameters_hash.empty())
    j["parametersHash"] = printable(result.numbers.parameters_hash, 16);
  const std::string text = printable(explain(result), size_t{64} * 1024);
  if (result.exit_code == contract::kExitDone || text.empty()) return j.dump();
  j["message"] = text;
  // A control character or quote takes two bytes in JSON, so cut by what came out, not by length.
  for (size_t length = text.size(); j.dump().size() > most && length > 0;) {
    const size_t over = j.dump().size() - most;
    length -= std::min(length, std::max<size_t>(over / 2, 1));
    j["message"] = text.substr(0, length);
    j["truncated"] = true;
  }
  return j.dump();
}

Status write_result(const AgentOptions& options, const NodeResult& result) {
  const std::string text = encode_result(options, result, contract::kMaxResultBytes);
  std::FILE* file = std::fopen(options.termination_log.c_str(), "we");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed)
    return fail(
        ErrorKind::Io,
        "can't write the result to " + options.termination_log + ": " + std::strerror(errno)
    );
  return {};
}

}  // namespace gnn::agent
