#include "worker/servers/holders.h"

#include "common/backoff.h"
#include "common/guarded.h"
#include "common/log.h"
#include "common/random.h"
#include "common/running_time.h"
#include "worker/servers/hello.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

namespace gnn::servers {
namespace {

// How often the thread looks, as RunningTime needs it.
constexpr auto kTurn = RunningTime::kLongestStep / 5;
// Pods that must be lost with one question before it is blamed.
constexpr size_t kFewestLost = 3;
// Lost servers that a message names.
constexpr size_t kMostNamed = 4;
constexpr BackoffOptions kRetry{
    .initial = std::chrono::milliseconds(50),
    .factor = 2,
    .cap = std::chrono::seconds(1),
    .jitter = 0.5
};

std::string name_of(const LiveServer& server) {
  return rpc::Peer{.role = rpc::Role::Server, .node = server.server, .address = server.address}
      .name();
}

std::string seconds_text(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

// What a connection is good for.
enum class Phase {
  Waiting,     // for the next try to connect
  Connecting,  // up to its hello
  Greeted,     // answers servers
  Ready,       // makes batches, too
  Leaving,     // takes no new questions
  Lost,        // or never made
  Refused,     // it is none of ours, and will not be
};

}  // namespace

class Holders::State : public std::enable_shared_from_this<Holders::State> {
 public:
  State(
      std::shared_ptr<rpc::EventLoop> loop,
      const HoldersOptions& options,
      const rpc::Key& key,
      std::shared_ptr<Directory> directory
  )
      : options_(options), key_(key), directory_(std::move(directory)) {
    const auto data = data_.lock();
    data->loop = std::move(loop);
    data->description = options.description;
    data->now = SystemClock().monotonic();
    data->unheld_since.assign(static_cast<size_t>(options.partitions), data->now);
  }

  void start() {
    subscription_ = directory_->subscribe([this] { wake(); });
    keeper_ = std::thread([this] { keep(); });
  }

  Result<std::string> open() {
    auto data = data_.lock();
    std::optional<Result<std::string>> result;
    data.wait([&](Data& all) {
      result = opened(all);
      return result.has_value();
    });
    return *std::move(result);
  }

  void ask(Question given) {
    auto question = std::make_shared<Asked>();
    question->question = std::move(given);
    {
      const auto data = data_.lock();
      if (!data->closed) {
        ++data->open_questions;
        question->since = data->now;
        send_or_wait(*data, question);
        return;
      }
    }
    question->question.callback(closed_error());
  }

  // Not on the event loop's thread.
  void close() {
    {
      const auto data = data_.lock();
      if (std::exchange(data->closed, true)) return;
    }
    wake();
    keeper_.join();
    subscription_.reset();
    std::list<std::shared_ptr<Link>> links;
    std::list<std::shared_ptr<Asked>> waiting;
    std::shared_ptr<rpc::EventLoop> loop;  // goes last, and not where an answer is carried
    {
      const auto data = data_.lock();
      for (auto& [server, link] : std::exchange(data->links, {})) links.push_back(link);
      links.splice(links.end(), data->retired);
      waiting.swap(data->waiting);
      loop = std::move(data->loop);
    }
    // Without the lock: the end of each waits for the event loop.
    for (const auto& link : links) end(*link);
    for (const auto& question : waiting) finish(*question, closed_error());
  }

  [[nodiscard]] HoldersStats stats() const {
    const auto data = data_.lock();
    HoldersStats stats = data->stats;
    stats.under_way = data->open_questions;
    stats.waiting = data->open_questions > 0 && !stats.gave_up &&
                    std::ranges::any_of(data->unheld_since, [](const auto& since) {
                      return since.has_value();
                    });
    return stats;
  }

  [[nodiscard]] std::vector<rpc::PeerStats> peer_stats() const {
    std::vector<rpc::PeerStats> all;
    const auto data = data_.lock();
    for (const auto& [server, link] : data->links)
      if (link->client != nullptr) all.push_back(link->client->stats());
    return all;
  }

