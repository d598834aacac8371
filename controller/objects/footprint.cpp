#include "controller/objects/footprint.h"

#include "common/api/codec.h"

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gnn::objects {
namespace {

// Shared pointer, entries of the tables and of the list of a group, and what the allocator adds.
constexpr int64_t kPerObject = 512;
// A job's metrics, its keys in queues, and what is remembered of it between passes.
constexpr int64_t kPerJob = 3072;
constexpr int64_t kPerBlock = 16;  // of the allocator
constexpr int64_t kPerTreeNode = 40;

int64_t bytes_of(const std::string& text) {
  constexpr size_t kInside = 15;  // kept in the string itself
  return text.capacity() > kInside ? static_cast<int64_t>(text.capacity()) + kPerBlock : 0;
}

int64_t bytes_of(const OwnerReference& owner) {
  return bytes_of(owner.api_version) + bytes_of(owner.kind) + bytes_of(owner.name) +
         bytes_of(owner.uid);
}

int64_t bytes_of(const std::map<std::string, std::string>& map) {
  constexpr auto kPair = static_cast<int64_t>(sizeof(std::pair<std::string, std::string>));
  int64_t sum = 0;
  for (const auto& [key, value] : map) {
    sum += kPerTreeNode + kPair + kPerBlock + bytes_of(key) + bytes_of(value);
  }
  return sum;
}

// Its items, of which `heap_of` tells what they take beside themselves.
template <class T, class HeapOf>
int64_t bytes_of_list(const std::vector<T>& list, HeapOf heap_of) {
  if (list.capacity() == 0) return 0;
  auto sum = static_cast<int64_t>(list.capacity() * sizeof(T)) + kPerBlock;
  for (const T& item : list) sum += heap_of(item);
  return sum;
}

int64_t bytes_of(const std::vector<std::string>& list) {
  return bytes_of_list(list, [](const std::string& item) { return bytes_of(item); });
}

int64_t bytes_of(const ObjectMeta& meta) {
  return bytes_of(meta.name) + bytes_of(meta.namespace_) + bytes_of(meta.uid) +
         bytes_of(meta.resource_version) + bytes_of(meta.finalizers) + bytes_of(meta.labels) +
         bytes_of(meta.annotations) +
         bytes_of_list(meta.owner_references, [](const OwnerReference& each) {
           return bytes_of(each);
         });
}

int64_t bytes_of(const NetworkPolicyPeer& peer) {
  int64_t sum = 0;
  if (peer.pod_selector) sum += bytes_of(*peer.pod_selector);
  if (peer.namespace_selector) sum += bytes_of(*peer.namespace_selector);
  if (peer.ip_block) sum += bytes_of(peer.ip_block->cidr) + bytes_of(peer.ip_block->except);
  return sum;
}

int64_t bytes_of(const NetworkPolicyRule& rule) {
  return bytes_of_list(rule.peers, [](const NetworkPolicyPeer& each) { return bytes_of(each); }) +
         bytes_of_list(rule.ports, [](const NetworkPolicyPort& each) {
           return bytes_of(each.protocol);
         });
}

// Of a condition of any kind.
template <class Condition>
int64_t bytes_of_condition(const Condition& condition) {
  return bytes_of(condition.type) + bytes_of(condition.status) + bytes_of(condition.reason) +
         bytes_of(condition.message);
}

int64_t bytes_of(const ContainerStatus& status) {
  int64_t sum = bytes_of(status.name);
  if (const auto& waiting = status.state.waiting) {
    sum += bytes_of(waiting->reason) + bytes_of(waiting->message);
  }
  if (const auto& terminated = status.state.terminated) {
    sum += bytes_of(terminated->reason) + bytes_of(terminated->message);
  }
  return sum;
}

int64_t bytes_of(const PodSet& pod_set) {
  return bytes_of(pod_set.name) + bytes_of(pod_set.requests);
}

int64_t bytes_of(const api::Toleration& toleration) {
  return bytes_of(toleration.key.value_or("")) + bytes_of(toleration.value.value_or(""));
}

int64_t bytes_of(const PodSetUpdate& update) {
  return bytes_of(update.name) + bytes_of(update.labels) + bytes_of(update.annotations) +
         bytes_of(update.node_selector) +
         bytes_of_list(update.tolerations, [](const api::Toleration& each) {
           return bytes_of(each);
         });
}

int64_t bytes_of(const AdmissionCheck& check) {
  return bytes_of(check.name) + bytes_of(check.state) + bytes_of(check.message) +
         bytes_of_list(check.updates, [](const PodSetUpdate& each) { return bytes_of(each); });
}

// What a struct takes that was decoded from the value.
int64_t bytes_of_decoded(const Json& value) {
  int64_t sum = 16;
  if (value.is_string()) {
    sum += 16 + bytes_of(value.get_ref<const std::string&>());
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) sum += kPerBlock + bytes_of_decoded(member);
  } else if (value.is_array()) {
    for (const Json& item : value) sum += kPerBlock + bytes_of_decoded(item);
  }
  return sum;
}

template <class T>
int64_t with_its_keys(const T& object, int64_t heap) {
  const int64_t key = bytes_of(object.metadata.name) + bytes_of(object.metadata.namespace_);
  return kPerObject + static_cast<int64_t>(sizeof(T)) + heap + 2 * key;
}

}  // namespace

