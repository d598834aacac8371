#pragma once

#include "common/clock.h"
#include "common/contract.h"
#include "common/result.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/identity.h"
#include "worker/rpc/key.h"
#include "worker/rpc/stats.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gnn::rpc {

/// Says where the next bytes of a reply go: at most `left`, which are still to come, and at least one.
/// Called when the reply begins, and whenever all that it gave before is filled, until nothing is left.
/// An error, which the call gets, breaks the connection.
/// Threads: the event loop's.
using Place = std::function<Result<std::vector<std::span<std::byte>>>(int64_t left)>;

/// A request, and where its reply goes. All memory that it names stays valid until the callback.
struct Call {
  uint16_t method = 0;
  /// The request's body: the segments one after the other, written without a copy.
  std::vector<std::span<const std::byte>> request{};
  /// Where the reply's first bytes are received, in this order.
  std::vector<std::span<std::byte>> into{};
  /// How many bytes may follow in Reply::rest. A longer reply breaks the connection.
  int64_t most_rest = 0;
  /// Where all of the reply goes if its own first bytes tell: instead of `into` and Reply::rest. Then
  /// most_rest bounds the whole reply.
  Place place{};
};

struct Reply {
  /// Bytes of the whole body; less than Call::into has if the server sent less.
  int64_t size = 0;
  /// What came after Call::into was full.
  std::vector<std::byte> rest{};
};

/// Called once for each call, by the thread of the event loop: it must be brief, must not wait for
/// other calls, and must not destroy the client. It may call again.
using Callback = std::function<void(Result<Reply>)>;

struct ClientOptions {
  std::string address;     ///< "HOST:PORT" of the server
  Role role = Role::Rank;  ///< the server's: a rank or a sampling server
  int64_t node = 0;        ///< the server's
  Identity identity;       ///< of this process
  /// A server whose silence lasts this long is lost. A call takes as long as it takes while the
  /// server is alive.
  Duration peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
};

/// A connection that is being made. Its end gives up, waits for a callback under way, and lets none
/// come later; never on the thread of the event loop.
class Connecting {
 public:
  virtual ~Connecting() = default;
};

/// A connection to the server of another node, with any number of calls under way. It is made once:
/// when it breaks, all calls and every later one fail.
/// Threads: safe from any thread.
class Client {
 public:
  /// Connects, and proves to the server that this process holds the key; the server proves the same.
  /// Waits at most for peer_timeout.
  /// Errors: PeerLost if nobody answers, or the address belongs to another job, node, attempt or
  /// round; Configuration if the two have different keys or versions, or options are out of their
  /// range. Each names node and address.
  [[nodiscard]] static Result<std::unique_ptr<Client>> connect(
      std::shared_ptr<EventLoop> loop, const ClientOptions& options, const Key& key
  );
  /// The same without waiting; `done` is called once, by the thread of the event loop, and must not
  /// destroy the client there.
  /// Errors at once: Configuration if options are out of their range; all others by `done`.
  [[nodiscard]] static Result<std::unique_ptr<Connecting>> begin_connect(
      std::shared_ptr<EventLoop> loop,
      const ClientOptions& options,
      const Key& key,
      std::function<void(Result<std::unique_ptr<Client>>)> done
  );
  /// Closes the connection; calls under way fail with Cancelled before it returns. Never on the
  /// thread of the event loop.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Sends a request. The callback gets the reply, or:
  /// PeerLost, with the peer's node and address, at once when the connection breaks, the server falls
  /// silent or sends what is against the protocol; the handler's own error, with the peer's name
  /// before it.
  void call(Call call, Callback callback);

  /// Whether the connection has broken: true before the first call fails for it.
  [[nodiscard]] bool lost() const;
  [[nodiscard]] PeerStats stats() const;

 private:
  class State;
  class Attempt;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gnn::rpc