  void count_giving_up() { data_.lock()->stats.gave_up = true; }

  void count_batch(int64_t bytes, const BatchTimes& times, double seconds) {
    const auto data = data_.lock();
    HoldersStats& stats = data->stats;
    ++stats.batches;
    stats.bytes += bytes;
    stats.times.queue_seconds += times.queue_seconds;
    stats.times.sample_seconds += times.sample_seconds;
    stats.times.gather_seconds += times.gather_seconds;
    stats.wire_seconds +=
        std::max(0.0, seconds - times.queue_seconds - times.sample_seconds - times.gather_seconds);
  }

 private:
  struct Asked {
    Question question;
    MonotonicPoint since{};  // when it was asked first, or the last server of it was lost
    bool was_asked = false;
    std::vector<LiveServer> lost;  // pods that were asked, and were lost before they answered
    MonotonicPoint first_lost{};
  };
  // A connection to one pod of a server. All but `server` is guarded like the rest of the data.
  struct Link {
    explicit Link(LiveServer given) : server(std::move(given)) {}

    const LiveServer server;
    Phase phase = Phase::Waiting;
    // These end on the thread of this, or in close(), never where an answer is carried.
    std::unique_ptr<rpc::Connecting> connecting;
    std::unique_ptr<rpc::Client> client;
    // Questions that it owes answers, and since when.
    std::map<std::shared_ptr<Asked>, MonotonicPoint> asked;
    bool slow = false;  // it has owed one for too long: others are asked first
    bool tried = false;
    std::string failure;          // why it is not there, or was not the last time
    std::optional<Error> unlike;  // why it seems to be none of ours, which it has not proved
    std::optional<MonotonicPoint> greeted_at{};  // when it was asked what it serves
    std::optional<MonotonicPoint> lost_at{};     // since when it is not there, if it ever was
    Backoff backoff{kRetry};
    MonotonicPoint retry_at{};
  };
  // A server that is not listed any more.
  struct Gone {
    LiveServer server;
    std::string failure;
    MonotonicPoint lost_at{};
  };
  struct Data {
    std::shared_ptr<rpc::EventLoop> loop;
    std::map<int64_t, std::shared_ptr<Link>> links;  // by server: those that are listed
    std::list<std::shared_ptr<Link>> retired;        // not listed any more; may still answer
    std::map<int64_t, Gone> gone;                    // by server
    std::list<std::shared_ptr<Asked>> waiting;       // for a holder
    // Since when each part has no holder; nothing while it has one.
    std::vector<std::optional<MonotonicPoint>> unheld_since;
    MonotonicPoint now{};  // RunningTime
    int64_t open_questions = 0;
    std::string description;
    std::optional<Error> mismatch;  // a server that is none of this job's data
    HoldersStats stats;
    int64_t directory_version = -1;
    bool woken = false;
    bool closed = false;
  };

  static tl::unexpected<Error> closed_error() {
    return fail(ErrorKind::Cancelled, "the connections to servers were closed");
  }
  [[nodiscard]] bool is_server() const { return options_.identity.role == rpc::Role::Server; }
  [[nodiscard]] bool is_own(int64_t server) const {
    return is_server() && server == options_.identity.node;
  }
  [[nodiscard]] bool holds(int64_t server, int64_t part) const {
    return part < 0 || server % options_.partitions == part;
  }

  void wake() {
    data_.lock()->woken = true;
    data_.notify_all();
  }

  // ---- Questions

  [[nodiscard]] bool usable(const Link& link) const {
    const bool answers =
        link.phase == Phase::Ready || (is_server() && link.phase == Phase::Greeted);
    return answers && link.client != nullptr && !link.client->lost();
  }

  [[nodiscard]] std::shared_ptr<Link> link_for(const Data& data, const Question& question) const {
    std::vector<std::shared_ptr<Link>> holders;  // that are listed, connected or not
    for (const auto& [server, link] : data.links)
      if (holds(server, question.part)) holders.push_back(link);
    std::shared_ptr<Link> slow;
    for (size_t i = 0; i < holders.size(); ++i) {
      const auto& link = holders[(static_cast<size_t>(question.turn) + i) % holders.size()];
      if (!usable(*link)) continue;
      if (!link->slow) return link;
      if (slow == nullptr) slow = link;
    }
    return slow;
  }

