// ZeroMQ: a ROUTER socket answers DEALER sockets. Its replies are sent without a copy, and copied once when received.
#include "tests/bench/rpc/transport.h"

#include <algorithm>
#include <zmq.h>

namespace gnn::bench {
namespace {

class ZeromqConnection final : public Transport::Connection {
 public:
  ZeromqConnection(void* context, uint16_t port) : socket_(::zmq_socket(context, ZMQ_DEALER)) {
    const std::string address = "tcp://127.0.0.1:" + std::to_string(port);
    if (::zmq_connect(socket_, address.c_str()) != 0) give_up("ZeroMQ: cannot connect");
  }
  ~ZeromqConnection() override { ::zmq_close(socket_); }

  void stream(int64_t count, int in_flight, const std::atomic<bool>& stop) override {
    std::vector<std::byte> into(kLargeBytes);
    int64_t sent = 0;
    for (int64_t received = 0; received < count; ++received) {
      for (; sent < std::min(count, received + in_flight) && !stop; ++sent)
        send(request_bytes(true));
      if (received == sent) return;
      receive(into);
      check_reply(true, into);
    }
  }
  void call() override {
    std::vector<std::byte> into(kSmallBytes);
    send(request_bytes(false));
    receive(into);
    check_reply(false, into);
  }

 private:
  void send(std::span<const std::byte> bytes) {
    if (::zmq_send(socket_, bytes.data(), bytes.size(), 0) < 0) give_up("ZeroMQ: cannot send");
  }
  void receive(std::span<std::byte> into) {
    const int size = ::zmq_recv(socket_, into.data(), into.size(), 0);
    if (size != static_cast<int>(into.size())) give_up("ZeroMQ: a short reply");
  }

  void* socket_;
};

class ZeromqTransport final : public Transport {
 public:
  ZeromqTransport() : Transport("ZeroMQ") {}

  [[noreturn]] void serve(const std::function<void(uint16_t)>& listening) override {
    void* socket = ::zmq_socket(context(), ZMQ_ROUTER);
    if (::zmq_bind(socket, "tcp://127.0.0.1:*") != 0) give_up("ZeroMQ: cannot listen");
    std::string address(128, '\0');
    size_t size = address.size();
    ::zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address.data(), &size);
    address.resize(size - 1);
    listening(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    std::vector<std::byte> request(kSmallBytes);
    while (true) {
      zmq_msg_t client;
      ::zmq_msg_init(&client);
      ::zmq_msg_recv(&client, socket, 0);
      ::zmq_recv(socket, request.data(), request.size(), 0);
      const auto reply = reply_bytes(request[0]);
      zmq_msg_t message;
      ::zmq_msg_init_data(
          &message, const_cast<std::byte*>(reply.data()), reply.size(), [](void*, void*) {}, nullptr
      );
      ::zmq_msg_send(&client, socket, ZMQ_SNDMORE);
      ::zmq_msg_send(&message, socket, 0);
    }
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(uint16_t port) override {
    return std::make_unique<ZeromqConnection>(context(), port);
  }

 private:
  // Made after fork(), and left to the process's end.
  void* context() {
    if (context_ == nullptr) context_ = ::zmq_ctx_new();
    return context_;
  }
  void* context_ = nullptr;
};

}  // namespace

std::unique_ptr<Transport> make_zeromq() {
  return std::make_unique<ZeromqTransport>();
}

}  // namespace gnn::bench
