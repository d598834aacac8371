#include "controller/app/stray_pods.h"

#include "common/contract.h"
#include "controller/app/caches.h"
#include "controller/reconcile/gang.h"

#include <utility>

namespace gnn::app {
namespace {

// One without a machine may still get one, unless it is being deleted: then it goes at once.
bool may_run(const objects::Pod& pod) {
  if (reconcile::has_ended(pod)) return false;
  return !pod.spec.node_name.empty() || !pod.metadata.deletion_timestamp;
}

}  // namespace

bool is_held_or_runs(const objects::Pod& pod) {
  return reconcile::has_our_finalizer(pod.metadata) || may_run(pod);
}

objects::ObjectKey job_of_stray(const objects::ObjectMeta& meta) {
  if (const auto job = job_of(meta)) return *job;
  return objects::key_of(meta);
}

void StrayPods::shown(const objects::Pod& pod) {
  auto state = state_.lock();
  erase(*state, objects::key_of(pod.metadata));
}

void StrayPods::vanished(const objects::Pod& pod) {
  const bool was_released = state_.lock()->released.erase(pod.metadata.uid) > 0;
  // One that leaves was released before. Without its label it vanishes, and runs on.
  if (was_released ? may_run(pod) : is_held_or_runs(pod)) add(pod.metadata);
}

void StrayPods::releasing(const std::string& uid) {
  state_.lock()->released.insert(uid);
}

void StrayPods::not_released(const std::string& uid) {
  state_.lock()->released.erase(uid);
}

void StrayPods::add(const objects::ObjectMeta& meta) {
  const std::string group = objects::to_string(job_of_stray(meta));
  const objects::ObjectKey key = objects::key_of(meta);
  auto state = state_.lock();
  erase(*state, key);
  size_t& count = state->counts[key.namespace_];
  if (count >= kMostOfNamespace) return;
  ++count;
  state->strays[group].insert(key);
  state->groups[key] = group;
}

void StrayPods::forget(const objects::ObjectKey& key) {
  auto state = state_.lock();
  erase(*state, key);
}

std::vector<objects::ObjectKey> StrayPods::of(const std::string& group) const {
  const auto state = state_.lock();
  const auto found = state->strays.find(group);
  if (found == state->strays.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void StrayPods::erase(State& state, const objects::ObjectKey& key) {
  const auto found = state.groups.extract(key);
  if (!found) return;
  const auto group = state.strays.find(found.mapped());
  group->second.erase(key);
  if (group->second.empty()) state.strays.erase(group);
  const auto count = state.counts.find(key.namespace_);
  if (--count->second == 0) state.counts.erase(count);
}

client::ApiResult<void> find_stray_pods(
    client::ApiClient& api,
    const std::string& name_space,
    const std::stop_token& stop,
    const std::function<void(const objects::ObjectMeta&)>& found
) {
  auto listed = api.list(
      client::resource_of<objects::Pod>(),
      {.namespace_ = name_space,
       .label_selector = "!" + std::string(contract::kLabelJob),
       .content = client::Content::Metadata,
       // A single object that cannot be read is nothing of ours.
       .unread = [](const objects::Json&, const Error&) {},
       .stop = stop},
      [&](const objects::Json& json) {
        const auto pod = objects::decode_pod(json);
        if (!pod) return;
        // One that our finalizer has left may still run: passes look. A job that is deleted with
        // --cascade=orphan leaves its pods without an owner.
        const bool of_nobody = objects::controller_of(pod->metadata) == nullptr &&
                               reconcile::has_our_finalizer(pod->metadata);
        if (objects::is_controlled_by_job(pod->metadata) || of_nobody) found(pod->metadata);
      }
  );
  if (!listed) return tl::unexpected<client::ApiError>(std::move(listed).error());
  return {};
}

}  // namespace gnn::app
