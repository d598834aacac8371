// Our own: worker/rpc, on Asio.
#include "tests/bench/rpc/transport.h"
#include "worker/rpc/client.h"
#include "worker/rpc/server.h"

#include <array>
#include <future>
#include <semaphore>
#include <unistd.h>

namespace gnn::bench {
namespace {

rpc::Key bench_key() {
  return rpc::Key(std::array<uint8_t, rpc::Key::kBytes>{1, 2, 3});
}

template <class T>
T expect(Result<T> result) {
  if (!result) give_up(result.error().message);
  return *std::move(result);
}

class RpcConnection final : public Transport::Connection {
 public:
  RpcConnection(std::shared_ptr<rpc::EventLoop> loop, uint16_t port) {
    rpc::ClientOptions options;
    options.address = "127.0.0.1:" + std::to_string(port);
    client_ = expect(rpc::Client::connect(std::move(loop), std::move(options), bench_key()));
  }

  void stream(int64_t count, int in_flight, const std::atomic<bool>& stop) override {
    std::vector<std::vector<std::byte>> into(
        static_cast<size_t>(in_flight), std::vector<std::byte>(kLargeBytes)
    );
    std::vector<std::unique_ptr<std::binary_semaphore>> free;
    for (int i = 0; i < in_flight; ++i) free.push_back(std::make_unique<std::binary_semaphore>(1));
    for (int64_t sent = 0; sent < count && !stop; ++sent) {
      const auto slot = static_cast<size_t>(sent % in_flight);
      free[slot]->acquire();
      client_->call(
          {.request = {request_bytes(true)}, .into = {into[slot]}},
          [&place = into[slot], &done = *free[slot]](Result<rpc::Reply> reply) {
            if (expect(std::move(reply)).size != kLargeBytes) give_up("rpc: a short reply");
            check_reply(true, place);
            done.release();
          }
      );
    }
    for (const auto& each : free) each->acquire();
  }
  void call() override {
    std::vector<std::byte> into(kSmallBytes);
    std::promise<void> done;
    client_->call(
        {.request = {request_bytes(false)}, .into = {into}},
        [&](Result<rpc::Reply> reply) {
          expect(std::move(reply));
          done.set_value();
        }
    );
    done.get_future().wait();
    check_reply(false, into);
  }

 private:
  std::unique_ptr<rpc::Client> client_;
};

class RpcTransport final : public Transport {
 public:
  RpcTransport() : Transport("worker/rpc") {}

  [[noreturn]] void serve(const std::function<void(uint16_t)>& listening) override {
    rpc::ServerOptions options;
    options.address = {.host = "127.0.0.1", .port = 0};
    const auto server = expect(rpc::Server::start(
        loop(),
        std::move(options),
        bench_key(),
        [](const rpc::Peer&, uint16_t, std::span<const std::byte> request) {
          return Result<rpc::Answer>(rpc::Answer{.segments = {reply_bytes(request[0])}});
        }
    ));
    listening(server->port());
    while (true) ::pause();
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(uint16_t port) override {
    return std::make_unique<RpcConnection>(loop(), port);
  }

 private:
  // Made after fork().
  const std::shared_ptr<rpc::EventLoop>& loop() {
    if (loop_ == nullptr) loop_ = std::make_shared<rpc::EventLoop>();
    return loop_;
  }
  std::shared_ptr<rpc::EventLoop> loop_;
};

}  // namespace

std::unique_ptr<Transport> make_rpc() {
  return std::make_unique<RpcTransport>();
}

}  // namespace gnn::bench
