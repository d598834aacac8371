#include "controller/app/executor.h"

#include "common/contract.h"
#include "common/log.h"
#include "common/overloaded.h"
#include "controller/objects/event.h"
#include "controller/objects/footprint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <concepts>
#include <memory>
#include <utility>

namespace gnn::app {
namespace {

using client::ApiError;
using client::ApiErrorKind;
using objects::Json;
using reconcile::ApiRefusal;

// "pod x", for messages.
template <class T>
std::string describe(const std::string& name) {
  std::string kind(objects::ResourceTraits<T>::kKind);
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return kind + " " + name;
}

// Whether the reply tells that the object of the request was not made: else it may have been, or may yet be.
bool says_that_nothing_was_made(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::BadRequest:
    case ApiErrorKind::Unauthorized:
    case ApiErrorKind::Forbidden:
    case ApiErrorKind::NotFound:
    case ApiErrorKind::Conflict:
    case ApiErrorKind::Gone:
    case ApiErrorKind::Invalid:
    case ApiErrorKind::TooManyRequests:
      return true;
    default:
      return false;
  }
}

template <class T>
std::shared_ptr<const T> decoded(const Json& json) {
  auto object = objects::ResourceTraits<T>::decode(json);
  return object ? std::make_shared<const T>(std::move(*object)) : nullptr;
}

// Puts the object of the reply into the store, or withdraws the expectation.
template <class T>
void record_reply(
    runtime::Store<T>& store, const objects::ObjectKey& key, const client::ApiResult<Json>& reply
) {
  if (const auto object = reply ? decoded<T>(*reply) : nullptr) {
    store.fulfil(object);
  } else {
    store.forget(key);
  }
}

// Whether a watch may tell of it: of all kinds but jobs, watches select by our label.
template <class T>
bool is_watched(const T& object) {
  if constexpr (std::same_as<T, api::GnnJob>) {
    return true;
  } else {
    return object.metadata.labels.contains(std::string(contract::kLabelJob));
  }
}

// Puts into the store what the API server has in the place of `before`, or withdraws the expectation.
// An object that has lost our label is not kept: the watch says that it is gone, which may be older
// news, and then no more.
template <class T>
void record_present(
    runtime::Store<T>& store,
    const objects::ObjectKey& key,
    const std::shared_ptr<const T>& before,
    const std::shared_ptr<const T>& object
) {
  const bool stays_watched =
      object != nullptr && (is_watched(*object) || (before != nullptr && !is_watched(*before)));
  if (stays_watched) {
    store.fulfil(object);
  } else {
    store.forget(key);
  }
}

constexpr auto kMergePatch = client::PatchKind::MergePatch;

// What pods cannot start without: with a foreign Service, the nodes would never meet.
bool is_needed_by_pods(const reconcile::Action& action) {
  return std::holds_alternative<reconcile::CreateService>(action) ||
         std::holds_alternative<reconcile::CreateConfigMap>(action) ||
         std::holds_alternative<reconcile::CreateNetworkPolicy>(action) ||
         std::holds_alternative<reconcile::CreateDataKey>(action) ||
         std::holds_alternative<reconcile::CreateGroup>(action);
}

// A JSON patch that puts in the labels and the spec, whatever was there. A merge patch would leave
// what was added to a map, such as a selector, and server-side apply what another field manager
// added to a map or a list by keys, such as a label or a port. Another UID is a conflict.
template <class T>
Json whole_replacement(const T& object) {
  const auto put = [](const std::string& path, const Json& value) {
    return Json{{"op", "add"}, {"path", path}, {"value", value}};
  };
  const Json whole = encode(object);
  Json patch = Json::array(
      {put("/metadata/uid", object.metadata.uid), put("/metadata/labels", object.metadata.labels)}
  );
  if constexpr (std::same_as<T, objects::Service>) {
    // The API server has filled in other fields, some of which must not change.
    for (const auto& [name, value] : whole["spec"].items()) {
      patch.push_back(put("/spec/" + name, value));
    }
  } else {
    patch.push_back(put("/spec", whole["spec"]));
  }
  return patch;
}

// A kind of Kueue's that is only read.
client::Resource of_kueue(objects::KueueVersion version, const std::string& plural) {
  return {
      .group = std::string(objects::kueue::kGroup),
      .version = std::string(objects::to_string(version)),
      .plural = plural,
      .label = plural,
  };
}

client::Resource priority_classes() {
  return {
      .group = "scheduling.k8s.io",
      .version = "v1",
      .plural = "priorityclasses",
      .label = "priorityclasses",
  };
}

// What the kubelet and the controller of volumes warn of while a pod starts.
bool tells_of_start(const std::string& reason) {
  static constexpr std::array<std::string_view, 8> kReasons = {
      "FailedMount",
      "FailedAttachVolume",
      "FailedMapVolume",
      "FailedCreatePodSandBox",
      "FailedPrepareDynamicResources",
      "NetworkNotReady",
      "Failed",
      "InspectFailed",
  };
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

bool succeeded_or(const client::ApiError& error, std::initializer_list<ApiErrorKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), error.kind) != kinds.end();
}

}  // namespace

