#pragma once

/// The API by which jobs are queued as a CRD, for API servers without Kueue. For the real one see kueue.h.
namespace gnn::testing {

inline constexpr const char* kWorkloadCrd = R"({
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {
    "name": "workloads.kueue.x-k8s.io",
    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
  "spec": {
    "group": "kueue.x-k8s.io", "scope": "Namespaced",
    "names": {"kind": "Workload", "plural": "workloads", "singular": "workload"},
    "versions": [{"name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
      "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}
})";

}  // namespace gnn::testing
