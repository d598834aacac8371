#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::bench {

/// Sizes of the two calls that are measured.
constexpr size_t kSmallBytes = 1024;
constexpr size_t kLargeBytes = 1'000'000;
/// Large calls under way at once where the rate is measured.
constexpr int kInFlight = 4;

/// A library that carries requests and replies, measured from both ends. A request of kSmallBytes is
/// answered with as many bytes, or with kLargeBytes if its first byte is 1.
class Transport {
 public:
  explicit Transport(std::string name) : name_(std::move(name)) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  /// Serves on a free port of the loopback, which `listening` is told, until the process is killed.
  [[noreturn]] virtual void serve(const std::function<void(uint16_t port)>& listening) = 0;

  /// A connection to serve(), for one thread.
  class Connection {
   public:
    virtual ~Connection() = default;
    /// Makes large calls, `in_flight` at a time, until `count` are answered or `stop` is set. Each
    /// reply ends in memory of this process that the transport does not own.
    virtual void stream(int64_t count, int in_flight, const std::atomic<bool>& stop) = 0;
    /// One small call.
    virtual void call() = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<Connection> connect(uint16_t port) = 0;

 private:
  std::string name_;
};

/// What servers answer with: kLargeBytes that are not all the same.
[[nodiscard]] std::span<const std::byte> reply_bytes(std::byte kind);
/// A request for a large or a small reply.
[[nodiscard]] const std::vector<std::byte>& request_bytes(bool large);
/// Ends the program if a reply is not the one that was asked for.
void check_reply(bool large, std::span<const std::byte> reply);
[[noreturn]] void give_up(const std::string& why);

[[nodiscard]] std::unique_ptr<Transport> make_writev();
[[nodiscard]] std::unique_ptr<Transport> make_rpc();
/// These where the library is installed.
[[nodiscard]] std::unique_ptr<Transport> make_zeromq();
[[nodiscard]] std::unique_ptr<Transport> make_grpc();

}  // namespace gnn::bench
