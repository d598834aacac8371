#include "controller/app/progress_client.h"

#include "common/contract.h"
#include "common/http/client.h"

#include <utility>

namespace gnn::app {

Result<std::string> fetch_from_pod(
    const std::string& address,
    uint16_t port,
    const std::string& path,
    Duration timeout,
    int64_t max_bytes
) {
  GNN_ASSIGN_OR_RETURN(
      http::Reply reply,
      http::send(
          {.host = address, .port = port},
          {.target = path},
          {.time = timeout, .body_bytes = max_bytes, .addresses_only = true}
      )
  );
  if (reply.status != 200) return fail(ErrorKind::Data, "expected status 200");
  return std::move(reply.body);
}

Result<std::string> fetch_progress(const std::string& address) {
  return fetch_from_pod(
      address,
      contract::kHttpPort,
      std::string(contract::kProgressPath),
      std::chrono::seconds(1),
      contract::kMaxProgressBytes
  );
}

}  // namespace gnn::app
