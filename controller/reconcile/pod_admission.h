#pragma once

#include "controller/objects/pod.h"
#include "controller/objects/workload.h"

#include <map>
#include <string>
#include <vector>

/// What the admission of a job by its queue adds to its pods.
namespace gnn::reconcile {

/// For the pods of one PodSet.
struct PodAdmission {
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::map<std::string, std::string> node_selector;
  std::vector<api::Toleration> tolerations;
  std::vector<std::string> scheduling_gates;
  friend bool operator==(const PodAdmission&, const PodAdmission&) = default;
};

/// Where additions come from: the ResourceFlavors by name, as far as they could be read.
using Flavors = std::map<std::string, objects::ResourceFlavor>;

/// What is wrong with an admission.
struct AdmissionProblem {
  bool is_final = false;  ///< the admission contradicts the job; else something could not be read
  std::string message;
};

/// What the admission adds to the pods of a PodSet, of which `pod` is one without it.
struct AdmissionOfPods {
  PodAdmission additions;
  std::optional<AdmissionProblem> problem;
};
[[nodiscard]] AdmissionOfPods admission_of_pods(
    const objects::Workload& workload,
    std::string_view pod_set,
    const Flavors& flavors,
    const objects::Pod& pod
);

/// Puts them into a pod. What the pod has stays.
void add_to(objects::Pod& pod, const PodAdmission& additions);

}  // namespace gnn::reconcile