Execution Executor::execute(const reconcile::Plan& plan, const api::GnnJob& job) {
  Execution execution;
  run_actions(
      plan.actions, {job.metadata.namespace_, job.metadata.name, job.metadata.uid}, execution
  );
  if (execution.error || plan.status == job.status) return execution;
  if (plan.status_needs_success && !execution.refusals.empty()) return execution;
  execution.error = write_status(plan.status, job);
  execution.status_written = !execution.error;
  return execution;
}

Execution Executor::execute(
    const std::vector<reconcile::Action>& actions, const std::string& namespace_
) {
  Execution execution;
  run_actions(actions, {.namespace_ = namespace_, .name = {}, .uid = {}}, execution);
  return execution;
}

client::ApiResult<std::optional<objects::Pod>> Executor::read_pod(const objects::ObjectKey& key) {
  auto reply = api_.get(client::resource_of<objects::Pod>(), key);
  if (!reply) {
    if (reply.error().kind == ApiErrorKind::NotFound) return std::nullopt;
    return tl::unexpected(std::move(reply).error());
  }
  auto pod = objects::ResourceTraits<objects::Pod>::decode(*reply);
  if (pod) return std::optional(std::move(*pod));
  // One that cannot be read is not gone: it may run.
  ApiError error;
  error.kind = ApiErrorKind::Decode;
  error.message = "pod " + key.name + " cannot be read: " + pod.error().message;
  return tl::unexpected(std::move(error));
}

client::ApiResult<std::optional<api::GnnJob>> Executor::read_job(const objects::ObjectKey& key) {
  auto reply = api_.get(client::resource_of<api::GnnJob>(), key);
  if (!reply) {
    if (reply.error().kind == ApiErrorKind::NotFound) return std::nullopt;
    return tl::unexpected(std::move(reply).error());
  }
  const auto job = decoded<api::GnnJob>(*reply);
  return job == nullptr ? std::nullopt : std::optional(*job);
}

std::string Executor::read_start_trouble(const objects::ObjectMeta& pod) {
  std::string text;
  TimePoint latest{};
  const auto look = [&](const Json& json) {
    const auto event = objects::decode_event(json);
    if (!event || !tells_of_start(event->reason)) return;
    const TimePoint time = objects::last_time(*event);
    if (!text.empty() && time < latest) return;
    latest = time;
    text = event->reason + (event->note.empty() ? "" : ": " + event->note);
  };
  // More of them than a page holds only somebody makes who wants to.
  const auto listed = api_.list(
      client::resource_of<objects::Event>(),
      {.namespace_ = pod.namespace_,
       .field_selector =
           "regarding.name=" + pod.name + ",regarding.uid=" + pod.uid + ",type=Warning",
       .first_page_alone = true,
       .page_size = 100,
       .unread = [](const Json&, const Error&) {}},
      look
  );
  if (!listed) {
    log_debug("no events", {{"pod", pod.name}, {"error", listed.error().message}});
    return "";
  }
  return text;
}

