#include "controller/reconcile/pod_admission.h"

#include "common/contract.h"

#include <algorithm>
#include <string_view>

namespace gnn::reconcile {
namespace {

namespace kueue = objects::kueue;

using Texts = std::map<std::string, std::string>;

// Far more than anybody needs, so that no Workload makes pods that the API server chokes on.
constexpr size_t kMaxAdditions = 64;

const objects::PodSetAssignment* assignment_of(
    const objects::Workload& workload, std::string_view pod_set
) {
  if (!workload.admission) return nullptr;
  const auto& all = workload.admission->pod_sets;
  const auto found = std::ranges::find(all, pod_set, &objects::PodSetAssignment::name);
  return found == all.end() ? nullptr : &*found;
}

// The key to which two maps give different values; empty: none.
std::string conflict_in(const Texts& a, const Texts& b) {
  for (const auto& [key, value] : b) {
    const auto found = a.find(key);
    if (found != a.end() && found->second != value) return key;
  }
  return "";
}

// By which the operator finds and tells apart its pods, and users what they are charged for.
bool is_own_key(std::string_view key) {
  return key.starts_with("gnn.dev/") || key.starts_with("app.kubernetes.io/");
}

std::string reserved_in(const Texts& texts) {
  const auto found =
      std::ranges::find_if(texts, [](const auto& each) { return is_own_key(each.first); });
  return found == texts.end() ? "" : found->first;
}

void merge(PodAdmission& into, const PodAdmission& from) {
  into.labels.insert(from.labels.begin(), from.labels.end());
  into.annotations.insert(from.annotations.begin(), from.annotations.end());
  into.node_selector.insert(from.node_selector.begin(), from.node_selector.end());
  for (const api::Toleration& each : from.tolerations) {
    if (std::ranges::find(into.tolerations, each) == into.tolerations.end()) {
      into.tolerations.push_back(each);
    }
  }
  into.scheduling_gates.insert(
      into.scheduling_gates.end(), from.scheduling_gates.begin(), from.scheduling_gates.end()
  );
}

// What `added` would change of what is there already; empty: nothing.
std::string contradiction(const PodAdmission& there, const PodAdmission& added) {
  struct Part {
    std::string_view name;
    const Texts& there;
    const Texts& added;
  };
  for (const Part& part :
       {Part{"label", there.labels, added.labels},
        Part{"annotation", there.annotations, added.annotations},
        Part{"nodeSelector", there.node_selector, added.node_selector}}) {
    const std::string key = conflict_in(part.there, part.added);
    if (key.empty()) continue;
    return std::string(part.name) + " " + key + ": " + part.added.at(key) + " instead of " +
           part.there.at(key);
  }
  return "";
}

PodAdmission of_pod(const objects::Pod& pod) {
  return {
      .labels = pod.metadata.labels,
      .annotations = pod.metadata.annotations,
      .node_selector = pod.spec.node_selector,
      .tolerations = pod.spec.tolerations,
      .scheduling_gates = pod.spec.scheduling_gates,
  };
}

// As Kueue does for its own kinds, by which it finds the pods that it lets go.
PodAdmission marks_of(
    const objects::Workload& workload,
    const objects::PodSetAssignment& assignment,
    const objects::Pod& pod
) {
  PodAdmission marks;
  marks.labels[std::string(kueue::kLabelPodSet)] = assignment.name;
  marks.annotations[std::string(kueue::kAnnotationWorkload)] = workload.metadata.name;
  if (!assignment.has_topology) return marks;
  marks.scheduling_gates = {std::string(kueue::kTopologyGate)};
  const bool asks = std::ranges::any_of(
      std::array{
          kueue::kRequiredTopology, kueue::kPreferredTopology, kueue::kUnconstrainedTopology
      },
      [&](std::string_view key) { return pod.metadata.annotations.contains(std::string(key)); }
  );
  if (!asks) marks.annotations[std::string(kueue::kUnconstrainedTopology)] = "true";
  return marks;
}

PodAdmission of_flavor(const objects::ResourceFlavor& flavor) {
  PodAdmission additions;
  additions.node_selector = flavor.node_labels;
  additions.tolerations = flavor.tolerations;
  return additions;
}

PodAdmission of_update(const objects::PodSetUpdate& update) {
  PodAdmission additions;
  additions.labels = update.labels;
  additions.annotations = update.annotations;
  additions.node_selector = update.node_selector;
  additions.tolerations = update.tolerations;
  return additions;
}

size_t size_of(const PodAdmission& additions) {
  return additions.labels.size() + additions.annotations.size() + additions.node_selector.size() +
         additions.tolerations.size();
}

// Takes in one addition after the other until one does not fit.
class Collector {
 public:
  explicit Collector(const objects::Pod& pod) : there_(of_pod(pod)) {}

  void add(const std::string& who, const PodAdmission& added, bool of_others) {
    if (found_.problem) return;
    if (size_of(added) > kMaxAdditions) {
      return fail(who + " adds more than " + std::to_string(kMaxAdditions) + " things to the pods");
    }
    std::string why = contradiction(there_, added);
    if (why.empty() && of_others) why = reserved_in(added.labels);
    if (why.empty() && of_others) why = reserved_in(added.annotations);
    if (!why.empty()) return fail(who + " contradicts the pods of the job: " + why);
    merge(there_, added);
    merge(found_.additions, added);
  }
  void miss(const std::string& flavor) {
    if (found_.problem) return;
    found_.problem = {.is_final = false, .message = "ResourceFlavor " + flavor + " cannot be read"};
  }
  [[nodiscard]] AdmissionOfPods take() { return std::move(found_); }

 private:
  void fail(std::string message) {
    found_.problem = {.is_final = true, .message = std::move(message)};
  }

  PodAdmission there_;
  AdmissionOfPods found_;
};

}  // namespace

AdmissionOfPods admission_of_pods(
    const objects::Workload& workload,
    std::string_view pod_set,
    const Flavors& flavors,
    const objects::Pod& pod
) {
  const objects::PodSetAssignment* assignment = assignment_of(workload, pod_set);
  if (assignment == nullptr) {
    return {
        .additions = {},
        .problem =
            AdmissionProblem{
                .is_final = false,
                .message = "Workload " + workload.metadata.name +
                           " is admitted without its PodSet " + std::string(pod_set)
            }
    };
  }
  Collector collector(pod);
  for (const std::string& name : assignment->flavors) {
    const auto flavor = flavors.find(name);
    if (flavor == flavors.end()) {
      collector.miss(name);
    } else {
      collector.add("ResourceFlavor " + name, of_flavor(flavor->second), false);
    }
  }
  for (const objects::AdmissionCheck& check : workload.checks) {
    for (const objects::PodSetUpdate& update : check.updates) {
      if (update.name != pod_set) continue;
      collector.add("Admission check " + check.name, of_update(update), true);
    }
  }
  collector.add("Kueue", marks_of(workload, *assignment, pod), false);
  return collector.take();
}

void add_to(objects::Pod& pod, const PodAdmission& additions) {
  PodAdmission all = of_pod(pod);
  merge(all, additions);
  pod.metadata.labels = std::move(all.labels);
  pod.metadata.annotations = std::move(all.annotations);
  pod.spec.node_selector = std::move(all.node_selector);
  pod.spec.tolerations = std::move(all.tolerations);
  pod.spec.scheduling_gates = std::move(all.scheduling_gates);
}

}  // namespace gnn::reconcile