  void send_or_wait(Data& data, const std::shared_ptr<Asked>& question) {
    const auto link = link_for(data, question->question);
    if (link == nullptr) {
      data.waiting.push_back(question);
      return;
    }
    if (std::exchange(question->was_asked, true)) ++data.stats.failovers;
    link->asked.emplace(question, data.now);
    link->client->call(
        question->question.make_call(),
        [self = shared_from_this(), link, question](Result<rpc::Reply> reply) {
          self->on_reply(link, question, std::move(reply));
        }
    );
  }

  // On the event loop.
  void on_reply(
      const std::shared_ptr<Link>& link,
      const std::shared_ptr<Asked>& question,
      Result<rpc::Reply> reply
  ) {
    {
      const auto data = data_.lock();
      link->asked.erase(question);
      if (reply) link->slow = false;
      const bool lost = link->client == nullptr || link->client->lost();
      // An answer that was none has ended the connection, and goes to who asked for it.
      const bool other = !reply && (reply.error().kind == ErrorKind::Cancelled ||
                                    (lost && reply.error().kind == ErrorKind::PeerLost));
      if (lost) lose(*data, *link, reply ? "the connection broke" : reply.error().message);
      if (other && !lost && link->phase == Phase::Ready) link->phase = Phase::Leaving;
      if (other && !data->closed) {
        if (lost) note_loss(*data, *question, link->server);
        if (is_to_blame(*data, *question)) {
          reply = blame(*question);
        } else {
          question->since = data->now;
          send_or_wait(*data, question);
          data->woken = true;
          data_.notify_all();
          return;
        }
      }
    }
    if (!reply) return finish(*question, tl::unexpected(std::move(reply).error()));
    finish(*question, Answer{.reply = std::move(*reply), .server = name_of(link->server)});
  }

  static void note_loss(const Data& data, Asked& question, const LiveServer& server) {
    if (question.lost.empty()) question.first_lost = data.now;
    if (std::ranges::find(question.lost, server) == question.lost.end())
      question.lost.push_back(server);
  }

  // Does it end whoever is asked? Servers may be lost at any rate, but in all this time none of them
  // has lived as long as this one answer takes.
  [[nodiscard]] bool is_to_blame(const Data& data, const Asked& question) const {
    return question.lost.size() >= kFewestLost &&
           data.now - question.first_lost >= options_.server_timeout;
  }

  [[nodiscard]] tl::unexpected<Error> blame(const Asked& question) const {
    std::string servers;
    const size_t named = std::min(question.lost.size(), kMostNamed);
    for (size_t i = question.lost.size() - named; i < question.lost.size(); ++i) {
      servers += (servers.empty() ? "" : ", ") + name_of(question.lost[i]) + " pod " +
                 std::to_string(question.lost[i].restart);
    }
    return fail(
        ErrorKind::PeerLost,
        question.question.what + ": for " + seconds_text(options_.server_timeout) +
            " (runPolicy.serverTimeoutSeconds), each of " + std::to_string(question.lost.size()) +
            " servers that were to answer was lost, the last of them " + servers +
            ": their logs and pods say why, for example too little memory "
            "(spec.servers.template)"
    );
  }

  void finish(const Asked& question, Result<Answer> answer) {
    --data_.lock()->open_questions;
    question.question.callback(std::move(answer));
  }

  // ---- Connections

  static void lose(Data& data, Link& link, const std::string& why) {
    if (link.phase == Phase::Lost || link.phase == Phase::Refused) return;
    if (link.phase == Phase::Ready || link.phase == Phase::Greeted) link.lost_at = data.now;
    link.phase = Phase::Lost;
    link.failure = why;
    link.tried = true;
    data.woken = true;
  }