client::ApiResult<std::shared_ptr<const api::GnnJob>> Executor::read_left_out_job(
    const objects::ObjectKey& key
) {
  const client::Resource resource = client::resource_of<api::GnnJob>();
  caches_.jobs.expect(key);
  auto reply = api_.get(resource, key);
  auto job = reply ? decoded<api::GnnJob>(*reply) : nullptr;
  auto charge = job == nullptr
                    ? std::nullopt
                    : caches_.memory.admit(key.namespace_, objects::footprint_of(*job), 0);
  if (charge) {
    job = runtime::with_charge(job, std::move(*charge));
    caches_.jobs.fulfil(job);
  } else {
    caches_.jobs.forget(key);
  }
  const bool is_gone = !reply && reply.error().kind == ApiErrorKind::NotFound;
  if (charge || is_gone) caches_.memory.not_left_out(resource.label, key);
  if (!reply && !is_gone) return tl::unexpected(std::move(reply).error());
  return job;
}

client::ApiResult<std::optional<std::string>> Executor::read_job_uid(const objects::ObjectKey& key
) {
  const auto reply = api_.get(client::resource_of<api::GnnJob>(), key);
  if (reply) return reply->value(Json::json_pointer("/metadata/uid"), std::string());
  if (reply.error().kind == ApiErrorKind::NotFound) return std::nullopt;
  return tl::unexpected(reply.error());
}

client::ApiResult<std::optional<objects::Workload>> Executor::read_workload(
    objects::KueueVersion version, const objects::ObjectKey& key
) {
  using Found = client::ApiResult<std::optional<objects::Workload>>;
  return with_workloads(caches_, version, [&]<class T>(runtime::Store<T>&) -> Found {
    auto reply = api_.get(client::resource_of<T>(), key);
    if (!reply && reply.error().kind == ApiErrorKind::NotFound) return std::nullopt;
    if (!reply) return tl::unexpected(std::move(reply).error());
    const auto workload = decoded<T>(*reply);
    if (workload == nullptr) return std::nullopt;
    return std::optional<objects::Workload>(*workload);
  });
}

client::ApiResult<std::optional<Json>> Executor::read_if_allowed(
    const client::Resource& resource, const std::string& name
) {
  auto reply = api_.get(resource, {.namespace_ = {}, .name = name});
  if (reply) return std::move(*reply);
  if (succeeded_or(reply.error(), {ApiErrorKind::NotFound, ApiErrorKind::Forbidden})) {
    return std::nullopt;
  }
  return tl::unexpected(std::move(reply).error());
}

client::ApiResult<std::optional<objects::ResourceFlavor>> Executor::read_flavor(
    objects::KueueVersion version, const std::string& name
) {
  auto found = read_if_allowed(of_kueue(version, "resourceflavors"), name);
  if (!found) return tl::unexpected(std::move(found).error());
  if (!*found) return std::nullopt;
  auto flavor = objects::decode_resource_flavor(**found);
  return flavor ? std::optional(std::move(*flavor)) : std::nullopt;
}

client::ApiResult<std::optional<objects::PriorityOfClass>> Executor::read_priority(
    objects::KueueVersion version, const objects::PriorityClass& chosen
) {
  if (chosen.name.empty()) return read_default_priority();
  const client::Resource resource =
      chosen.of_pods ? priority_classes() : of_kueue(version, "workloadpriorityclasses");
  auto found = read_if_allowed(resource, chosen.name);
  if (!found) return tl::unexpected(std::move(found).error());
  if (!*found) return std::nullopt;
  auto decoded = objects::decode_priority_class(**found, chosen.of_pods);
  return decoded ? std::optional(std::move(*decoded)) : std::nullopt;
}

// Of several, which there are only after a race, the lowest, as the API server does.
client::ApiResult<std::optional<objects::PriorityOfClass>> Executor::read_default_priority() {
  std::optional<objects::PriorityOfClass> lowest;
  const auto listed = api_.list(priority_classes(), {}, [&](const Json& each) {
    auto found = objects::decode_priority_class(each, true);
    if (!found || !found->is_default) return;
    if (!lowest || found->value < lowest->value) lowest = std::move(*found);
  });
  if (!listed && !succeeded_or(listed.error(), {ApiErrorKind::Forbidden})) {
    return tl::unexpected(listed.error());
  }
  return lowest;
}

