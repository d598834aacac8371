#include "worker/servers/batch_service.h"

#include "common/guarded.h"
#include "common/out_of_memory.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace gnn::servers {
namespace {

// Of one connection; a client of ours has a few.
constexpr size_t kMostQueued = 256;
// What hops and rows of other servers, and requests, may take beside the batches: of all, and of one.
constexpr int64_t kOtherBytes = int64_t{64} << 20;
constexpr int64_t kOtherBytesOfOne = int64_t{32} << 20;
constexpr size_t kKinds = 6;  // of batches: by use and part of the split

MonotonicPoint now() {
  return std::chrono::steady_clock::now();
}

double seconds_between(MonotonicPoint begin, MonotonicPoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

size_t kind_of(const BatchRequest& request) {
  return static_cast<size_t>(request.use) * 3 + static_cast<size_t>(request.of);
}

tl::unexpected<Error> leaving() {
  return fail(ErrorKind::Cancelled, "this server is leaving");
}

}  // namespace

// The service, for its threads and for those who still have an answer of it.
class BatchService::State : public std::enable_shared_from_this<BatchService::State> {
 public:
  explicit State(const BatchServiceOptions& options) : options_(options) {}

  void start_threads() {
    for (int64_t i = 0; i < options_.num_threads; ++i) threads_.emplace_back([this] { work(); });
  }

  void start(Make make) {
    std::map<uint64_t, rpc::Responder> ready;
    {
      const auto data = data_.lock();
      data->make = std::move(make);
      ready.swap(data->wait_until_ready);
    }
    data_.notify_all();
    for (const auto& [connection, respond] : ready) respond(rpc::Answer{});
  }

  void answer(
      const rpc::Peer& peer,
      uint16_t method,
      std::span<const std::byte> request,
      const rpc::Responder& respond,
      const shards::Service* shards
  ) {
    auto refused = check(peer, method);
    if (refused) {
      switch (static_cast<Method>(method)) {
        case Method::Hello:
          return respond(hello());
        case Method::Ready:
          return answer_when_ready(respond);
        case Method::Batch:
          refused = queue(request, respond);
          break;
        default:
          return respond(answer_of_part(method, request, shards));
      }
    }
    if (refused) return;
    // A server that leaves refuses nothing.
    if (refused.error().kind != ErrorKind::Cancelled) ++data_.lock()->stats.refused;
    respond(tl::unexpected(std::move(refused).error()));
  }

  bool drain(Duration limit) {
    cancel_queued([](Data& data) { data.draining = true; });
    SystemClock clock;
    auto data = data_.lock();
    return data.wait_until(clock, clock.monotonic() + limit, [](const Data& all) {
      return all.stopped || (all.stats.queue_length == 0 && all.stats.under_way == 0 &&
                             all.stats.bytes_in_flight == 0);
    });
  }