  // Not under the lock, nor on the event loop: both ends wait for it.
  void end(Link& link) {
    std::unique_ptr<rpc::Connecting> connecting;
    {
      const auto data = data_.lock();
      connecting = std::move(link.connecting);
    }
    connecting.reset();  // no client comes any more
    std::unique_ptr<rpc::Client> client;
    {
      const auto data = data_.lock();
      client = std::move(link.client);
    }
  }

  rpc::ClientOptions client_options(const LiveServer& server) const {
    return {
        .address = server.address,
        .role = rpc::Role::Server,
        .node = server.server,
        .identity = options_.identity,
        .peer_timeout = options_.peer_timeout
    };
  }

  void connect(Data& data, const std::shared_ptr<Link>& link) {
    link->phase = Phase::Connecting;
    auto connecting = rpc::Client::begin_connect(
        data.loop,
        client_options(link->server),
        key_,
        // The connecting's end waits for this, so both are there.
        [this, link = link.get()](Result<std::unique_ptr<rpc::Client>> client) {
          on_connected(*link, std::move(client));
        }
    );
    if (connecting) {
      link->connecting = std::move(*connecting);
    } else {
      refuse(data, *link, connecting.error());
    }
  }

  void refuse(Data& data, Link& link, const Error& error) {
    if (link.phase == Phase::Refused) return;
    link.phase = Phase::Refused;
    link.failure = error.message;
    link.tried = true;
    if (!data.mismatch) data.mismatch = error;
    data.woken = true;
    warn(link, error);
  }

  static void warn(const Link& link, const Error& error) {
    log_warning(
        "a sampling server is not asked",
        {{"server", link.server.server}, {"address", link.server.address}, {"error", error.message}}
    );
  }

  // On the event loop, like the next two.
  void on_connected(Link& link, Result<std::unique_ptr<rpc::Client>> client) {
    const auto data = data_.lock();
    if (!client) {
      // Another key or version: whoever is at its address says so, and may be no server at all.
      if (client.error().kind == ErrorKind::Configuration) {
        if (!link.unlike) warn(link, client.error());
        link.unlike = client.error();
      }
      lose(*data, link, client.error().message);
      data_.notify_all();
      return;
    }
    link.client = std::move(*client);
    link.greeted_at = data->now;
    // The link's client ends before the link, and its calls with it.
    link.client->call(
        rpc::Call{
            .method = static_cast<uint16_t>(Method::Hello), .most_rest = kMostDescriptionBytes + 64
        },
        [self = shared_from_this(), link = &link](Result<rpc::Reply> reply) {
          self->on_hello(*link, std::move(reply));
        }
    );
  }

  void on_hello(Link& link, Result<rpc::Reply> reply) {
    const auto data = data_.lock();
    data_.notify_all();
    if (!reply) return lose(*data, link, reply.error().message);
    const auto hello = decode_hello(reply->rest);
    if (!hello) return refuse(*data, link, with_context(hello.error(), name_of(link.server)));
    if (const Status same = check(*data, link, *hello); !same)
      return refuse(*data, link, same.error());
    link.phase = Phase::Greeted;
    link.lost_at.reset();
    link.unlike.reset();
    link.tried = true;
    link.backoff.reset();
    data->woken = true;
    if (is_server()) return;
    link.client->call(
        rpc::Call{.method = static_cast<uint16_t>(Method::Ready)},
        [self = shared_from_this(), link = &link](const Result<rpc::Reply>& ready) {
          self->on_ready(*link, ready);
        }
    );
  }

  void on_ready(Link& link, const Result<rpc::Reply>& reply) {
    const auto data = data_.lock();
    if (!reply) {
      // One that leaves is gone soon; one that refuses us says why.
      if (reply.error().kind == ErrorKind::Cancelled) {
        link.phase = Phase::Leaving;
      } else if (link.client == nullptr || link.client->lost()) {
        lose(*data, link, reply.error().message);
      } else {
        refuse(*data, link, reply.error());
      }
    } else if (link.phase == Phase::Greeted) {
      link.phase = Phase::Ready;
    }
    data->woken = true;
    data_.notify_all();
  }

