#include "tests/controller/app/simulation/world.h"

#include "common/hash.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gnn::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLongCalm = std::chrono::hours(4);
constexpr int kMostCalmRounds = 2000;
constexpr int kMostPassesAtOnce = 300;
constexpr Duration kRenewInterval = seconds(2);
// As many as the clock remembers.
constexpr int kRenewals = 60;
const std::string kControllers = "controller-";

bool is_controller(const std::string& actor) {
  return actor.starts_with(kControllers);
}

}  // namespace

World::World(WorldOptions options)
    : options_(std::move(options)),
      dice_(options_.seed),
      kueue_(dice_.chance(0.5)),
      groups_(dice_.chance(0.3)),
      busy_(dice_.chance(0.2)),
      clock_ahead_(dice_.chance(0.2) ? seconds(dice_.between(-3600, 3600)) : seconds(0)),
      faults_{
          .rate = dice_.pick<double>({0, 0.02, 0.1, 0.3}),
          .kills = dice_.pick<double>({0, 0.005, 0.03}),
          .wrong_clock = dice_.chance(0.2)
      },
      rules_(time_),
      server_(
          time_,
          [this](const std::string& kind, Json& object) { return users_.admit(kind, object); },
          [this](const std::string& kind, const Change& change, const std::string& actor) {
            tell(kind, change, actor);
          }
      ),
      cluster_(server_, time_, dice_),
      queue_(server_, dice_),
      users_(server_, dice_, kueue_, groups_) {
  queue_.set_up();
}

std::optional<Violation> World::play() {
  users_.create_job();
  leader_ = start_controller();
  leader_->lead();
  for (int i = 0; i < options_.steps && !rules_.violation(); ++i) step();
  if (!rules_.violation()) calm();
  if (!rules_.violation()) set_clocks();
  if (!rules_.violation()) rules_.check_end(server_);
  if (!rules_.violation()) quiet();
  leader_.reset();  // its events are written by now
  for (const std::string& body : events_.bodies()) rules_.see_event(body);
  for (const auto& [key, job] : server_.all(kinds::kJobs)) {
    finished_ += condition_holds(*job, "Complete") || condition_holds(*job, "Failed") ? 1U : 0U;
  }
  return rules_.violation();
}

void World::step() {
  act();
  const size_t shown = dice_.below(6);
  for (size_t i = 0; i < shown; ++i) {
    if (!leader_->see_something()) break;
  }
  if (dice_.chance(0.02)) leader_->relist();
  if (dice_.chance(0.02)) leader_->blind(seconds(dice_.between(1, 200)));
  if (dice_.chance(0.01)) return restart();
  if (dice_.chance(0.7)) work();
  pass_time(
      dice_.chance(0.03)  ? seconds(dice_.between(30, 700))
      : dice_.chance(0.3) ? seconds(dice_.between(1, 15))
                          : milliseconds(dice_.between(1, 900))
  );
}

// The leader renews its Lease all the time.
void World::pass_time(Duration by) {
  const Duration renewed = std::min<Duration>(by, kRenewals * kRenewInterval);
  time_.advance(by - renewed);
  for (Duration passed{0}; passed < renewed; passed += kRenewInterval) {
    time_.advance(std::min(kRenewInterval, renewed - passed));
    if (leader_) leader_->renew();
  }
}

void World::act() {
  if (dice_.chance(0.7)) {
    cluster_.act();
  } else if (dice_.chance(0.3)) {
    users_.act();
  } else if (dice_.chance(0.4)) {
    cluster_.collect();
  } else if (kueue_) {
    queue_.act();
  }
}

void World::work() {
  try {
    static_cast<void>(leader_->work());
  } catch (const Killed&) {
    restart();
  }
  former_.clear();
}

// Others act while a request is on its way; rarely, another controller takes over.
void World::meanwhile(const Controller* controller) {
  if (!hostile_ || depth_ > 0) return;
  ++depth_;
  if (dice_.chance(0.2)) act();
  if (dice_.chance(0.1)) static_cast<void>(leader_->see_something());
  if (dice_.chance(0.002) && controller == leader_.get()) take_over();
  --depth_;
}

void World::take_over() {
  note("another controller takes over");
  leader_->lose();
  former_.push_back(std::move(leader_));
  pass_time(seconds(dice_.between(2, 15)));
  leader_ = start_controller();
  leader_->lead();
  const size_t passes = dice_.below(6);
  for (size_t i = 0; i < passes; ++i) {
    try {
      static_cast<void>(leader_->see_something());
      static_cast<void>(leader_->work());
    } catch (const Killed&) {
      leader_ = start_controller();
      leader_->lead();
    }
  }
}