int64_t bytes_of(const ServiceSpec& spec) {
  return bytes_of(spec.cluster_ip) + bytes_of(spec.selector) +
         bytes_of_list(spec.ports, [](const ServicePort& each) { return bytes_of(each.name); });
}

int64_t bytes_of(const NetworkPolicySpec& spec) {
  const auto of_rule = [](const NetworkPolicyRule& each) { return bytes_of(each); };
  return bytes_of(spec.pod_selector) + bytes_of(spec.policy_types) +
         bytes_of_list(spec.ingress, of_rule) + bytes_of_list(spec.egress, of_rule);
}

int64_t footprint_of(const Service& service) {
  return with_its_keys(service, bytes_of(service.metadata) + bytes_of(service.spec));
}

int64_t footprint_of(const ConfigMap& config_map) {
  return with_its_keys(config_map, bytes_of(config_map.metadata));
}

int64_t footprint_of(const NetworkPolicy& policy) {
  return with_its_keys(policy, bytes_of(policy.metadata) + bytes_of(policy.spec));
}

int64_t footprint_of(const Pod& pod) {
  const PodStatus& status = pod.status;
  int64_t heap = bytes_of(pod.metadata) + bytes_of(pod.spec.node_name) + bytes_of(status.phase) +
                 bytes_of(status.reason) + bytes_of(status.message) + bytes_of(status.pod_ip);
  if (pod.spec.group) heap += bytes_of(pod.spec.group->group);
  heap += bytes_of_list(status.conditions, [](const PodCondition& each) {
    return bytes_of_condition(each);
  });
  heap += bytes_of_list(status.container_statuses, [](const ContainerStatus& each) {
    return bytes_of(each);
  });
  return with_its_keys(pod, heap);
}

int64_t footprint_of(const PodGroup& group) {
  const int64_t conditions = bytes_of_list(group.conditions, [](const GroupCondition& each) {
    return bytes_of_condition(each);
  });
  return with_its_keys(group, bytes_of(group.metadata) + bytes_of(group.phase) + conditions);
}

int64_t footprint_of(const Workload& workload) {
  int64_t heap = bytes_of(workload.metadata) + bytes_of(workload.queue) +
                 bytes_of(workload.priority_class.name) + bytes_of(workload.pod_sets_digest);
  heap += bytes_of_list(workload.pod_sets, [](const PodSet& each) { return bytes_of(each); });
  heap += bytes_of_list(workload.conditions, [](const WorkloadCondition& each) {
    return bytes_of_condition(each);
  });
  heap += bytes_of_list(workload.checks, [](const AdmissionCheck& each) { return bytes_of(each); });
  if (const auto& admission = workload.admission) {
    heap += bytes_of(admission->cluster_queue);
    heap += bytes_of_list(admission->pod_sets, [](const PodSetAssignment& each) {
      return bytes_of(each.name) + bytes_of(each.flavors);
    });
  }
  return with_its_keys(workload, heap);
}

int64_t footprint_of(const api::GnnJob& job) {
  return with_its_keys(job, bytes_of_decoded(api::encode(job))) + kPerJob;
}

}  // namespace gnn::objects
