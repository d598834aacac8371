#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "worker/rpc/frame.h"
#include "worker/rpc/liveness.h"
#include "worker/rpc/stats.h"

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace gnn::rpc::internal {

/// Errors: Configuration if it is so short that RunningTime cannot tell a freeze from silence.
[[nodiscard]] Status check_peer_timeout(Duration peer_timeout);

/// A frame to send.
struct OutFrame {
  FrameHeader header;
  std::vector<std::span<const std::byte>> body;
  /// Keeps the body's memory until the frame is written, or the connection is closed.
  std::shared_ptr<const void> owner;
  /// Called when the kernel has all of it; not if the connection breaks before.
  std::function<void()> written;
};

/// A connection after its handshake: frames in both directions, heartbeats, and whether the peer
/// lives. What frames mean is for the derived classes, the server's and the client's.
/// Memory: what on_header() gives out, and one buffer of 16 KiB.
/// Threads: the event loop's.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Starts to read, and to watch the peer.
  void start();
  void send(OutFrame frame);
  /// Closes at once: nothing is read into or written from anybody's memory any more, and no hook is
  /// called.
  void close();
  [[nodiscard]] bool closed() const { return closed_; }

 protected:
  enum class Next { Body, Wait };

  struct Options {
    Duration peer_timeout;
    bool must_take = false;  ///< see Liveness::Traffic
  };
  Connection(
      asio::ip::tcp::socket socket, Options options, std::shared_ptr<Guarded<PeerStats>> stats
  );

  /// A frame other than a heartbeat begins. Body: its body goes to `into`, which has room for its
  /// length at most; on_filled() says where the rest goes. Wait: nothing is read, and the hook is called again by resume().
  /// An error breaks the connection, and is what on_end() gets.
  [[nodiscard]] virtual Result<Next> on_header(
      const FrameHeader& header, std::vector<std::span<std::byte>>& into
  ) = 0;
  /// All that was given for the frame's body is filled, and `left` bytes are still to come: `into` gets
  /// room for at most these, and for one at least. An error breaks the connection.
  [[nodiscard]] virtual Status on_filled(
      int64_t /*left*/, std::vector<std::span<std::byte>>& /*into*/
  ) {
    return fail(ErrorKind::Internal, "no place for the rest of a frame");
  }
  /// The body of the last frame is there.
  virtual void on_body() = 0;
  /// A frame's last byte, or several frames', is in the kernel's buffer.
  virtual void on_written() {}
  /// The connection is closed. Ended: the peer has closed it between two frames. Lost: anything else.
  enum class End { Ended, Lost };
  virtual void on_end(End end, const Error& error) = 0;

  /// Reads on after Wait.
  void resume();
  [[nodiscard]] bool waits() const { return waits_; }
  [[nodiscard]] bool has_unsent() const { return !out_.empty(); }
  [[nodiscard]] Guarded<PeerStats>& stats() { return *stats_; }
  [[nodiscard]] static MonotonicPoint now() { return std::chrono::steady_clock::now(); }

 private:
  // A frame of which some bytes are left to write, from the header on.
  struct Outgoing {
    OutFrame frame;
    std::array<std::byte, FrameHeader::kBytes> header;
    size_t part = 0;    // the next one: 0 is the header
    size_t offset = 0;  // written of that part

    [[nodiscard]] size_t num_parts() const { return frame.body.size() + 1; }
    [[nodiscard]] std::span<const std::byte> bytes(size_t index) const {
      return index == 0 ? std::span<const std::byte>(header) : frame.body[index - 1];
    }
  };

  void read();
  // Reading goes on when as many bytes have come, or the peer has closed.
  void await_bytes(size_t bytes);
  void on_read(std::error_code error, size_t bytes);
  // Takes what the buffer holds. False if reading has to stop.
  bool parse();
  bool parse_header();
  // Where the bytes of the body go that have no place yet. False if the connection broke.
  bool place_rest();
  void fill_body_from_buffer();
  void skip_filled();

  void write();
  void on_wrote(std::error_code error, size_t bytes);
  void consume_written(size_t bytes);

  void watch();
  void look();
  void break_off(std::error_code error);
  void break_off(const Error& error);
  void end(End end, const Error& error);

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  Options options_;
  Liveness liveness_;
  std::shared_ptr<Guarded<PeerStats>> stats_;
  bool closed_ = false;

  std::array<std::byte, size_t{16} << 10> buffer_;
  size_t begin_ = 0;  // [begin_, end_) of the buffer is not parsed yet
  size_t end_ = 0;
  bool in_body_ = false;
  std::vector<std::span<std::byte>> into_;
  size_t next_into_ = 0;   // those before it are full; it is what is left
  uint64_t unplaced_ = 0;  // bytes of the body for which into_ has no room
  bool waits_ = false;
  bool reading_ = false;
  size_t awaited_ = 1;  // what await_bytes() was given last
  std::vector<asio::mutable_buffer> read_buffers_;

  std::deque<Outgoing> out_;
  bool writing_ = false;
  std::vector<asio::const_buffer> write_buffers_;
};

}  // namespace gnn::rpc::internal
