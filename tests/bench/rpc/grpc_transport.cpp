// gRPC: unary calls of raw bytes by its callback interface, without protocol buffers. Replies are sent from where they are,
// and copied once out of the slices they are received in.
#include "tests/bench/rpc/transport.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <semaphore>
#include <unistd.h>

namespace gnn::bench {
namespace {

grpc::ByteBuffer buffer_of(std::span<const std::byte> bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
  return {&slice, 1};
}

size_t copy_out(const grpc::ByteBuffer& buffer, std::span<std::byte> into) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) give_up("gRPC: a reply cannot be read");
  size_t copied = 0;
  for (const grpc::Slice& slice : slices) {
    const size_t bytes = std::min(slice.size(), into.size() - copied);
    std::memcpy(into.data() + copied, slice.begin(), bytes);
    copied += bytes;
  }
  return copied;
}

class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  Reactor() { StartRead(&request_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    std::byte kind{};
    copy_out(request_, {&kind, 1});
    reply_ = buffer_of(reply_bytes(kind));
    StartWriteAndFinish(&reply_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

class Service final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor();
  }
};

class GrpcConnection final : public Transport::Connection {
 public:
  explicit GrpcConnection(uint16_t port) : stub_(channel_to(port)) {}

  void stream(int64_t count, int in_flight, const std::atomic<bool>& stop) override {
    std::vector<std::vector<std::byte>> into(
        static_cast<size_t>(in_flight), std::vector<std::byte>(kLargeBytes)
    );
    std::vector<std::unique_ptr<std::binary_semaphore>> free;
    for (int i = 0; i < in_flight; ++i) free.push_back(std::make_unique<std::binary_semaphore>(1));
    for (int64_t sent = 0; sent < count && !stop; ++sent) {
      const auto slot = static_cast<size_t>(sent % in_flight);
      free[slot]->acquire();
      begin(true, into[slot], [&done = *free[slot]] { done.release(); });
    }
    for (const auto& each : free) each->acquire();
  }
  void call() override {
    std::vector<std::byte> into(kSmallBytes);
    std::promise<void> done;
    begin(false, into, [&] { done.set_value(); });
    done.get_future().wait();
  }

 private:
  struct Pending {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };

  static std::shared_ptr<grpc::Channel> channel_to(uint16_t port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    // A connection of its own, as the others have.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments
    );
  }

  void begin(bool large, std::span<std::byte> into, std::function<void()> done) {
    const auto pending = std::make_shared<Pending>();
    pending->request = buffer_of(request_bytes(large));
    stub_.UnaryCall(
        &pending->context,
        "/bench/call",
        {},
        &pending->request,
        &pending->reply,
        [pending, large, into, done = std::move(done)](grpc::Status status) {
          if (!status.ok()) give_up("gRPC: " + status.error_message());
          if (copy_out(pending->reply, into) != into.size()) give_up("gRPC: a short reply");
          check_reply(large, into);
          done();
        }
    );
  }

  grpc::GenericStub stub_;
};

class GrpcTransport final : public Transport {
 public:
  GrpcTransport() : Transport("gRPC") {}

  [[noreturn]] void serve(const std::function<void(uint16_t)>& listening) override {
    Service service;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service);
    const auto server = builder.BuildAndStart();
    listening(static_cast<uint16_t>(port));
    while (true) ::pause();
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(uint16_t port) override {
    return std::make_unique<GrpcConnection>(port);
  }
};

}  // namespace

std::unique_ptr<Transport> make_grpc() {
  return std::make_unique<GrpcTransport>();
}

}  // namespace gnn::bench