void Executor::run_actions(
    const std::vector<reconcile::Action>& actions, const Owner& owner, Execution& execution
) {
  const auto take = [&execution](ApplyResult result, const reconcile::Action& action) {
    // Creates that are refused have a back-off of their own.
    const bool changes = result.refusal && !reconcile::is_create(action);
    if (result.ok() || changes) execution.done.push_back(&action);
    if (result.refusal) execution.refusals.push_back(std::move(*result.refusal));
    if (!result.error || execution.error) return;
    execution.error = std::move(result.error);
    execution.failing = std::move(result.failing);
  };
  bool pods_can_start = true;
  for (size_t i = 0; i < actions.size() && !execution.error;) {
    const size_t first = i;
    std::vector<const reconcile::CreatePod*> creates;
    while (i < actions.size() && std::holds_alternative<reconcile::CreatePod>(actions[i])) {
      creates.push_back(&std::get<reconcile::CreatePod>(actions[i++]));
    }
    if (creates.empty()) {
      const reconcile::Action& action = actions[i++];
      const bool makes_key = std::holds_alternative<reconcile::CreateDataKey>(action);
      if (makes_key && !pods_can_start) continue;
      const size_t refused = execution.refusals.size();
      take(run_action(action, owner), action);
      if (makes_key)
        execution.data_key_made = !execution.error && execution.refusals.size() == refused;
      if (is_needed_by_pods(action) && execution.refusals.size() > refused) pods_can_start = false;
    } else if (pods_can_start) {
      std::vector<ApplyResult> results = create_pods(creates, owner);
      for (size_t n = 0; n < results.size(); ++n) take(std::move(results[n]), actions[first + n]);
    }
  }
}

std::vector<Executor::ApplyResult> Executor::create_pods(
    const std::vector<const reconcile::CreatePod*>& creates, const Owner& owner
) {
  std::vector<ApplyResult> results;
  for (size_t batch = 1; results.size() < creates.size(); batch *= 2) {
    const size_t first = results.size();
    const size_t count = std::min(batch, creates.size() - first);
    results.resize(first + count);
    parallel_.run(owner.namespace_, count, [&](size_t i) {
      results[first + i] = create(creates[first + i]->pod, caches_.pods, owner);
    });
    const bool all_ok = std::all_of(
        results.begin() + static_cast<std::ptrdiff_t>(first),
        results.end(),
        [](const ApplyResult& result) { return result.ok(); }
    );
    if (!all_ok) break;
  }
  return results;
}

Executor::ApplyResult Executor::run_action(const reconcile::Action& action, const Owner& owner) {
  return std::visit(
      Overloaded{
          [&](const reconcile::CreateService& each) {
            return create(each.service, caches_.services, owner);
          },
          [&](const reconcile::CreateConfigMap& each) {
            return create(each.config_map, caches_.config_maps, owner);
          },
          [&](const reconcile::CreateDataKey& each) { return create_data_key(each); },
          [&](const reconcile::CreateNetworkPolicy& each) {
            return create(each.network_policy, caches_.network_policies, owner);
          },
          [&](const reconcile::CreateGroup& each) { return create_group(each, owner); },
          [&](const reconcile::CreateWorkload& each) { return create_workload(each, owner); },
          [&](const reconcile::UpdateWorkload& each) {
            return change_workload(
                each.workload, kMergePatch, objects::spec_patch(each.workload), "", owner
            );
          },
          [&](const reconcile::UpdateWorkloadStatus& each) {
            ApplyResult looked = look_for_uncertain_pods(each.workload, owner);
            if (!looked.ok()) return looked;
            return change_workload(
                each.workload, kMergePatch, objects::status_patch(each.workload), "status", owner
            );
          },
          [&](const reconcile::AdoptWorkload& each) {
            return change_workload(
                each.workload, kMergePatch, objects::owner_patch(each.workload), "", owner
            );
          },
          [&](const reconcile::ReleaseWorkload& each) {
            ApplyResult looked = look_for_uncertain_pods(each.workload, owner);
            return looked.ok() ? release_workload(each.workload, owner) : looked;
          },
          [&](const reconcile::DeleteWorkload& each) {
            ApplyResult looked = look_for_uncertain_pods(each.workload, owner);
            return looked.ok() ? delete_workload(each.workload, owner) : looked;
          },
          [&](const reconcile::UpdateService& each) {
            return repair(each.service, caches_.services, owner);
          },
          [&](const reconcile::UpdateNetworkPolicy& each) {
            return repair(each.network_policy, caches_.network_policies, owner);
          },
          [&](const reconcile::CreatePod& each) { return create(each.pod, caches_.pods, owner); },
          [&](const reconcile::RelabelPod& each) { return relabel(each, owner); },
          [&](const reconcile::ReleasePod& each) { return release(each, owner); },
          [&](const reconcile::DeletePod& each) -> ApplyResult {
            return remove(
                caches_.pods,
                {owner.namespace_, each.name},
                {.uid = each.uid,
                 .resource_version = each.resource_version,
                 .grace_period_seconds = each.grace_period_seconds}
            );
          },
          [&](const reconcile::DeleteGroup& each) { return delete_group(each, owner); },
          [&](const reconcile::StopPod& each) { return stop(each, owner); },
          [&](const reconcile::DeleteJob& each) -> ApplyResult {
            return remove(
                caches_.jobs,
                {owner.namespace_, owner.name},
                {.uid = each.uid, .resource_version = each.resource_version}
            );
          },
      },
      action
  );
}