void World::restart() {
  note("the controller is killed");
  leader_.reset();
  const size_t missed = dice_.below(4);
  for (size_t i = 0; i < missed; ++i) act();
  pass_time(seconds(dice_.between(0, 15)));
  leader_ = start_controller();
  leader_->lead();
}

std::unique_ptr<Controller> World::start_controller() {
  const std::string name = kControllers + std::to_string(++controllers_);
  // The controller is known only after its construction, which sends nothing.
  const auto self = std::make_shared<const Controller*>(nullptr);
  auto controller = std::make_unique<Controller>(
      Controller::Settings{
          .name = name,
          .kueue = kueue_,
          .groups = groups_,
          .clock_ahead = clock_ahead_,
          .busy = busy_
      },
      Controller::World{
          .server = server_,
          .time = time_,
          .dice = dice_,
          .faults = faults_,
          .hooks = {
              .meanwhile = [this, self] { meanwhile(*self); },
              .arrives = [this,
                          name](client::HttpRequest& request) { return arrives(request, name); }
          },
          .events = events_,
          .passes =
              [this, name](const ObjectKey& key) {
                ++passes_;
                if (options_.records) note("pass of " + objects::to_string(key));
                if (options_.planted.beside_pass) send_planted(name);
              }
      }
  );
  *self = controller.get();
  return controller;
}

std::optional<client::HttpResponse> World::arrives(
    client::HttpRequest& request, const std::string& actor
) {
  std::optional<client::HttpResponse> reply;
  if (options_.planted.in_request) reply = options_.planted.in_request(request, server_, actor);
  if (options_.records && request.method != "GET") {
    note(actor + ": " + request.method + " " + request.path + " " + request.body.substr(0, 300));
  }
  rules_.see_request(request);
  return reply;
}

void World::send_planted(const std::string& actor) {
  for (client::HttpRequest& request : options_.planted.beside_pass(server_)) {
    if (!arrives(request, actor)) static_cast<void>(server_.handle(request, actor));
  }
}

void World::tell(const std::string& kind, const Change& change, const std::string& actor) {
  digest_ = digest_ * 31 + fnv1a(change.after->dump());
  if (options_.records) {
    const Json& after = *change.after;
    std::string line = actor + (change.gone ? " ends " : change.before ? " changes " : " makes ");
    line += kind + " " + objects::to_string(key_in(after)) + " (" + uid_in(after) + ", " +
            std::to_string(change.version) + ")";
    if (is_deleted(after)) line += ", to go at " + text_at(after, "/metadata/deletionTimestamp");
    if (change.before) line += ": " + Json::diff(*change.before, after).dump().substr(0, 1500);
    note(line);
  }
  const bool leads =
      leader_ && is_controller(actor) && actor == kControllers + std::to_string(controllers_);
  const auto view = leads ? std::optional(leader_->view()) : std::nullopt;
  rules_.see_change(server_, kind, change, is_controller(actor), view);
}

void World::note(const std::string& line) {
  if (!options_.records) return;
  const double passed = std::chrono::duration<double>(time_.passed()).count();
  history_.push_back(std::to_string(passed) + " s: " + line);
}

// The world answers: what is asked of it is done, and nothing fails.
void World::calm() {
  note("from now on the world answers");
  hostile_ = false;
  faults_.on = false;
  users_.make_way();
  const Duration end = time_.passed() + kLongCalm;
  int idle = 0;
  for (int i = 0; i < kMostCalmRounds && time_.passed() < end && !rules_.violation(); ++i) {
    const int64_t before = server_.version();
    cluster_.answer();
    users_.make_way();
    if (kueue_) queue_.answer();
    settle();
    idle = server_.version() == before ? idle + 1 : 0;
    const auto next = leader_->next_due();
    if (idle > 3 && !next && leader_->knows_the_world()) return;
    const Duration wait = next ? *next - time_.passed() : Duration(seconds(5));
    pass_time(std::clamp<Duration>(wait, seconds(1), idle > 3 ? kLongCalm : seconds(5)));
  }
}

// The clock forgets wrong times, and each job is looked at by the right one.
void World::set_clocks() {
  pass_time(2 * kRenewals * kRenewInterval);
  leader_->look_at_all();
  settle();
}

// Passes until none is due.
void World::settle() {
  for (int i = 0; i < kMostPassesAtOnce && !rules_.violation(); ++i) {
    leader_->see_everything();
    if (!leader_->work()) return;
  }
  if (!rules_.violation()) rules_.see_restless_passes();
}

void World::quiet() {
  note("from now on nothing must be written");
  rules_.expect_quiet();
  for (int i = 0; i < 3 && !rules_.violation(); ++i) {
    cluster_.answer();
    leader_->look_at_all();
    settle();
    pass_time(std::chrono::minutes(20));
  }
}

}  // namespace gnn::simulation