  // Whether a server serves this job's part and data.
  [[nodiscard]] Status check(Data& data, const Link& link, const Hello& hello) const {
    const LiveServer& server = link.server;
    const auto differs = [&](const std::string& what, int64_t expected, int64_t found) {
      return fail(
          ErrorKind::Configuration,
          name_of(server) + ": expected " + what + " " + std::to_string(expected) + ", found " +
              std::to_string(found)
      );
    };
    if (hello.server != server.server) return differs("server", server.server, hello.server);
    if (hello.partitions != options_.partitions)
      return differs("a number of partitions of", options_.partitions, hello.partitions);
    if (hello.part != server.server % options_.partitions)
      return differs("part", server.server % options_.partitions, hello.part);
    if (data.description.empty()) {
      data.description = hello.description;
      return {};
    }
    if (hello.description == data.description) return {};
    return fail(
        ErrorKind::Data,
        name_of(server) + " serves other data than " + others_than(data, link) +
            ": all servers of a job must read the same data set at spec.dataset"
    );
  }

  [[nodiscard]] std::string others_than(const Data& data, const Link& link) const {
    for (const auto& [server, other] : data.links) {
      const bool answers = other->phase == Phase::Greeted || other->phase == Phase::Ready;
      if (other.get() != &link && answers) return name_of(other->server);
    }
    return is_server() ? "this one" : "those that answered before";
  }

  // ---- The thread

  // Why all holders of a part that are listed seem to be none of ours; nothing if one does not.
  [[nodiscard]] std::optional<Error> all_unlike(const Data& data, int64_t part) const {
    std::optional<Error> unlike;
    for (const auto& [server, link] : data.links) {
      if (!holds(server, part)) continue;
      if (!link->unlike) return std::nullopt;
      unlike = link->unlike;
    }
    return unlike;
  }

  // A connection whose server lives, and does not say what it serves.
  void lose_the_mute(Data& data) const {
    for (const auto& [server, link] : data.links) {
      if (link->phase == Phase::Connecting && link->greeted_at &&
          data.now - *link->greeted_at >= options_.peer_timeout)
        lose(data, *link, "has not said what it serves for " + seconds_text(options_.peer_timeout));
    }
  }

  // A server that lives and makes nothing, as one whose disk does not answer, while another holder is
  // there. Its end of the connection has the memory for the answer, so that goes with it.
  void lose_the_slow(Data& data) const {
    for (const auto& [server, link] : data.links) {
      if (!usable(*link) || link->slow) continue;
      const auto owed = std::ranges::find_if(link->asked, [&](const auto& each) {
        return data.now - each.second >= options_.answer_timeout;
      });
      if (owed == link->asked.end()) continue;
      const Question& question = owed->first->question;
      const bool others = std::ranges::any_of(data.links, [&](const auto& each) {
        const Link& other = *each.second;
        return &other != link.get() && holds(each.first, question.part) && usable(other) &&
               !other.slow;
      });
      if (!others) continue;
      log_warning(
          "a sampling server does not answer, others are asked",
          {{"server", server},
           {"address", link->server.address},
           {"seconds", seconds_text(options_.answer_timeout)},
           {"question", question.what}}
      );
      link->slow = true;
      lose(data, *link, "has not answered for " + seconds_text(options_.answer_timeout));
    }
  }

  // What open() returns, once it is known.
  std::optional<Result<std::string>> opened(Data& data) const {
    if (data.closed) return closed_error();
    if (data.mismatch) return tl::unexpected(*data.mismatch);
    bool all_said = true;
    std::set<int64_t> missing;
    for (int64_t part = 0; part < options_.partitions; ++part)
      if (!is_server() || part != options_.identity.node % options_.partitions)
        missing.insert(part);
    for (const auto& [server, link] : data.links) {
      all_said = all_said && link->tried;
      if (link->phase == Phase::Greeted || link->phase == Phase::Ready)
        missing.erase(server % options_.partitions);
    }
    if (missing.empty() && all_said) return data.description;
    for (const int64_t part : missing) {
      if (const auto unlike = all_unlike(data, part)) return tl::unexpected(*unlike);
      if (const auto since = data.unheld_since[static_cast<size_t>(part)];
          since && data.now - *since >= options_.server_timeout) {
        data.stats.gave_up = true;
        return no_holder(data, part);
      }
    }
    return std::nullopt;
  }