template <class T>
Executor::ApplyResult Executor::create(
    const T& object, runtime::Store<T>& store, const Owner& owner
) {
  const client::Resource resource = client::resource_of<T>();
  const objects::ObjectKey key = objects::key_of(object.metadata);
  store.expect(key);
  auto reply = api_.create(resource, encode(object));
  record_reply(store, key, reply);
  if constexpr (std::same_as<T, objects::Pod>) note_creation(object, reply, owner);
  if (reply) return {};
  if (reply.error().kind != ApiErrorKind::AlreadyExists) {
    return failed_to_create(reply.error(), describe<T>(key.name));
  }

  // Either ours, from an earlier pass that the cache does not show yet, or a foreign object.
  store.expect(key);
  auto found = api_.get(resource, key);
  if (!found) {
    store.forget(key);
    ApiError error = std::move(found).error();
    // Deleted in between: retry, the next pass creates it.
    if (error.kind == ApiErrorKind::NotFound) error.kind = ApiErrorKind::Conflict;
    return failed_to_create(error, describe<T>(key.name));
  }
  const auto existing = decoded<T>(*found);
  const objects::OwnerReference* controller =
      existing ? objects::controller_of(existing->metadata) : nullptr;
  if (controller != nullptr && controller->uid == owner.uid) {
    record_reply(store, key, found);
    return {};
  }
  // Not cached: it may lack our labels, and then no watch would report its deletion.
  store.forget(key);
  ApplyResult result;
  result.refusal = ApiRefusal{
      .kind = ApiRefusal::Kind::NameTaken,
      .object = describe<T>(key.name),
      .message = std::string(objects::ResourceTraits<T>::kKind) + " " + key.name +
                 " already exists and is not owned by this GNNJob",
      .time = clock_.now(),
  };
  return result;
}

void Executor::note_creation(
    const objects::Pod& pod, const client::ApiResult<Json>& reply, const Owner& owner
) {
  if (!pod.metadata.annotations.contains(std::string(objects::kueue::kAnnotationWorkload))) return;
  auto pods = uncertain_pods_.lock();
  if (!reply && !says_that_nothing_was_made(reply.error().kind)) {
    (*pods)[owner.uid].insert(objects::key_of(pod.metadata));
  } else if (const auto found = pods->find(owner.uid); found != pods->end()) {
    found->second.erase(objects::key_of(pod.metadata));
    if (found->second.empty()) pods->erase(found);
  }
}

