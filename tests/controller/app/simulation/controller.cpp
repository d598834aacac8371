#include "tests/controller/app/simulation/controller.h"

#include "controller/reconcile/queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gnn::simulation {
namespace {

constexpr Duration kDiscoveryInterval = std::chrono::minutes(10);
constexpr Duration kFirstDiscoveryInterval = std::chrono::seconds(5);

// As the controller loop's.
constexpr BackoffOptions kBackoff{
    .initial = std::chrono::milliseconds(5),
    .factor = 2.0,
    .cap = std::chrono::seconds(60),
    .jitter = 0.1
};

}  // namespace

Controller::Controller(Settings settings, World world)
    : settings_(std::move(settings)),
      world_(std::move(world)),
      machine_clock_(world_.time, settings_.clock_ahead),
      clock_(machine_clock_),
      job_metrics_(metrics_, clock_),
      tokens_(client::KubeConfig{}, clock_),
      transport_(
          world_.server, world_.time, world_.dice, world_.faults, settings_.name, world_.hooks
      ),
      api_(
          transport_,
          tokens_,
          clock_,
          metrics_,
          {.may_write = [this] { return leads_; },
           .on_date = [this](TimePoint date, Duration took) { clock_.see(date, took); }}
      ),
      event_api_(world_.events, tokens_, event_clock_, metrics_),
      executor_(
          api_,
          caches_,
          parallel_,
          clock_,
          [&dice = world_.dice]() -> Result<std::string> {
            return std::string(kDataKeyMark) + std::to_string(dice.next());
          }
      ),
      apis_(
          api_,
          settings_.groups ? std::vector{objects::GroupApi::Coscheduling}
                           : std::vector<objects::GroupApi>(),
          settings_.kueue
      ),
      recorder_(
          event_api_,
          {.correlator = {},
           .controller = "controller",
           .instance = settings_.name,
           .writers = 1,
           .writes_per_second = 1e6},
          event_clock_,
          metrics_
      ),
      reconciler_(
          caches_,
          executor_,
          recorder_,
          job_metrics_,
          clock_,
          options(),
          [](const ObjectKey&, Duration) {}
      ),
      feed_(world_.server, caches_),
      backoff_(kBackoff) {
  app::on_job_change(caches_, [this](const ObjectKey& key) { add(key, Duration::zero()); });
  executor_.on_unserved_api([this] { next_discovery_ = world_.time.passed(); });
  feed_.list_all();
}

app::ReconcilerOptions Controller::options() {
  app::ReconcilerOptions options;
  options.poll_progress = false;
  options.draw_data_key_suffix = [&dice = world_.dice]() -> Result<std::string> {
    std::string suffix;
    while (suffix.size() < 32) suffix += "0123456789abcdef"[dice.below(16)];
    return suffix;
  };
  options.config.kueue = settings_.kueue;
  if (settings_.groups) options.config.group_apis = {objects::GroupApi::Coscheduling};
  options.optional_apis = [this] { return optional_apis(); };
  options.time = [this] { return clock_.read(); };
  options.busy = [this](const std::string&) { return settings_.busy; };
  return options;
}

std::vector<std::string> Controller::optional_kinds() const {
  std::vector<std::string> kinds;
  if (settings_.kueue) kinds.push_back(kinds::kWorkloads);
  if (settings_.groups) kinds.push_back(kinds::kGroups);
  return kinds;
}

app::OptionalApis Controller::optional_apis() const {
  constexpr auto kApi = objects::GroupApi::Coscheduling;
  app::OptionalApis known;
  if (!apis_.served()) {
    if (settings_.kueue) known.kueue_unknown = apis_.why_unknown();
    if (settings_.groups) known.unknown_groups.emplace(kApi, apis_.why_unknown());
    return known;
  }
  if (feed_.watches(kinds::kWorkloads)) known.kueue = apis_.kueue();
  if (feed_.watches(kinds::kGroups) && is_served(kinds::kGroups)) known.groups.push_back(kApi);
  return known;
}

bool Controller::is_served(const std::string& kind) const {
  if (kind == kinds::kWorkloads) return apis_.kueue().has_value();
  const auto groups = apis_.served();
  return groups && !groups->empty();
}

