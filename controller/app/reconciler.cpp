#include "controller/app/reconciler.h"

#include "common/log.h"
#include "controller/app/data_key.h"
#include "controller/reconcile/data_key.h"
#include "controller/reconcile/scheduling.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <variant>

namespace gnn::app {
namespace {

using objects::ObjectKey;

// An object that cannot be read causes no event when it is deleted.
constexpr auto kUnreadableJobRetry = std::chrono::minutes(1);
// From where on the time's uncertainty is more than what whole seconds of dates make.
constexpr auto kDoubtfulTime = std::chrono::seconds(5);
constexpr auto kTimeInterval = std::chrono::seconds(2);
constexpr Duration kConfirmation = std::chrono::seconds(5);
// A job that the cache has no room for is read at each pass: for a bounded number of a namespace.
constexpr auto kLeftOutInterval = std::chrono::minutes(1);
constexpr size_t kMostLeftOut = 256;

// A change that a webhook undoes leaves the object as it was, and then no watch event tells of it.
bool changed_objects(const Execution& execution) {
  return std::ranges::any_of(execution.done, [](const reconcile::Action* action) {
    return !reconcile::is_create(*action);
  });
}

// What has come, but not for certain, is looked at soon: replies tell more.
Duration wait_until(TimePoint due, const client::ServerClock::Reading& time) {
  if (due > time.now) return due - time.now;
  return std::clamp<Duration>(due - time.earliest, Duration::zero(), kConfirmation);
}

runtime::Outcome retry(const client::ApiError& error) {
  return runtime::Retry{.error = error.message, .at_least = error.retry_after};
}

}  // namespace

Reconciler::Reconciler(
    Caches& caches,
    Executor& executor,
    runtime::EventRecorder& events,
    JobMetrics& metrics,
    Clock& clock,
    ReconcilerOptions options,
    std::function<void(const ObjectKey&, Duration)> watch_progress
)
    : caches_(caches),
      executor_(executor),
      events_(events),
      metrics_(metrics),
      clock_(clock),
      options_(std::move(options)),
      watch_progress_(std::move(watch_progress)),
      pace_(options_.progress_interval) {}

runtime::Outcome Reconciler::reconcile(const ObjectKey& key) {
  if (const auto job = caches_.jobs.find(key)) return pass(key, job);
  const bool is_left_out =
      caches_.memory.is_left_out(client::resource_of<api::GnnJob>().label, key);
  return is_left_out ? reconcile_left_out(key) : clean_up(key);
}

runtime::Outcome Reconciler::reconcile_left_out(const ObjectKey& key) {
  if (!remember_left_out(key)) return runtime::Done{};
  const auto job = executor_.read_left_out_job(key);
  if (!job) return retry(job.error());
  if (*job == nullptr) {
    forget_left_out(key);
    return clean_up(key);
  }
  runtime::Outcome outcome = pass(key, *job);
  if (caches_.jobs.find(key) != nullptr) {
    forget_left_out(key);
    return outcome;
  }
  const bool comes_again = !std::holds_alternative<runtime::Done>(outcome);
  return comes_again ? outcome : runtime::RequeueAfter{kLeftOutInterval};
}

bool Reconciler::remember_left_out(const ObjectKey& key) {
  auto left_out = left_out_.lock();
  std::set<std::string>& names = (*left_out)[key.namespace_];
  if (names.size() < kMostLeftOut) names.insert(key.name);
  return names.contains(key.name);
}

void Reconciler::forget_left_out(const ObjectKey& key) {
  auto left_out = left_out_.lock();
  const auto found = left_out->find(key.namespace_);
  if (found == left_out->end()) return;
  found->second.erase(key.name);
  if (found->second.empty()) left_out->erase(found);
}

runtime::Outcome Reconciler::pass(
    const ObjectKey& key, const std::shared_ptr<const api::GnnJob>& cached
) {
  reconcile::Observed observed = observe(*cached, key);
  if (observed.now_ahead_at_most > kDoubtfulTime) ask_the_time(key);
  if (const auto error = look_for_strays(key, observed.pods)) return retry(*error);
  if (const auto error = look_at_pods_ahead(key, observed)) return retry(*error);
  if (const auto error = look_for_missed_pods(observed)) return retry(*error);
  if (const auto error = look_at_queue(observed)) return retry(*error);
  if (const Status drawn = name_data_key(observed); !drawn) {
    return runtime::Retry{.error = drawn.error().message, .at_least = {}};
  }
  look_at_events(observed);
  reconcile::Plan plan = reconcile::plan(observed);
  const api::GnnJob& job = observed.job;
  api::GnnJob shown = job;
  shown.status = plan.status;
  await_turn(observed, plan);
  Execution execution = executor_.execute(plan, job);
  remember(observed, plan, execution);

  const bool refused = !execution.refusals.empty();
  const bool repeated = reconcile::same_refusals(execution.refusals, observed.refusals);
  const runtime::RequeueAfter after_refusal{
      repeated ? plan.requeue_if_refused.repeated : plan.requeue_if_refused.changed
  };
  if (!repeated) log_refusals(key, execution.refusals);
  if (execution.error) return retry(*execution.error);
  if (refused && plan.status_needs_success) return after_refusal;

  if (execution.status_written) {
    log_written(key, job.status, plan.status);
    metrics_.count_change(job, plan.status);
  }
  metrics_.show(shown);
  record_events(plan, job);
  if (options_.poll_progress && progress_address(shown)) watch_progress_(key, pace_.watch(key));
  if (refused) return after_refusal;
  // What was announced is acted upon by the next pass; no watch event calls for that.
  const bool announced =
      execution.status_written && plan.status.conditions != job.status.conditions;
  if (announced || changed_objects(execution)) return runtime::RequeueAfter{Duration::zero()};
  if (plan.requeue_after) return runtime::RequeueAfter{*plan.requeue_after};
  return runtime::Done{};
}

void Reconciler::await_turn(const reconcile::Observed& observed, reconcile::Plan& plan) {
  if (!plan.is_progress) return;
  const api::GnnJob& job = observed.job;
  const std::string name =
      objects::to_string(ObjectKey{job.metadata.namespace_, job.metadata.name});
  const auto wait = turns_.lock()->ask(name, observed.status_written, clock_.monotonic());
  if (!wait) return;
  plan.status = job.status;
  plan.requeue_after = std::min(plan.requeue_after.value_or(*wait), *wait);
}

void Reconciler::remember(
    const reconcile::Observed& observed, const reconcile::Plan& plan, Execution& execution
) {
  const api::GnnJob& job = observed.job;
  const ObjectKey key{job.metadata.namespace_, job.metadata.name};
  auto memories = memory_.lock();
  Memory& memory = (*memories)[key];
  memory.awaits_culprit_since = plan.awaits_culprit_since;
  if (execution.data_key_made) {
    memory.new_data_key.made = true;
  } else if (execution.error && !memory.new_data_key.made) {
    memory.new_data_key = {};  // A Secret of that name may exist, and may be anybody's.
  }
  count_writes(key, execution, observed.now, memory);
  if (!plan.actions.empty()) {
    report_lasting_failure(memory, observed.now, execution);
    memory.refused_in_a_row = execution.refusals.empty() ? 0 : memory.refused_in_a_row + 1;
    memory.refusals = execution.refusals;
  }
  if (!execution.status_written) return;
  const int64_t cut_before = memory.cut_status ? memory.cut_status->in_a_row : 0;
  const TimePoint written_before = memory.status_written.value_or(observed.now);
  memory.status_written = observed.now;
  const bool counts =
      plan.status.nodes != job.status.nodes || plan.status.servers != job.status.servers;
  if (counts) memory.counts_written = observed.now;
  memory.cut_status.reset();
  const auto kept = caches_.jobs.find(key);
  if (kept != nullptr && kept->status != plan.status) {
    memory.cut_status = {
        .sent = plan.status,
        .kept = kept->status,
        .in_a_row = reconcile::count_cut_status(cut_before, written_before, observed.now)
    };
  }
}

void Reconciler::report_lasting_failure(Memory& memory, TimePoint now, Execution& execution) const {
  std::optional<TimePoint>& since = memory.failing_since;
  if (!execution.failing) return since.reset();
  since = std::min(since.value_or(now), now);
  if (now < *since + options_.failing_patience) return;
  execution.refusals.push_back(std::move(*execution.failing));
  execution.error.reset();
}

void Reconciler::count_writes(
    const ObjectKey& key, const Execution& execution, TimePoint now, Memory& memory
) const {
  for (const reconcile::Action* action : execution.done) {
    const auto contested = reconcile::count_write(memory.writes, *action, now);
    if (!contested) continue;
    log_warning(
        "a write does not last, and is repeated with back-off: an admission webhook or another "
        "controller keeps undoing it",
        {{"job", objects::to_string(key)}, {"write", *contested}}
    );
  }
}

// The status tells of those for which no pod can start; of others, only the log does.
void Reconciler::log_refusals(
    const ObjectKey& key, const std::vector<reconcile::ApiRefusal>& refusals
) const {
  for (const reconcile::ApiRefusal& each : refusals) {
    log_warning(
        "refused by the API server",
        {{"job", objects::to_string(key)}, {"object", each.object}, {"error", each.message}}
    );
  }
}

// Of a thousand jobs that train, the progress would fill the log.
void Reconciler::log_written(
    const ObjectKey& key, const api::GnnJobStatus& before, const api::GnnJobStatus& after
) const {
  const bool news =
      after.state != before.state || after.attempt != before.attempt || after.nodes != before.nodes;
  log(news ? LogLevel::Info : LogLevel::Debug,
      "status written",
      {{"job", objects::to_string(key)},
       {"attempt", after.attempt},
       {"state", after.state},
       {"ready", after.nodes.ready},
       {"desired", after.nodes.desired}});
}

runtime::Outcome Reconciler::clean_up(const ObjectKey& key) {
  Memory memory = recall(key, "");
  memory_.lock()->erase(key);
  metrics_.remove(key.namespace_, key.name);
  std::vector<objects::Pod> pods;
  for (const auto& pod : caches_.pods.group(objects::to_string(key))) pods.push_back(*pod);
  if (const auto error = look_for_strays(key, pods)) return retry(*error);
  std::vector<objects::Workload> workloads;
  // While they are not known, they wait: when they are, each has its job looked at.
  if (const auto version = options_.optional_apis().kueue) {
    workloads = workloads_of(caches_, *version, objects::to_string(key));
  }
  const client::ServerClock::Reading time = read_time();
  if (time.now - time.earliest > kDoubtfulTime) ask_the_time(key);
  // What may be lost is given up once it is so for certain.
  const TimePoint now = time.earliest;
  const auto release_all = [&] {
    return reconcile::release_orphaned_workloads(workloads, pods, now, options_.config.lost_after);
  };
  const reconcile::OrphanedWorkloads orphaned = release_all();
  if (reconcile::release_orphans(pods).empty() && orphaned.actions.empty()) {
    if (orphaned.next) return runtime::RequeueAfter{wait_until(*orphaned.next, time)};
    return runtime::Done{};
  }
  // A job that is not cached may be one that this version cannot read. Its pods stay as they are.
  const auto living = executor_.read_job_uid(key);
  if (!living) return retry(living.error());
  const auto lives = [&](const auto& object) {
    const objects::OwnerReference* owner = objects::controller_of(object.metadata);
    return *living && owner != nullptr && owner->uid == **living;
  };
  std::erase_if(pods, lives);
  std::erase_if(workloads, lives);
  auto actions = reconcile::release_orphans(pods);
  reconcile::OrphanedWorkloads released = release_all();
  for (auto& each : released.actions) actions.push_back(std::move(each));
  if (actions.empty()) return runtime::RequeueAfter{kUnreadableJobRetry};
  const reconcile::PacedActions paced =
      reconcile::pace(memory.writes, std::move(actions), time.now);
  const Execution execution = executor_.execute(paced.now, key.namespace_);
  count_writes(key, execution, time.now, memory);
  (*memory_.lock())[key] = {.uid = {}, .writes = std::move(memory.writes)};
  if (execution.error) return retry(*execution.error);
  if (!execution.refusals.empty()) {
    return runtime::Retry{.error = execution.refusals.front().message, .at_least = {}};
  }
  constexpr Duration kNever = Duration::max();
  const Duration next = std::min(
      paced.next ? *paced.next - time.now : kNever,
      released.next ? wait_until(*released.next, time) : kNever
  );
  if (next != kNever) return runtime::RequeueAfter{next};
  return runtime::Done{};
}

reconcile::Observed Reconciler::observe(const api::GnnJob& job, const ObjectKey& key) {
  reconcile::Observed observed;
  observed.job = job;
  for (const auto& pod : caches_.pods.group(objects::to_string(key))) {
    observed.pods.push_back(*pod);
  }
  const ObjectKey child{key.namespace_, contract::child_name(key.name)};
  if (const auto found = caches_.services.find(child)) observed.service = *found;
  if (const auto found = caches_.config_maps.find(child)) observed.config_map = *found;
  if (const auto found = caches_.network_policies.find(child)) observed.network_policy = *found;
  OptionalApis apis;
  if (job.spec.scheduling || options_.config.kueue) apis = options_.optional_apis();
  if (job.spec.scheduling) {
    observed.groups = groups_of(caches_, objects::to_string(key));
    observed.group_apis = std::move(apis.groups);
    observed.unknown_group_apis = std::move(apis.unknown_groups);
  }
  if (options_.config.kueue) {
    observed.kueue = apis.kueue;
    observed.kueue_unknown = std::move(apis.kueue_unknown);
  }
  if (observed.kueue) {
    observed.workloads = workloads_of(caches_, *observed.kueue, objects::to_string(key));
  }
  Memory memory = recall(key, job.metadata.uid);
  observed.progress = std::move(memory.report);
  observed.refusals = std::move(memory.refusals);
  observed.refused_in_a_row = memory.refused_in_a_row;
  observed.status_written = memory.status_written;
  observed.counts_written = memory.counts_written;
  observed.cut_status = std::move(memory.cut_status);
  observed.writes = std::move(memory.writes);
  observed.awaits_culprit_since = memory.awaits_culprit_since;
  for (const objects::Pod& pod : observed.pods) {
    if (memory.impostors.contains(pod.metadata.uid)) observed.impostors.insert(pod.metadata.uid);
    const auto trouble = memory.start_troubles.find(pod.metadata.uid);
    if (trouble != memory.start_troubles.end()) observed.start_troubles.insert(*trouble);
  }
  observed.memory_limit = caches_.memory.complaint(key.namespace_);
  observed.config = options_.config;
  observed.busy = options_.busy(key.namespace_);
  observed.waits_for_workers = options_.was_held_back(key.namespace_);
  look_at_clock(observed);
  if (reconcile::wants_competitors(observed)) observed.older_gang = find_older_gang(job);
  return observed;
}

client::ServerClock::Reading Reconciler::read_time() const {
  if (options_.time) return options_.time();
  const TimePoint own = clock_.now();
  return {.now = own, .earliest = own, .latest = own};
}

void Reconciler::look_at_clock(reconcile::Observed& observed) const {
  const client::ServerClock::Reading time = read_time();
  observed.now = time.now;
  observed.now_ahead_at_most = time.now - time.earliest;
  observed.now_behind_at_most = time.latest - time.now;
  // What was remembered while the clock was ahead.
  const auto bound = [&](std::optional<TimePoint>& stamp) {
    if (stamp) stamp = std::min(*stamp, time.now);
  };
  bound(observed.status_written);
  bound(observed.counts_written);
  bound(observed.awaits_culprit_since);
  for (reconcile::ApiRefusal& each : observed.refusals) each.time = std::min(each.time, time.now);
}

void Reconciler::ask_the_time(const ObjectKey& job) {
  {
    auto asked = asked_the_time_.lock();
    if (*asked && clock_.monotonic() < **asked + kTimeInterval) return;
    *asked = clock_.monotonic();
  }
  (void)executor_.read_job_uid(job);
}

std::optional<client::ApiError> Reconciler::look_for_strays(
    const ObjectKey& job, std::vector<objects::Pod>& pods
) {
  for (const ObjectKey& key : caches_.strays.of(objects::to_string(job))) {
    const auto cached = caches_.pods.find(key);
    if (cached && cached->metadata.labels.contains(std::string(contract::kLabelJob))) {
      caches_.strays.forget(key);  // its label is back
      continue;
    }
    auto found = executor_.read_pod(key);
    if (!found) return found.error();
    if (!*found || !is_held_or_runs(**found)) {
      caches_.strays.forget(key);
      continue;
    }
    std::erase_if(pods, [&](const objects::Pod& pod) { return pod.metadata.name == key.name; });
    pods.push_back(std::move(**found));
  }
  return std::nullopt;
}

// The job is read once for each such pod: one that was there before the job knew of it stays none of its.
std::optional<client::ApiError> Reconciler::look_at_pods_ahead(
    const ObjectKey& key, reconcile::Observed& observed
) {
  if (reconcile::pods_ahead(observed).empty()) return std::nullopt;
  auto read = executor_.read_job(key);
  if (!read) return read.error();
  // The cache will soon tell of one that is gone, or another.
  if (!*read || (*read)->metadata.uid != observed.job.metadata.uid) return std::nullopt;
  observed.job = std::move(**read);
  for (const std::string& uid : reconcile::pods_ahead(observed)) {
    observed.impostors.insert(uid);
    const auto pod = std::ranges::find(observed.pods, uid, [](const objects::Pod& each) {
      return each.metadata.uid;
    });
    log_warning(
        "a pod names the job as its controller, but is none of its pods",
        {{"job", objects::to_string(key)}, {"pod", pod->metadata.name}}
    );
  }
  (*memory_.lock())[key].impostors = observed.impostors;
  return std::nullopt;
}

void Reconciler::look_at_events(reconcile::Observed& observed) {
  const auto pod = reconcile::pod_to_explain(observed);
  if (!pod) return;
  observed.start_troubles[pod->uid] = {
      .text = executor_.read_start_trouble(*pod), .read = observed.now
  };
  const api::JobMetadata& job = observed.job.metadata;
  (*memory_.lock())[{job.namespace_, job.name}].start_troubles = observed.start_troubles;
}

std::optional<client::ApiError> Reconciler::look_for_missed_pods(reconcile::Observed& observed) {
  for (const std::string& name : reconcile::vanished_pods(observed)) {
    auto found = executor_.read_pod({observed.job.metadata.namespace_, name});
    if (!found) return found.error();
    if (!*found) break;  // one that is missing restarts the gang
    observed.pods.push_back(std::move(**found));
  }
  for (const std::string& name : reconcile::vanished_server_pods(observed)) {
    auto found = executor_.read_pod({observed.job.metadata.namespace_, name});
    if (!found) return found.error();
    if (*found) observed.pods.push_back(std::move(**found));
  }
  return std::nullopt;
}

Status Reconciler::name_data_key(reconcile::Observed& observed) {
  const api::JobMetadata& job = observed.job.metadata;
  auto memories = memory_.lock();
  reconcile::NewDataKey& key = (*memories)[{job.namespace_, job.name}].new_data_key;
  if (!reconcile::wants_data_key(observed)) {
    key = {};
    return {};
  }
  if (key.suffix.empty()) {
    GNN_ASSIGN_OR_RETURN(key.suffix, options_.draw_data_key_suffix());
  }
  observed.new_data_key = key;
  return {};
}

std::optional<client::ApiError> Reconciler::look_at_queue(reconcile::Observed& observed) {
  const reconcile::QueueNeeds needs = reconcile::queue_needs(observed);
  if (needs.workload) {
    auto found = executor_.read_workload(
        *observed.kueue, {observed.job.metadata.namespace_, *needs.workload}
    );
    if (!found) return found.error();
    if (*found) observed.workloads.push_back(std::move(**found));
  }
  if (needs.priority_class) {
    auto value = executor_.read_priority(*observed.kueue, *needs.priority_class);
    if (!value) return value.error();
    observed.priority = *value;
  }
  for (const std::string& name : needs.flavors) {
    auto flavor = executor_.read_flavor(*observed.kueue, name);
    if (!flavor) return flavor.error();
    if (*flavor) observed.flavors.emplace(name, std::move(**flavor));
  }
  return std::nullopt;
}

std::optional<std::string> Reconciler::find_older_gang(const api::GnnJob& job) const {
  for (const auto& other : caches_.jobs.group(job.metadata.namespace_)) {
    if (!reconcile::is_older_gang_in_placement(*other, job)) continue;
    const ObjectKey key{other->metadata.namespace_, other->metadata.name};
    if (caches_.pods.group_size(objects::to_string(key)) > 0) return key.name;
  }
  return std::nullopt;
}

std::optional<std::string> Reconciler::progress_address(const api::GnnJob& job) const {
  const auto pod = caches_.pods.find({job.metadata.namespace_, reconcile::progress_pod(job)});
  return pod == nullptr ? std::nullopt : reconcile::progress_address(job, *pod);
}

void Reconciler::record_events(const reconcile::Plan& plan, const api::GnnJob& job) {
  for (const reconcile::EventRecord& record : plan.events) {
    runtime::EventText text;
    text.regarding.api_version = contract::kApiGroupVersion;
    text.regarding.kind = contract::kKind;
    text.regarding.namespace_ = job.metadata.namespace_;
    text.regarding.name = job.metadata.name;
    text.regarding.uid = job.metadata.uid;
    text.type = record.type == reconcile::EventType::Normal ? "Normal" : "Warning";
    text.reason = record.reason;
    text.action = "Reconcile";
    text.note = record.message;
    events_.record(std::move(text));
  }
}

Reconciler::Memory Reconciler::recall(const ObjectKey& key, const std::string& uid) {
  auto memory = memory_.lock();
  Memory& found = (*memory)[key];
  if (found.uid != uid) found = Memory{.uid = uid};
  reconcile::forget_old_writes(found.writes, clock_.now());
  return found;
}

runtime::Outcome Reconciler::poll_progress(
    const ObjectKey& key, const std::function<void(const ObjectKey&)>& changed
) {
  const auto job = caches_.jobs.find(key);
  const auto address = job ? progress_address(*job) : std::nullopt;
  if (!address) {
    pace_.forget(key);
    return runtime::Done{};
  }
  const auto body = options_.fetch_progress(*address);
  if (!body) {
    log_debug("no progress", {{"job", objects::to_string(key)}, {"error", body.error().message}});
    const bool silent = body.error().kind == ErrorKind::Timeout;
    return runtime::RequeueAfter{silent ? pace_.silent(key) : pace_.answered(key)};
  }
  auto report = api::decode_report(*body);
  if (report && hear(key, job->metadata.uid, std::move(*report))) changed(key);
  return runtime::RequeueAfter{pace_.answered(key)};
}

bool Reconciler::hear(const ObjectKey& key, const std::string& uid, api::ProgressReport report) {
  auto memory = memory_.lock();
  const auto found = memory->find(key);
  if (found == memory->end() || found->second.uid != uid || found->second.report == report) {
    return false;
  }
  found->second.report = std::move(report);
  return true;
}

}  // namespace gnn::app