Executor::ApplyResult Executor::look_for_uncertain_pods(
    const objects::Workload& workload, const Owner& owner
) {
  const objects::OwnerReference* const job = objects::controller_of(workload.metadata);
  const std::string uid = job != nullptr ? job->uid : owner.uid;
  std::set<objects::ObjectKey> keys;
  if (const auto pods = uncertain_pods_.lock(); pods->contains(uid)) keys = pods->at(uid);
  std::optional<std::string> found;
  for (const objects::ObjectKey& key : keys) {
    if (caches_.pods.find(key) != nullptr) continue;
    caches_.pods.expect(key);
    const auto read = read_pod(key);
    const objects::Pod* const pod = read && *read ? &**read : nullptr;
    const auto* controller = pod != nullptr ? objects::controller_of(pod->metadata) : nullptr;
    const bool is_of_job = controller != nullptr && controller->uid == uid;
    // Another job's pod of that name, or one without our label, would stay in the cache for ever.
    if (is_of_job && is_watched(*pod)) {
      caches_.pods.fulfil(std::make_shared<const objects::Pod>(*pod));
    } else {
      caches_.pods.forget(key);
      if (is_of_job) caches_.strays.add(pod->metadata);
    }
    if (!read) return failed(read.error(), describe<objects::Pod>(key.name));
    if (is_of_job) found = describe<objects::Pod>(key.name);
  }
  uncertain_pods_.lock()->erase(uid);
  if (!found) return {};
  ApiError seen;
  seen.kind = ApiErrorKind::Conflict;
  seen.message = *found + " exists, although its creation was not confirmed";
  return failed(seen, *found);
}

// One that exists is somebody else's, or of a request whose answer was lost.
Executor::ApplyResult Executor::create_data_key(const reconcile::CreateDataKey& action) {
  const std::string object = "the Secret with the data key";
  auto key = draw_data_key_();
  if (!key) {
    ApiError error;
    error.message = key.error().message;
    return failed_to_create(error, object);
  }
  objects::Secret secret = action.secret;
  secret.data[std::string(contract::kDataKeyKey)] = std::move(*key);
  const auto reply = api_.create(client::resource_of<objects::Secret>(), encode(secret));
  return reply ? ApplyResult{} : failed_to_create(reply.error(), object);
}

Executor::ApplyResult Executor::create_group(
    const reconcile::CreateGroup& action, const Owner& owner
) {
  const auto create_in = [&]<class T>(runtime::Store<T>& store) {
    return create(T(action.group), store, owner);
  };
  ApplyResult result = with_groups(caches_, action.group.api, create_in);
  // Its API is served no more, or never was.
  const bool unserved = result.error && result.error->kind == ApiErrorKind::NotFound;
  if (unserved && on_unserved_api_) on_unserved_api_();
  return result;
}

Executor::ApplyResult Executor::delete_group(
    const reconcile::DeleteGroup& action, const Owner& owner
) {
  return with_groups(caches_, action.api, [&]<class T>(runtime::Store<T>& store) {
    return remove(
        store,
        {owner.namespace_, action.name},
        {.uid = action.uid, .resource_version = action.resource_version}
    );
  });
}

Executor::ApplyResult Executor::create_workload(
    const reconcile::CreateWorkload& action, const Owner& owner
) {
  const auto create_in = [&]<class T>(runtime::Store<T>& store) {
    return create(T(action.workload), store, owner);
  };
  ApplyResult result = with_workloads(caches_, action.workload.version, create_in);
  const bool unserved = result.error && result.error->kind == ApiErrorKind::NotFound;
  if (unserved && on_unserved_api_) on_unserved_api_();
  return result;
}

Executor::ApplyResult Executor::change_workload(
    const objects::Workload& workload,
    client::PatchKind kind,
    const Json& patch,
    std::string_view subresource,
    const Owner& owner
) {
  const objects::ObjectKey key{owner.namespace_, workload.metadata.name};
  return with_workloads(caches_, workload.version, [&]<class T>(runtime::Store<T>& store) {
    store.expect(key);
    auto reply = api_.patch(client::resource_of<T>(), key, kind, patch, subresource);
    record_reply(store, key, reply);
    // A conflict is worth a retry: what was seen of the Workload is out of date.
    if (reply || reply.error().kind == ApiErrorKind::NotFound) return ApplyResult{};
    return failed(reply.error(), describe<T>(key.name));
  });
}