  void stop() {
    std::deque<std::function<void()>> dropped;
    cancel_queued([&](Data& data) {
      data.draining = true;
      data.stopped = true;
      dropped.swap(data.tasks);
    });
    data_.notify_all();
    dropped.clear();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

  [[nodiscard]] ServiceStats stats() const {
    const auto data = data_.lock();
    ServiceStats stats = data->stats;
    stats.threads = options_.num_threads;
    return stats;
  }

 private:
  struct Waiting {
    BatchRequest request;
    rpc::Responder respond;
    MonotonicPoint came;
  };
  struct Client {
    std::deque<Waiting> queue;
    int64_t bytes = 0;                   // in flight
    std::optional<rpc::Responder> last;  // tells whether the client is there
  };
  struct Size {
    int64_t bytes = 0;
    int64_t items = 0;
  };
  struct Data {
    Make make;  // null: no batches are made yet
    std::map<uint64_t, rpc::Responder> wait_until_ready;
    std::map<uint64_t, Client> clients;  // by connection
    std::deque<uint64_t> turns;          // of clients with a queue
    std::deque<std::function<void()>> tasks;
    std::array<Size, kKinds> largest{};  // batch of each kind so far
    int64_t attempt = 0;                 // the highest that was seen, with its round
    int64_t round = 0;
    bool draining = false;
    bool stopped = false;
    ServiceStats stats;
  };

  // Room for a batch's bytes, from its begin until its answer is written or nobody wants it.
  class Room {
   public:
    Room(std::shared_ptr<State> state, uint64_t connection, int64_t bytes)
        : state_(std::move(state)), connection_(connection), bytes_(bytes) {}
    ~Room() {
      {
        const auto data = state_->data_.lock();
        state_->take_room(*data, connection_, -bytes_);
        if (made_ != MonotonicPoint()) data->stats.wire_seconds += seconds_between(made_, now());
      }
      state_->data_.notify_all();
    }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    // The batch is made, and has so many bytes.
    void becomes(Data& data, int64_t bytes) {
      state_->take_room(data, connection_, bytes - bytes_);
      bytes_ = bytes;
      made_ = now();
    }

   private:
    const std::shared_ptr<State> state_;
    const uint64_t connection_;
    int64_t bytes_;
    MonotonicPoint made_{};
  };

  // A batch that is being made. If nobody makes it to its end, the server is leaving.
  struct Making {
    Making(std::shared_ptr<State> state, Waiting given, int64_t bytes)
        : self(std::move(state)),
          waiting(std::move(given)),
          reserved(bytes),
          room(std::make_shared<Room>(self, waiting.respond.connection(), bytes)) {}
    ~Making() {
      if (!put_back) waiting.respond(leaving());  // counts only if there was no answer
      --self->data_.lock()->stats.under_way;
      self->data_.notify_all();
    }
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

    const std::shared_ptr<State> self;
    const Waiting waiting;
    const int64_t reserved;      // bytes
    std::shared_ptr<Room> room;  // null once there is an answer, or it is put back
    bool put_back = false;       // into its queue, to be made again
    MonotonicPoint begin = now();
  };

  // An answer's memory.
  struct Sent {
    std::shared_ptr<Room> room;  // given back last
    Parcel parcel;
    std::vector<std::byte> head;
  };

  // ---- Requests

  // Who may ask for what: the one place where attempts and rounds are told apart.
  Status check(const rpc::Peer& peer, uint16_t method) {
    if (peer.role != rpc::Role::Client) {
      if (method != static_cast<uint16_t>(Method::Batch) &&
          method != static_cast<uint16_t>(Method::Ready))
        return {};
      return fail(ErrorKind::Data, "request: workers alone ask for batches");
    }
    if (method < static_cast<uint16_t>(Method::Batch) ||
        method > static_cast<uint16_t>(Method::Ready)) {
      return fail(
          ErrorKind::Data,
          "request: workers ask for whole batches, not by method " + std::to_string(method)
      );
    }
    const auto data = data_.lock();
    const std::pair highest(data->attempt, data->round);
    const std::pair found(peer.attempt, peer.round);
    if (found >= highest) {
      std::tie(data->attempt, data->round) = found;
      return {};
    }
    const auto text = [](const std::pair<int64_t, int64_t>& incarnation) {
      return "attempt " + std::to_string(incarnation.first) + ", round " +
             std::to_string(incarnation.second);
    };
    return fail(
        ErrorKind::PeerLost,
        "refused: this worker is of " + text(found) + ", and one of " + text(highest) +
            " has taken its place"
    );
  }

  [[nodiscard]] rpc::Answer hello() const {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(encode(options_.hello));
    return {.segments = {std::span(*bytes)}, .owner = bytes};
  }

  void answer_when_ready(const rpc::Responder& respond) {
    std::optional<rpc::Responder> before;  // a client waits once
    {
      const auto data = data_.lock();
      if (data->make == nullptr && !data->draining) {
        auto& place = data->wait_until_ready;
        std::erase_if(place, [](const auto& each) { return !each.second.wanted(); });
        const auto found = place.find(respond.connection());
        if (found != place.end()) before = found->second;
        place.insert_or_assign(respond.connection(), respond);
        if (!before) return;
      } else if (data->draining) {
        before = respond;
      }
    }
    if (before) return (*before)(leaving());
    respond(rpc::Answer{});
  }

  Status queue(std::span<const std::byte> bytes, const rpc::Responder& respond) {
    GNN_ASSIGN_OR_RETURN(const BatchRequest request, decode_batch_request(bytes));
    {
      const auto data = data_.lock();
      if (data->draining) return leaving();
      Client& client = data->clients[respond.connection()];
      if (client.queue.size() >= kMostQueued) {
        return fail(
            ErrorKind::Data,
            "request: " + std::to_string(kMostQueued) + " batches are asked for already"
        );
      }
      if (client.queue.empty()) data->turns.push_back(respond.connection());
      client.queue.push_back({.request = request, .respond = respond, .came = now()});
      client.last = respond;
      ++data->stats.queue_length;
    }
    data_.notify_all();
    return {};
  }

  static Result<rpc::Answer> answer_of_part(
      uint16_t method, std::span<const std::byte> request, const shards::Service* shards
  ) {
    if (shards == nullptr)
      return fail(ErrorKind::Data, "request: this server has no part for other servers");
    GNN_ASSIGN_OR_RETURN(shards::ServiceReply reply, shards->answer(method, request));
    return rpc::Answer{.segments = std::move(reply.segments), .owner = std::move(reply.owner)};
  }

  // Answers all that is queued with Cancelled, after `change`.
  template <class Change>
  void cancel_queued(const Change& change) {
    std::vector<rpc::Responder> cancelled;
    {
      const auto data = data_.lock();
      change(*data);
      for (auto& [connection, respond] : std::exchange(data->wait_until_ready, {}))
        cancelled.push_back(respond);
      // Without a maker nobody would answer them.
      if (data->make == nullptr || data->stopped) {
        for (auto& [connection, client] : data->clients)
          for (Waiting& each : std::exchange(client.queue, {})) cancelled.push_back(each.respond);
        data->turns.clear();
        data->stats.queue_length = 0;
      }
    }
    for (const rpc::Responder& respond : cancelled) respond(leaving());
  }

  // ---- Threads

  void take_room(Data& data, uint64_t connection, int64_t bytes) {
    data.stats.bytes_in_flight += bytes;
    data.stats.most_bytes_in_flight =
        std::max(data.stats.most_bytes_in_flight, data.stats.bytes_in_flight);
    const auto client = data.clients.find(connection);
    if (client == data.clients.end()) return;
    client->second.bytes += bytes;
  }

  // A client's share leaves room for one more client, so that one which does not read cannot have all.
  [[nodiscard]] bool is_in_share(const Data& data, const Client& client, int64_t bytes) const {
    const int64_t share =
        options_.max_bytes_in_flight / (static_cast<int64_t>(data.clients.size()) + 1);
    return client.bytes == 0 || client.bytes + bytes <= share;
  }
  // One batch always has.
  [[nodiscard]] bool has_room(int64_t in_flight, int64_t bytes) const {
    return in_flight == 0 || in_flight + bytes <= options_.max_bytes_in_flight;
  }

  // A kind of which none was made is taken to be like the others. The first of all has all of the room.
  [[nodiscard]] int64_t bytes_of(const Data& data, const BatchRequest& request) const {
    Size largest = data.largest[kind_of(request)];
    if (largest.bytes == 0) largest = *std::ranges::max_element(data.largest, {}, &Size::bytes);
    if (largest.bytes == 0) return options_.max_bytes_in_flight;
    if (request.count <= largest.items) return largest.bytes;
    const double growth = static_cast<double>(request.count) /
                          static_cast<double>(std::max<int64_t>(largest.items, 1));
    return static_cast<int64_t>(
        std::min(static_cast<double>(largest.bytes) * growth, static_cast<double>(kMostParcelBytes))
    );
  }

  static void forget_the_gone(Data& data) {
    for (auto each = data.clients.begin(); each != data.clients.end();) {
      Client& client = each->second;
      if (client.last && client.last->wanted()) {
        ++each;
        continue;
      }
      if (!client.queue.empty()) {
        data.stats.queue_length -= static_cast<int64_t>(client.queue.size());
        std::erase(data.turns, each->first);
      }
      each = data.clients.erase(each);
    }
  }

  // The first client in turn that may have one more, if there is room for its batch: those behind it
  // would keep a large one waiting for ever. The end if there is none.
  [[nodiscard]] std::deque<uint64_t>::const_iterator next_turn(const Data& data) const {
    if (data.make == nullptr || data.stats.under_way >= options_.num_threads * options_.concurrency)
      return data.turns.end();
    for (auto turn = data.turns.begin(); turn != data.turns.end(); ++turn) {
      const Client& client = data.clients.at(*turn);
      const int64_t bytes = bytes_of(data, client.queue.front().request);
      if (!is_in_share(data, client, bytes)) continue;
      return has_room(data.stats.bytes_in_flight, bytes) ? turn : data.turns.end();
    }
    return data.turns.end();
  }

  std::shared_ptr<Making> begin_next(Data& data) {
    forget_the_gone(data);
    const auto turn = next_turn(data);
    if (turn == data.turns.end()) return nullptr;
    const uint64_t connection = *turn;
    data.turns.erase(turn);
    Client& client = data.clients.at(connection);
    Waiting waiting = std::move(client.queue.front());
    client.queue.pop_front();
    if (!client.queue.empty()) data.turns.push_back(connection);
    --data.stats.queue_length;
    ++data.stats.under_way;
    const int64_t bytes = bytes_of(data, waiting.request);
    take_room(data, connection, bytes);
    return std::make_shared<Making>(shared_from_this(), std::move(waiting), bytes);
  }

  void work() {
    while (true) {
      std::function<void()> task;
      std::shared_ptr<Making> making;
      Make make;
      {
        auto data = data_.lock();
        data.wait([&](Data& all) {
          return all.stopped || !all.tasks.empty() || next_turn(all) != all.turns.end();
        });
        if (data->stopped) return;
        if (!data->tasks.empty()) {  // first, so that what was begun first is made first
          task = std::move(data->tasks.front());
          data->tasks.pop_front();
        } else {
          making = begin_next(*data);
          if (making == nullptr) continue;
          make = data->make;
        }
      }
      const MonotonicPoint begin = now();
      if (task) {
        task();
      } else {
        run(make, std::move(making));
      }
      data_.lock()->stats.busy_seconds += seconds_between(begin, now());
    }
  }

  void run(const Make& make, const std::shared_ptr<Making>& making) {
    const auto self = shared_from_this();
    const Executor executor = [self, making](std::function<void()> task) {
      {
        const auto data = self->data_.lock();
        if (data->stopped) return;
        data->tasks.emplace_back([self, making, task = std::move(task)] {
          self->guard(making, task);
        });
      }
      self->data_.notify_all();
    };
    guard(making, [&] {
      make(making->waiting.request, executor, [self, making](Result<Parcel> parcel) {
        self->deliver(*making, std::move(parcel));
      });
    });
  }

  // What a maker throws is the answer.
  template <class Run>
  void guard(const std::shared_ptr<Making>& making, const Run& run) {
    try {
      run();
    } catch (const std::exception& error) {
      deliver(
          *making,
          fail(is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal, error.what())
      );
    }
  }

  static void note_size(Data& data, const BatchRequest& request, int64_t bytes) {
    Size& largest = data.largest[kind_of(request)];
    if (bytes > largest.bytes) largest = {.bytes = bytes, .items = request.count};
  }

  static void count(Data& data, int64_t bytes, const BatchTimes& times) {
    ServiceStats& stats = data.stats;
    ++stats.batches;
    stats.bytes += bytes;
    stats.queue_seconds += times.queue_seconds;
    stats.sample_seconds += times.sample_seconds;
    stats.gather_seconds += times.gather_seconds;
  }

  // Before all else that its client waits for, as its turn had come. Nobody waits for it if the client
  // is gone.
  static void put_back(Data& data, const Waiting& waiting) {
    const uint64_t connection = waiting.respond.connection();
    const auto client = data.clients.find(connection);
    if (client == data.clients.end()) return;
    if (!client->second.queue.empty()) std::erase(data.turns, connection);
    data.turns.push_front(connection);
    client->second.queue.push_front(waiting);
    ++data.stats.queue_length;
  }

  void deliver(Making& making, Result<Parcel> parcel) {
    if (making.room == nullptr) return;  // it has an answer
    if (!parcel) return making.waiting.respond(tl::unexpected(std::move(parcel).error()));
    parcel->times.queue_seconds = seconds_between(making.waiting.came, making.begin);
    auto head = encode_head(*parcel);
    if (!head) return making.waiting.respond(tl::unexpected(std::move(head).error()));
    const int64_t bytes = parcel->bytes() + static_cast<int64_t>(head->size());
    if (bytes > kMostParcelBytes) {
      return making.waiting.respond(fail(
          ErrorKind::Configuration,
          "a batch has " + std::to_string(bytes) + " bytes, and servers send at most " +
              std::to_string(kMostParcelBytes) + ": lower training.batchSize or sampling.fanout"
      ));
    }
    const auto sent = std::make_shared<Sent>();
    {
      const auto data = data_.lock();
      note_size(*data, making.waiting.request, bytes);
      const int64_t others = data->stats.bytes_in_flight - making.reserved;
      making.put_back = bytes > making.reserved && !has_room(others, bytes) && !data->stopped;
      if (making.put_back) {
        put_back(*data, making.waiting);
      } else {
        making.room->becomes(*data, bytes);
        count(*data, bytes, parcel->times);
      }
    }
    data_.notify_all();
    if (making.put_back) return making.room.reset();
    sent->room = std::move(making.room);
    sent->parcel = std::move(*parcel);
    sent->head = std::move(*head);
    rpc::Answer answer{.segments = {std::span(sent->head)}, .owner = sent, .counts = false};
    for (const auto segment : segments_of(sent->parcel)) answer.segments.push_back(segment);
    making.waiting.respond(std::move(answer));
  }

  const BatchServiceOptions options_;
  mutable Guarded<Data> data_;
  std::vector<std::thread> threads_;
};

Result<std::shared_ptr<BatchService>> BatchService::create(const BatchServiceOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t least) -> Status {
    if (value >= least) return {};
    return fail(
        ErrorKind::Configuration,
        "sampling server: expected " + std::string(name) + " of at least " + std::to_string(least) +
            ", found " + std::to_string(value)
    );
  };
  GNN_RETURN_IF_ERROR(check("num_threads", options.num_threads, 1));
  GNN_RETURN_IF_ERROR(check("concurrency", options.concurrency, 1));
  GNN_RETURN_IF_ERROR(check("max_bytes_in_flight", options.max_bytes_in_flight, 1));
  if (options.hello.description.size() > static_cast<size_t>(kMostDescriptionBytes))
    return fail(ErrorKind::Configuration, "a server's description has more than 1 MiB");
  auto state = std::make_shared<State>(options);
  state->start_threads();
  return std::shared_ptr<BatchService>(new BatchService(std::move(state)));
}

BatchService::~BatchService() {
  stop();
}

rpc::LateHandler BatchService::handler(std::shared_ptr<const shards::Service> shards) {
  return [state = state_, shards = std::move(shards)](
             const rpc::Peer& peer,
             uint16_t method,
             std::span<const std::byte> request,
             const rpc::Responder& respond
         ) { state->answer(peer, method, request, respond, shards.get()); };
}

rpc::ServerOptions BatchService::with_bounds(rpc::ServerOptions options) {
  options.most_answer_bytes = std::max(options.most_answer_bytes, kMostParcelBytes);
  options.most_request_bytes = std::min(options.most_request_bytes, kOtherBytesOfOne);
  options.client_bytes = kOtherBytesOfOne;
  options.total_bytes = kOtherBytes;
  return options;
}

bool BatchService::drain(Duration limit) {
  return state_->drain(limit);
}
void BatchService::stop() {
  state_->stop();
}
ServiceStats BatchService::stats() const {
  return state_->stats();
}
void BatchService::start(Make make) {
  state_->start(std::move(make));
}

}  // namespace gnn::servers