  static std::string lost_text(const Data& data, MonotonicPoint since) {
    return " (lost " + seconds_text(data.now - since) + " ago)";
  }

  [[nodiscard]] tl::unexpected<Error> no_holder(const Data& data, int64_t part) const {
    std::string message = part < 0 ? "no server was there for "
                                   : "no server held part " + std::to_string(part) + " for ";
    message += seconds_text(options_.server_timeout);
    std::string servers;
    for (const auto& [server, link] : data.links) {
      if (!holds(server, part)) continue;
      servers += "; " + name_of(link->server) + ": ";
      switch (link->phase) {
        case Phase::Greeted:
          servers += "it is not ready yet";
          break;
        case Phase::Leaving:
          servers += "it is leaving";
          break;
        case Phase::Ready:
        case Phase::Waiting:
        case Phase::Connecting:
        case Phase::Lost:
        case Phase::Refused:
          servers += link->failure.empty() ? "no answer yet" : link->failure;
          break;
      }
      if (link->lost_at) servers += lost_text(data, *link->lost_at);
    }
    for (const auto& [server, gone] : data.gone) {
      if (!holds(server, part)) continue;
      servers += "; " + name_of(gone.server) + ": ";
      servers += gone.failure.empty() ? "it is not live any more" : gone.failure;
      servers += lost_text(data, gone.lost_at);
    }
    if (servers.empty()) {
      servers = "; none of server" + std::string(part < 0 ? "s 0, 1, ..." : "s ") +
                (part < 0 ? ""
                          : std::to_string(part) + ", " +
                                std::to_string(part + options_.partitions) + ", ...") +
                " has registered";
    }
    return fail(
        ErrorKind::PeerLost, message + servers + " (runPolicy.serverTimeoutSeconds bounds the wait)"
    );
  }

  void keep() {
    SystemClock clock;
    SystemRandom random;
    RunningTime running(clock.monotonic());
    while (true) {
      std::list<std::shared_ptr<Link>> ended;
      std::vector<std::pair<std::shared_ptr<Asked>, Error>> expired;
      {
        const auto data = data_.lock();
        if (data->closed) return;
        data->woken = false;
        data->now = running.advance(clock.monotonic());
        follow_directory(*data);
        lose_the_mute(*data);
        lose_the_slow(*data);
        ended = take_ended(*data, random);
        for (const auto& [server, link] : data->links)
          if (link->phase == Phase::Waiting && data->now >= link->retry_at) connect(*data, link);
        watch_parts(*data);
        send_waiting(*data);
        expired = take_expired(*data);
      }
      data_.notify_all();
      for (const auto& link : ended) end(*link);
      for (auto& [question, error] : expired) finish(*question, tl::unexpected(std::move(error)));
      auto data = data_.lock();
      data.wait_until(clock, clock.monotonic() + kTurn, [](const Data& all) {
        return all.closed || all.woken;
      });
    }
  }

  void follow_directory(Data& data) {
    const auto listing = directory_->read();
    if (listing->version == data.directory_version) return;
    data.directory_version = listing->version;
    std::map<int64_t, std::shared_ptr<Link>> links;
    for (const LiveServer& server : listing->servers) {
      if (is_own(server.server)) continue;
      const auto known = data.links.find(server.server);
      if (known != data.links.end() && known->second->server == server) {
        links.insert(data.links.extract(known));
      } else {
        links.emplace(server.server, std::make_shared<Link>(server));
      }
    }
    for (auto& [server, link] : data.links) {
      data.gone.insert_or_assign(
          server, Gone{link->server, link->failure, link->lost_at.value_or(data.now)}
      );
      data.retired.push_back(link);
    }
    data.links = std::move(links);
    std::erase_if(data.gone, [&](const auto& each) { return data.links.contains(each.first); });
  }