Executor::ApplyResult Executor::release_workload(
    const objects::Workload& workload, const Owner& owner
) {
  const auto& all = workload.metadata.finalizers;
  const auto found = std::ranges::find(all, objects::kueue::kFinalizer);
  if (found == all.end()) return {};
  const std::string path = "/metadata/finalizers/" + std::to_string(found - all.begin());
  const Json patch = Json::array(
      {Json{{"op", "test"}, {"path", "/metadata/uid"}, {"value", workload.metadata.uid}},
       Json{{"op", "test"}, {"path", path}, {"value", objects::kueue::kFinalizer}},
       Json{{"op", "remove"}, {"path", path}}}
  );
  // If only the finalizer held it, it is gone with this write. Only the watch may change the cache.
  const objects::ObjectKey key{owner.namespace_, workload.metadata.name};
  return with_workloads(caches_, workload.version, [&]<class T>(runtime::Store<T>& store) {
    const auto reply =
        api_.patch(client::resource_of<T>(), key, client::PatchKind::JsonPatch, patch);
    // A test that failed: it has no such finalizer any more, or is another one.
    if (reply || reply.error().kind == ApiErrorKind::Invalid) return ApplyResult{};
    return not_written(reply.error(), store, key, workload.metadata.uid);
  });
}

Executor::ApplyResult Executor::delete_workload(
    const objects::Workload& workload, const Owner& owner
) {
  const objects::ObjectMeta& meta = workload.metadata;
  return with_workloads(caches_, workload.version, [&]<class T>(runtime::Store<T>& store) {
    return remove(
        store,
        {owner.namespace_, meta.name},
        {.uid = meta.uid, .resource_version = meta.resource_version}
    );
  });
}

template <class T>
Executor::ApplyResult Executor::remove(
    runtime::Store<T>& store,
    const objects::ObjectKey& key,
    const client::DeleteOptions& preconditions
) {
  const auto reply = api_.remove(client::resource_of<T>(), key, preconditions);
  if (reply) return {};
  return not_written(reply.error(), store, key, preconditions.uid);
}

template <class T>
Executor::ApplyResult Executor::not_written(
    const ApiError& error,
    runtime::Store<T>& store,
    const objects::ObjectKey& key,
    const std::string& uid
) {
  if (error.kind == ApiErrorKind::NotFound) return {};
  if (error.kind != ApiErrorKind::Conflict) return failed(error, describe<T>(key.name));
  const auto now = read_into(store, key);
  if (!now) return failed(now.error(), describe<T>(key.name));
  // Gone, and another one may have the name; or it has changed, and the next pass looks at it anew.
  if (*now == nullptr || (*now)->metadata.uid != uid) return {};
  return failed(error, describe<T>(key.name));
}

template <class T>
client::ApiResult<std::shared_ptr<const T>> Executor::read_into(
    runtime::Store<T>& store, const objects::ObjectKey& key
) {
  // The watch alone tells of what the cache does not hold, such as a pod without our label.
  const auto cached = store.find(key);
  if (cached) store.expect(key);
  const auto reply = api_.get(client::resource_of<T>(), key);
  auto object = reply ? decoded<T>(*reply) : nullptr;
  if (cached) record_present(store, key, cached, object);
  if (reply || reply.error().kind == ApiErrorKind::NotFound) return object;
  return tl::unexpected(reply.error());
}

template <class T>
Executor::ApplyResult Executor::repair(
    const T& object, runtime::Store<T>& store, const Owner& owner
) {
  const objects::ObjectKey key{owner.namespace_, object.metadata.name};
  store.expect(key);
  auto reply = api_.patch(
      client::resource_of<T>(), key, client::PatchKind::JsonPatch, whole_replacement(object)
  );
  record_reply(store, key, reply);
  if (reply) return {};
  return not_written(reply.error(), store, key, object.metadata.uid);
}

