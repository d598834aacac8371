#include "controller/objects/network_policy.h"

namespace gnn::objects {
namespace {

Result<MatchLabels> decode_selector(const Json& json, const std::string& path) {
  MatchLabels labels;
  ObjectReader reader(json, path);
  reader.read("matchLabels", labels);
  return reader.finish(std::move(labels));
}

Result<std::optional<MatchLabels>> decode_optional_selector(
    const Json& json, const std::string& path
) {
  auto labels = decode_selector(json, path);
  if (!labels) return tl::unexpected<Error>(std::move(labels).error());
  return std::optional(std::move(*labels));
}

Result<NetworkPolicyPeer> decode_peer(const Json& json, const std::string& path) {
  NetworkPolicyPeer peer;
  ObjectReader reader(json, path);
  reader.read_with("podSelector", peer.pod_selector, decode_optional_selector);
  reader.read_with("namespaceSelector", peer.namespace_selector, decode_optional_selector);
  return reader.finish(std::move(peer));
}

Result<NetworkPolicyPort> decode_port(const Json& json, const std::string& path) {
  NetworkPolicyPort port;
  ObjectReader reader(json, path);
  reader.read("protocol", port.protocol);
  reader.read("port", port.port);
  return reader.finish(std::move(port));
}

Result<NetworkPolicyRule> decode_rule(const Json& json, const std::string& path) {
  NetworkPolicyRule rule;
  ObjectReader reader(json, path);
  reader.read_list("from", rule.peers, decode_peer);
  reader.read_list("ports", rule.ports, decode_port);
  return reader.finish(std::move(rule));
}

Result<NetworkPolicySpec> decode_spec(const Json& json, const std::string& path) {
  NetworkPolicySpec spec;
  ObjectReader reader(json, path);
  reader.read_with("podSelector", spec.pod_selector, decode_selector);
  reader.read("policyTypes", spec.policy_types);
  reader.read_list("ingress", spec.ingress, decode_rule);
  return reader.finish(std::move(spec));
}

Json encode_selector(const MatchLabels& labels) {
  Json json = Json::object();
  put_unless_empty(json, "matchLabels", labels);
  return json;
}

Json encode(const NetworkPolicyRule& rule) {
  Json json = Json::object();
  for (const NetworkPolicyPeer& peer : rule.peers) {
    Json from = Json::object();
    if (peer.pod_selector) from["podSelector"] = encode_selector(*peer.pod_selector);
    if (peer.namespace_selector) {
      from["namespaceSelector"] = encode_selector(*peer.namespace_selector);
    }
    json["from"].push_back(std::move(from));
  }
  for (const NetworkPolicyPort& port : rule.ports) {
    json["ports"].push_back(Json{{"protocol", port.protocol}, {"port", port.port}});
  }
  return json;
}

}  // namespace

Result<NetworkPolicy> decode_network_policy(const Json& json) {
  NetworkPolicy policy;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", policy.metadata, decode_meta);
  reader.read_with("spec", policy.spec, decode_spec);
  return reader.finish(std::move(policy));
}

Json encode(const NetworkPolicy& policy) {
  Json spec = {{"podSelector", encode_selector(policy.spec.pod_selector)}};
  put_unless_empty(spec, "policyTypes", policy.spec.policy_types);
  for (const NetworkPolicyRule& rule : policy.spec.ingress) {
    spec["ingress"].push_back(encode(rule));
  }
  return Json{
      {"apiVersion", "networking.k8s.io/v1"},
      {"kind", "NetworkPolicy"},
      {"metadata", encode(policy.metadata)},
      {"spec", std::move(spec)},
  };
}

}  // namespace gnn::objects
