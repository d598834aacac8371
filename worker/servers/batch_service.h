#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "worker/rpc/server.h"
#include "worker/servers/batch_maker.h"
#include "worker/servers/batch_wire.h"
#include "worker/servers/hello.h"
#include "worker/shards/service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace gnn::servers {

struct BatchServiceOptions {
  Hello hello;
  int64_t num_threads = 1;  ///< that make batches
  /// Batches under way per thread: while one waits for other servers, its thread works for others.
  int64_t concurrency = 1;
  /// The most bytes of batches that are kept at a time, until they are sent; one always may.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
};

/// What a server has done since it started.
struct ServiceStats {
  int64_t batches = 0;       ///< answered
  int64_t bytes = 0;         ///< of these
  int64_t queue_length = 0;  ///< requests for batches that are not begun, now
  int64_t under_way = 0;     ///< batches that are being made, now
  /// Of batches that are made and not sent, and room for those that are being made.
  int64_t bytes_in_flight = 0;
  int64_t most_bytes_in_flight = 0;  ///< so far
  int64_t threads = 0;
  double busy_seconds = 0;  ///< of its threads, summed
  int64_t refused = 0;      ///< requests: of an older attempt or round, or none of ours
  double queue_seconds = 0;
  double sample_seconds = 0;
  double gather_seconds = 0;
  double wire_seconds = 0;  ///< from a batch's end to that of its answer in the kernel's buffer
};

/// Makes whole batches for clients (rpc::Role::Client), in the order of their requests and in turn
/// between clients, and answers other servers (rpc::Role::Server) for its part of the data.
///
/// Batches are begun only while there is room for their bytes: as many as the largest of their kind so
/// far had, or more if they have more items. One that has more bytes nevertheless, and for which there
/// is no room, is dropped, and made again when there is. A client has at most its share of the bytes,
/// so that one that does not read holds up nobody else.
///
/// The requests of a client whose attempt and round are below the highest that were seen are refused:
/// its place has been taken.
/// Threads: safe from any thread.
class BatchService {
 public:
  /// Errors: Configuration naming the option.
  [[nodiscard]] static Result<std::shared_ptr<BatchService>> create(
      const BatchServiceOptions& options
  );
  /// Calls stop().
  ~BatchService();
  BatchService(const BatchService&) = delete;
  BatchService& operator=(const BatchService&) = delete;

  /// From now on batches are made, by `maker`; requests that have come before wait for it. Once.
  template <class Batch>
  void set_maker(std::shared_ptr<BatchMaker<Batch>> maker) {
    start([maker = std::move(maker
           )](const BatchRequest& request, const Executor& executor, PackedDone done) {
      maker->make(request, executor, [done = std::move(done)](Result<Batch> batch) {
        if (!batch) return done(tl::unexpected(std::move(batch).error()));
        done(pack(*batch));
      });
    });
  }

  /// Answers all requests to a server. `shards` answers other servers' for rows and hops; it may be
  /// null, if there is one partition. The service outlives the rpc server that has this.
  [[nodiscard]] rpc::LateHandler handler(std::shared_ptr<const shards::Service> shards);

  /// `options` with bounds of memory for all that is no batch.
  [[nodiscard]] static rpc::ServerOptions with_bounds(rpc::ServerOptions options);

  /// Takes no new requests for batches (clients ask another holder), and returns when those that have
  /// come are answered, or after `limit`; whether all are.
  bool drain(Duration limit);
  /// Ends at once: requests that have come and come later are answered with Cancelled.
  void stop();

  [[nodiscard]] ServiceStats stats() const;

 private:
  using PackedDone = std::function<void(Result<Parcel>)>;
  using Make = std::function<void(const BatchRequest&, const Executor&, PackedDone)>;
  class State;

  explicit BatchService(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void start(Make make);

  const std::shared_ptr<State> state_;
};

}  // namespace gnn::servers
