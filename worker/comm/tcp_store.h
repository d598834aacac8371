#pragma once

#include "common/result.h"
#include "worker/rendezvous/store.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gnn::comm {

/// A c10d store, opaque outside this folder.
struct C10dStoreHandle;

struct TcpStoreOptions {
  std::string host;
  uint16_t port = 0;
  /// Longest wait for the connection: the host may start later than this process.
  std::chrono::milliseconds connect_timeout{60'000};
  /// Longest wait for the answer of one call; a store that is silent for longer is lost.
  std::chrono::milliseconds call_timeout{10'000};
};

/// A client, and on node 0 also the host, of a c10d::TCPStore. c10d's own client waits forever for
/// a host that is stopped or unreachable; here options of its socket bound every call.
/// Threads: safe; calls wait for each other.
class TcpStore final : public rendezvous::Store {
 public:
  /// Serves on options.port, or on `listening_socket`, which it takes over: then no port has to be
  /// fixed.
  [[nodiscard]] static Result<std::shared_ptr<TcpStore>> host(
      const TcpStoreOptions& options, std::optional<int> listening_socket = std::nullopt
  );
  [[nodiscard]] static Result<std::shared_ptr<TcpStore>> join(const TcpStoreOptions& options);
  ~TcpStore() override;

  [[nodiscard]] Status set(const std::string& key, const std::string& value) override;
  [[nodiscard]] Result<std::vector<std::optional<std::string>>> get(
      const std::vector<std::string>& keys
  ) override;
  [[nodiscard]] Result<int64_t> add(const std::string& key, int64_t by) override;

  [[nodiscard]] uint16_t port() const;
  /// The c10d store itself, for process groups.
  [[nodiscard]] std::shared_ptr<C10dStoreHandle> handle() const;

 private:
  struct Impl;
  explicit TcpStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A c10d store inside one process, for ranks that run as threads (tests).
[[nodiscard]] std::shared_ptr<C10dStoreHandle> in_process_c10d_store();

}  // namespace gnn::comm