void Controller::lead() {
  leads_ = true;
  feed_.list_all();
  clock_.see(world_.time.now(), Duration::zero());  // the lists' replies
  discovery_interval_ = kFirstDiscoveryInterval;
  next_discovery_ = world_.time.passed();
  for (const auto& job : caches_.jobs.all()) {
    add({job->metadata.namespace_, job->metadata.name}, Duration::zero());
  }
  next_stray_look_ = world_.time.passed();
}

// While no controller watched, a user may have taken the label off a pod.
void Controller::look_for_strays() {
  next_stray_look_.reset();
  const auto done = app::find_stray_pods(api_, "", {}, [this](const objects::ObjectMeta& meta) {
    caches_.strays.add(meta);
    add(app::job_of_stray(meta), Duration::zero());
  });
  if (!done) next_stray_look_ = world_.time.passed() + std::chrono::seconds(1);
}

void Controller::add(const ObjectKey& key, Duration delay) {
  const Duration due = world_.time.passed() + delay;
  const auto [known, is_new] = queue_.try_emplace(key, due);
  if (!is_new) known->second = std::min(known->second, due);
}

bool Controller::see_something() {
  // As the reflector that lists an API that is not served any more.
  for (const std::string& kind : optional_kinds()) {
    if (!feed_.watches(kind) || world_.server.serves(kind)) continue;
    feed_.watch(kind, false);
    discovery_interval_ = kFirstDiscoveryInterval;
    next_discovery_ = world_.time.passed() + kFirstDiscoveryInterval;
    return true;
  }
  return feed_.show_one(world_.dice, world_.time.passed());
}

void Controller::see_everything() {
  while (see_something()) {
  }
  feed_.show_all();
}

void Controller::discover() {
  next_discovery_.reset();
  if (optional_kinds().empty()) return;
  if (!apis_.discover()) {
    next_discovery_ = world_.time.passed() + kFirstDiscoveryInterval;
    return;
  }
  for (const std::string& kind : optional_kinds()) {
    if (!is_served(kind) || feed_.watches(kind)) continue;
    feed_.watch(kind, true);
    look_at_all();
  }
  next_discovery_ = world_.time.passed() + discovery_interval_;
  discovery_interval_ = std::min(2 * discovery_interval_, kDiscoveryInterval);
}

std::optional<Duration> Controller::next_due() const {
  std::optional<Duration> next;
  for (const auto& [key, due] : queue_) {
    if (leads_ && (!next || due < *next)) next = due;
  }
  return next;
}

bool Controller::work() {
  if (!leads_) return false;
  if (next_discovery_ && *next_discovery_ <= world_.time.passed()) {
    discover();
    return true;
  }
  if (next_stray_look_ && *next_stray_look_ <= world_.time.passed()) {
    look_for_strays();
    return true;
  }
  std::vector<ObjectKey> due;
  for (const auto& [key, when] : queue_) {
    if (when <= world_.time.passed()) due.push_back(key);
  }
  if (due.empty()) return false;
  const ObjectKey key = world_.dice.pick(due);
  queue_.erase(key);
  note_view(key);
  world_.passes(key);
  take_outcome(key, reconciler_.reconcile(key));
  return true;
}

void Controller::take_outcome(const ObjectKey& key, const runtime::Outcome& outcome) {
  if (const auto* retry = std::get_if<runtime::Retry>(&outcome)) {
    const Duration pause = backoff_.next(key, world_.dice);
    return add(key, std::max(pause, retry->at_least.value_or(Duration::zero())));
  }
  backoff_.forget(key);
  if (const auto* later = std::get_if<runtime::RequeueAfter>(&outcome)) add(key, later->delay);
}

void Controller::look_at_all() {
  for (const auto& job : caches_.jobs.all()) {
    add({job->metadata.namespace_, job->metadata.name}, Duration::zero());
  }
}

void Controller::note_view(const ObjectKey& key) {
  view_ = {.job = key};
  const auto job = caches_.jobs.find(key);
  if (!job || !settings_.kueue) return;
  view_.queued = job->metadata.labels.contains(std::string(objects::kueue::kLabelQueue));
  for (const auto& each : caches_.workloads_v1beta2.group(objects::to_string(key))) {
    const bool admitted = objects::is_true(*each, objects::kueue::kAdmitted) &&
                          !objects::is_true(*each, objects::kueue::kEvicted) &&
                          !objects::is_true(*each, objects::kueue::kFinished) &&
                          !each->metadata.deletion_timestamp && each->admission;
    view_.admitted = view_.admitted || admitted;
  }
}

}  // namespace gnn::simulation