Executor::ApplyResult Executor::release(const reconcile::ReleasePod& action, const Owner& owner) {
  const objects::ObjectKey key{owner.namespace_, action.name};
  // Removes one entry from the list whatever else is in it. The UID ensures it is the same pod.
  const Json patch = {
      {"metadata",
       {{"uid", action.uid},
        {"$deleteFromPrimitiveList/finalizers", Json::array({contract::kPodFinalizer})}}}
  };
  caches_.strays.releasing(action.uid);
  // If only the finalizer held the pod, it is gone with this write, and the reply is its last
  // state. Only the watch may change the cache.
  const auto reply = api_.patch(
      client::resource_of<objects::Pod>(), key, client::PatchKind::StrategicMergePatch, patch
  );
  ApplyResult result;
  if (!reply) result = not_written(reply.error(), caches_.pods, key, action.uid);
  // No watch is to tell of its end.
  if (!result.ok() || caches_.pods.find(key) == nullptr) caches_.strays.not_released(action.uid);
  return result;
}

Executor::ApplyResult Executor::relabel(const reconcile::RelabelPod& action, const Owner& owner) {
  Json change = {{"metadata", {{"uid", action.uid}, {"labels", action.labels}}}};
  if (!action.resource_version.empty())
    change["metadata"]["resourceVersion"] = action.resource_version;
  return change_pod(action.name, action.uid, change, owner);
}

Executor::ApplyResult Executor::stop(const reconcile::StopPod& action, const Owner& owner) {
  const Json change = {
      {"metadata", {{"uid", action.uid}}}, {"spec", {{"activeDeadlineSeconds", 1}}}
  };
  return change_pod(action.name, action.uid, change, owner);
}

Executor::ApplyResult Executor::change_pod(
    const std::string& name, const std::string& uid, const Json& patch, const Owner& owner
) {
  const objects::ObjectKey key{owner.namespace_, name};
  const auto cached = caches_.pods.find(key);
  caches_.pods.expect(key);
  const auto reply = api_.patch(
      client::resource_of<objects::Pod>(), key, client::PatchKind::StrategicMergePatch, patch
  );
  record_present(caches_.pods, key, cached, reply ? decoded<objects::Pod>(*reply) : nullptr);
  if (reply) return {};
  return not_written(reply.error(), caches_.pods, key, uid);
}

Executor::ApplyResult Executor::failed(const ApiError& error, const std::string& object) const {
  ApplyResult result;
  std::optional<ApiRefusal::Kind> kind;
  if (error.kind == ApiErrorKind::Forbidden) {
    kind = error.text.find("exceeded quota") != std::string::npos ? ApiRefusal::Kind::Quota
                                                                  : ApiRefusal::Kind::Forbidden;
  } else if (error.kind == ApiErrorKind::Invalid || error.kind == ApiErrorKind::BadRequest) {
    kind = ApiRefusal::Kind::Invalid;
  }
  if (kind) {
    result.refusal = ApiRefusal{
        .kind = *kind,
        .object = object,
        .message = error.text.empty() ? error.message : error.text,
        .time = clock_.now(),
    };
  } else {
    result.error = error;
  }
  return result;
}

Executor::ApplyResult Executor::failed_to_create(const ApiError& error, const std::string& object)
    const {
  ApplyResult result = failed(error, object);
  if (result.error) {
    result.failing = ApiRefusal{
        .kind = ApiRefusal::Kind::Failing,
        .object = object,
        .message = error.message,
        .time = clock_.now(),
    };
  }
  return result;
}

std::optional<ApiError> Executor::write_status(
    const api::GnnJobStatus& status, const api::GnnJob& job
) {
  const objects::ObjectKey key{job.metadata.namespace_, job.metadata.name};
  const Json object = {
      {"apiVersion", contract::kApiGroupVersion},
      {"kind", contract::kKind},
      {"metadata",
       {{"name", key.name},
        {"namespace", key.namespace_},
        {"uid", job.metadata.uid},
        {"resourceVersion", job.metadata.resource_version}}},
      {"status", api::encode(status)},
  };
  caches_.jobs.expect(key);
  auto reply = api_.replace_status(client::resource_of<api::GnnJob>(), object);
  if (caches_.memory.is_left_out(client::resource_of<api::GnnJob>().label, key)) {
    caches_.jobs.forget(key);
  } else {
    record_reply(caches_.jobs, key, reply);
  }
  if (reply) return std::nullopt;
  // What the plan was made for is out of date, and the watch may be silent.
  if (reply.error().kind == ApiErrorKind::Conflict) (void)read_into(caches_.jobs, key);
  return std::move(reply).error();
}

}  // namespace gnn::app