  // Connections that are over. Those of servers that are still listed are tried anew, in new links, as
  // answers of the old ones may still be on their way.
  std::list<std::shared_ptr<Link>> take_ended(Data& data, RandomSource& random) const {
    std::list<std::shared_ptr<Link>> ended;
    for (auto& [server, link] : data.links) {
      const bool lost =
          link->phase == Phase::Lost || (link->client != nullptr && link->client->lost());
      if (!lost || link->phase == Phase::Refused) continue;
      auto next = std::make_shared<Link>(link->server);
      next->tried = true;
      next->failure = link->failure.empty() ? "the connection broke" : link->failure;
      next->lost_at = link->lost_at;
      next->unlike = link->unlike;
      next->slow = link->slow;
      next->backoff = link->backoff;
      next->retry_at = data.now + next->backoff.next(random);
      ended.push_back(std::exchange(link, next));
    }
    for (auto link = data.retired.begin(); link != data.retired.end();) {
      const auto next = std::next(link);
      if ((*link)->asked.empty()) ended.splice(ended.end(), data.retired, link);
      link = next;
    }
    return ended;
  }

  void watch_parts(Data& data) const {
    std::vector<bool> held(data.unheld_since.size());
    for (const auto& [server, link] : data.links)
      if (usable(*link)) held[static_cast<size_t>(server % options_.partitions)] = true;
    if (is_server()) held[static_cast<size_t>(options_.identity.node % options_.partitions)] = true;
    for (size_t part = 0; part < held.size(); ++part) {
      auto& since = data.unheld_since[part];
      since = held[part] ? std::nullopt : std::optional(since.value_or(data.now));
    }
  }

  void send_waiting(Data& data) {
    for (auto& question : std::exchange(data.waiting, {})) send_or_wait(data, question);
  }

  std::vector<std::pair<std::shared_ptr<Asked>, Error>> take_expired(Data& data) const {
    std::vector<std::pair<std::shared_ptr<Asked>, Error>> expired;
    std::erase_if(data.waiting, [&](const std::shared_ptr<Asked>& question) {
      if (data.now - question->since < options_.server_timeout) return false;
      expired.emplace_back(question, no_holder(data, question->question.part).value());
      return true;
    });
    return expired;
  }

  const HoldersOptions options_;
  const rpc::Key key_;
  const std::shared_ptr<Directory> directory_;
  mutable Guarded<Data> data_;
  std::shared_ptr<void> subscription_;
  std::thread keeper_;
};

Result<std::shared_ptr<Holders>> Holders::create(
    std::shared_ptr<rpc::EventLoop> loop,
    const HoldersOptions& options,
    const rpc::Key& key,
    std::shared_ptr<Directory> directory
) {
  if (options.partitions < 1 || options.server_timeout <= Duration::zero()) {
    return fail(
        ErrorKind::Configuration,
        "expected at least one partition and a time-out of servers above 0, found " +
            std::to_string(options.partitions) + " and " + seconds_text(options.server_timeout)
    );
  }
  auto state = std::make_shared<State>(std::move(loop), options, key, std::move(directory));
  state->start();
  return std::shared_ptr<Holders>(new Holders(std::move(state)));
}

Holders::~Holders() {
  close();
}
Result<std::string> Holders::open() {
  return state_->open();
}
void Holders::ask(Question question) {
  state_->ask(std::move(question));
}
void Holders::close() {
  state_->close();
}
HoldersStats Holders::stats() const {
  return state_->stats();
}
std::vector<rpc::PeerStats> Holders::peer_stats() const {
  return state_->peer_stats();
}
void Holders::count_giving_up() {
  state_->count_giving_up();
}
void Holders::count_batch(int64_t bytes, const BatchTimes& times, double seconds) {
  state_->count_batch(bytes, times, seconds);
}

}  // namespace gnn::servers
