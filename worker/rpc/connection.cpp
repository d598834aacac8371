#include "worker/rpc/connection.h"

#include <asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

namespace gnn::rpc::internal {
namespace {

// A turn of one connection: others of the loop wait no longer than this takes to copy.
constexpr size_t kMostBytesPerTurn = size_t{1} << 20;
// A body that misses as many bytes is read when more than the first have come: whoever sends pays for
// each time that the reader has to be woken.
constexpr size_t kWorthWaiting = size_t{64} << 10;
constexpr size_t kMostAwaited = size_t{256} << 10;
// What Asio hands to one call of the system.
constexpr size_t kMostBuffers = 64;

std::string seconds_text(Duration duration) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return milliseconds % 1000 == 0 ? std::to_string(milliseconds / 1000) + " s"
                                  : std::to_string(milliseconds) + " ms";
}

uint64_t bytes_in(const std::vector<std::span<std::byte>>& parts) {
  uint64_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

Status check_peer_timeout(Duration peer_timeout) {
  if (peer_timeout >= 2 * RunningTime::kLongestStep) return {};
  return fail(
      ErrorKind::Configuration,
      "the time-out of peers is " + seconds_text(peer_timeout) + ", expected at least " +
          seconds_text(2 * RunningTime::kLongestStep)
  );
}

Connection::Connection(
    asio::ip::tcp::socket socket, Options options, std::shared_ptr<Guarded<PeerStats>> stats
)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      options_(options),
      liveness_(now(), options.peer_timeout),
      stats_(std::move(stats)) {
  read_buffers_.reserve(kMostBuffers);
  write_buffers_.reserve(kMostBuffers);
}

void Connection::start() {
  watch();
  read();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  std::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  timer_.cancel();
  out_.clear();
  into_.clear();
}

// ---- Reading

void Connection::read() {
  if (closed_ || reading_ || waits_) return;
  read_buffers_.clear();
  size_t room = kMostBytesPerTurn;
  size_t of_body = 0;
  if (in_body_) {
    for (size_t i = next_into_; i < into_.size() && room > 0; ++i) {
      if (read_buffers_.size() + 1 == kMostBuffers) room = 0;
      const size_t bytes = std::min(room, into_[i].size());
      if (bytes > 0) read_buffers_.emplace_back(into_[i].data(), bytes);
      of_body += bytes;
      room -= bytes;
    }
  }
  // Behind a whole body (of another, no room is left), the start of what follows it: one call of the
  // system less.
  if (room > 0) read_buffers_.emplace_back(buffer_.data() + end_, buffer_.size() - end_);
  if (awaited_ > 1 || of_body >= kWorthWaiting)
    await_bytes(std::clamp(of_body, size_t{1}, kMostAwaited));
  reading_ = true;
  // A span: the operation keeps a copy of its argument.
  socket_.async_read_some(
      std::span<const asio::mutable_buffer>(read_buffers_),
      [self = shared_from_this()](std::error_code error, size_t bytes) {
        self->reading_ = false;
        self->on_read(error, bytes);
      }
  );
}

void Connection::await_bytes(size_t bytes) {
  if (bytes == awaited_) return;
  awaited_ = bytes;
  std::error_code ignored;
  socket_.set_option(asio::socket_base::receive_low_watermark(static_cast<int>(bytes)), ignored);
}

void Connection::on_read(std::error_code error, size_t bytes) {
  if (closed_) return;
  if (error) return break_off(error);
  liveness_.heard();
  stats_->lock()->bytes_received += static_cast<int64_t>(bytes);
  while (in_body_ && bytes > 0 && next_into_ < into_.size()) {
    auto& part = into_[next_into_];
    const size_t taken = std::min(bytes, part.size());
    part = part.subspan(taken);
    bytes -= taken;
    skip_filled();
  }
  end_ += bytes;
  if (parse()) read();
}

void Connection::resume() {
  if (closed_ || !waits_) return;
  waits_ = false;
  if (parse()) read();
}

bool Connection::parse() {
  while (!closed_) {
    if (!in_body_ && !parse_header()) break;
    if (in_body_) {
      fill_body_from_buffer();
      if (next_into_ < into_.size()) break;
      if (unplaced_ > 0) {
        if (!place_rest()) break;
        continue;
      }
      in_body_ = false;
      on_body();
    }
  }
  if (closed_ || waits_) return false;
  // Room for a header, or for what follows a body.
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return true;
}

// False if there is none yet, or reading has to stop.
bool Connection::parse_header() {
  if (end_ - begin_ < FrameHeader::kBytes) return false;
  const auto header =
      decode_header(std::span(buffer_).subspan(begin_).first<FrameHeader::kBytes>());
  if (!header) {
    break_off(header.error());
    return false;
  }
  if (header->type == FrameType::Heartbeat) {
    if (header->length != 0) {
      break_off(Error{.kind = ErrorKind::PeerLost, .message = "sent a heartbeat with a body"});
      return false;
    }
    begin_ += FrameHeader::kBytes;
    return true;
  }
  into_.clear();
  const auto next = on_header(*header, into_);
  if (closed_) return false;
  if (!next) {
    break_off(next.error());
    return false;
  }
  if (*next == Next::Wait) {
    waits_ = true;
    return false;
  }
  begin_ += FrameHeader::kBytes;
  in_body_ = true;
  next_into_ = 0;
  unplaced_ = header->length - bytes_in(into_);
  skip_filled();
  return true;
}

bool Connection::place_rest() {
  into_.clear();
  next_into_ = 0;
  const auto status = on_filled(static_cast<int64_t>(unplaced_), into_);
  if (closed_) return false;
  const uint64_t placed = bytes_in(into_);
  if (!status || placed == 0 || placed > unplaced_) {
    into_.clear();
    break_off(
        status ? Error{.kind = ErrorKind::Internal, .message = "no room for the rest of a frame"}
               : status.error()
    );
    return false;
  }
  unplaced_ -= placed;
  skip_filled();
  return true;
}

void Connection::fill_body_from_buffer() {
  while (begin_ < end_ && next_into_ < into_.size()) {
    auto& part = into_[next_into_];
    const size_t bytes = std::min(part.size(), end_ - begin_);
    std::memcpy(part.data(), buffer_.data() + begin_, bytes);
    part = part.subspan(bytes);
    begin_ += bytes;
    skip_filled();
  }
}

void Connection::skip_filled() {
  while (next_into_ < into_.size() && into_[next_into_].empty()) ++next_into_;
}

// ---- Writing

void Connection::send(OutFrame frame) {
  if (closed_) return;
  uint64_t length = 0;
  for (const auto& part : frame.body) length += part.size();
  frame.header.length = length;
  if (out_.empty()) liveness_.sent();
  const auto header = encode_header(frame.header);
  out_.push_back(Outgoing{.frame = std::move(frame), .header = header});
  write();
}

void Connection::write() {
  if (closed_ || writing_ || out_.empty()) return;
  write_buffers_.clear();
  size_t room = kMostBytesPerTurn;
  for (const Outgoing& outgoing : out_) {
    size_t offset = outgoing.offset;
    for (size_t part = outgoing.part; part < outgoing.num_parts(); ++part, offset = 0) {
      if (room == 0 || write_buffers_.size() == kMostBuffers) break;
      const auto bytes = outgoing.bytes(part).subspan(offset);
      const size_t taken = std::min(room, bytes.size());
      if (taken > 0) write_buffers_.emplace_back(bytes.data(), taken);
      room -= taken;
    }
    if (room == 0 || write_buffers_.size() == kMostBuffers) break;
  }
  writing_ = true;
  socket_.async_write_some(
      std::span<const asio::const_buffer>(write_buffers_),
      [self = shared_from_this()](std::error_code error, size_t bytes) {
        self->writing_ = false;
        self->on_wrote(error, bytes);
      }
  );
}

void Connection::on_wrote(std::error_code error, size_t bytes) {
  if (closed_) return;
  if (error) return break_off(error);
  liveness_.sent();
  stats_->lock()->bytes_sent += static_cast<int64_t>(bytes);
  consume_written(bytes);
  write();
}

void Connection::consume_written(size_t bytes) {
  std::vector<Outgoing> done;
  while (!out_.empty()) {
    Outgoing& first = out_.front();
    while (first.part < first.num_parts()) {
      const size_t left = first.bytes(first.part).size() - first.offset;
      const size_t taken = std::min(left, bytes);
      bytes -= taken;
      first.offset += taken;
      if (taken < left) break;
      ++first.part;
      first.offset = 0;
    }
    if (first.part < first.num_parts()) break;
    done.push_back(std::move(first));
    out_.pop_front();
  }
  for (const Outgoing& each : done)
    if (each.frame.written) each.frame.written();
  if (done.empty()) return;
  done.clear();  // on_written() sees what is free again
  on_written();
}

// ---- Watching

void Connection::watch() {
  timer_.expires_after(Liveness::interval(options_.peer_timeout));
  timer_.async_wait([self = shared_from_this()](std::error_code) { self->look(); });
}

void Connection::look() {
  if (closed_) return;
  const Liveness::Traffic traffic{
      .reads = !waits_, .writes = !out_.empty(), .must_take = options_.must_take
  };
  const auto lost = [this](const char* what) {
    break_off(
        Error{.kind = ErrorKind::PeerLost, .message = what + seconds_text(options_.peer_timeout)}
    );
  };
  switch (liveness_.look(now(), traffic)) {
    case Liveness::Verdict::Well:
      break;
    case Liveness::Verdict::Heartbeat:
      send(OutFrame{});
      break;
    case Liveness::Verdict::Silent:
      return lost("has sent nothing for ");
    case Liveness::Verdict::TakesNothing:
      return lost("has taken no bytes for ");
  }
  await_bytes(1);  // the few bytes of a slow peer show that it lives
  watch();
}

void Connection::break_off(std::error_code error) {
  const auto lost = [](std::string message) {
    return Error{.kind = ErrorKind::PeerLost, .message = std::move(message)};
  };
  if (error != asio::error::eof) return break_off(lost("the connection broke: " + error.message()));
  if (in_body_ || end_ > begin_)
    return break_off(lost("closed the connection in the middle of a frame"));
  end(End::Ended, lost("closed the connection"));
}

void Connection::break_off(const Error& error) {
  end(End::Lost, error);
}

void Connection::end(End end, const Error& error) {
  close();
  on_end(end, error);
}

}  // namespace gnn::rpc::internal
