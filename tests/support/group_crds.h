#pragma once

/// The APIs for groups of pods as CRDs, in the shapes that the operator relies on, for API servers without the
/// schedulers that bring them.
namespace gnn::testing {

inline constexpr const char* kCoschedulingApi = "scheduling.x-k8s.io/v1alpha1";
inline constexpr const char* kVolcanoApi = "scheduling.volcano.sh/v1beta1";
inline constexpr const char* kNativeGroupApi = "scheduling.k8s.io/v1beta1";

/// As the plugin Coscheduling has it.
inline constexpr const char* kCoschedulingCrd = R"({
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {
    "name": "podgroups.scheduling.x-k8s.io",
    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
  "spec": {
    "group": "scheduling.x-k8s.io", "scope": "Namespaced",
    "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
    "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object", "properties": {"spec": {"type": "object", "required": ["minMember"],
        "properties": {"minMember": {"type": "integer", "minimum": 1}}}}}}}]}
})";

/// As Volcano has it.
inline constexpr const char* kVolcanoCrd = R"({
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "podgroups.scheduling.volcano.sh"},
  "spec": {
    "group": "scheduling.volcano.sh", "scope": "Namespaced",
    "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
    "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
      "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
          "minMember": {"type": "integer"},
          "minResources": {"type": "object", "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"}},
          "networkTopology": {"type": "object", "properties": {
            "mode": {"type": "string", "enum": ["hard", "soft"]}, "highestTierAllowed": {"type": "integer"}}},
          "priorityClassName": {"type": "string"},
          "queue": {"type": "string"}}},
        "status": {"type": "object", "properties": {
          "phase": {"type": "string", "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]},
          "conditions": {"type": "array", "items": {"type": "object", "properties": {
            "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
            "message": {"type": "string"}, "transitionID": {"type": "string"}}}}}}}}}}]}
})";

}  // namespace gnn::testing
