#include "controller/objects/network_policy.h"

#include "controller/objects/footprint.h"

namespace gnn::objects {
namespace {

// The operator's fence, whose rules an administrator writes, is in ours.
constexpr int64_t kMaxPolicySpecBytes = int64_t{256} << 10;

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

Result<std::optional<IpBlock>> decode_ip_block(const Json& json, const std::string& path) {
  IpBlock block;
  ObjectReader reader(json, path);
  reader.require("cidr");
  reader.read("cidr", block.cidr);
  reader.read("except", block.except);
  return reader.finish(std::optional(std::move(block)));
}

Result<NetworkPolicyPeer> decode_peer(const Json& json, const std::string& path) {
  NetworkPolicyPeer peer;
  ObjectReader reader(json, path);
  reader.read_with("podSelector", peer.pod_selector, decode_optional_selector);
  reader.read_with("namespaceSelector", peer.namespace_selector, decode_optional_selector);
  reader.read_with("ipBlock", peer.ip_block, decode_ip_block);
  return reader.finish(std::move(peer));
}

Result<NetworkPolicyPort> decode_policy_port(const Json& json, const std::string& path) {
  NetworkPolicyPort port;
  ObjectReader reader(json, path);
  reader.read("protocol", port.protocol);
  reader.read("port", port.port);
  return reader.finish(std::move(port));
}

Result<NetworkPolicyRule> decode_rule(
    const Json& json, const std::string& path, std::string_view peers
) {
  NetworkPolicyRule rule;
  ObjectReader reader(json, path);
  reader.read_list(peers, rule.peers, decode_peer);
  reader.read_list("ports", rule.ports, decode_policy_port);
  return reader.finish(std::move(rule));
}

Result<NetworkPolicyRule> decode_ingress(const Json& json, const std::string& path) {
  return decode_rule(json, path, "from");
}

Result<NetworkPolicyRule> decode_egress(const Json& json, const std::string& path) {
  return decode_rule(json, path, "to");
}

Result<NetworkPolicySpec> decode_policy_spec(const Json& json, const std::string& path) {
  NetworkPolicySpec spec;
  ObjectReader reader(json, path);
  reader.read_with("podSelector", spec.pod_selector, decode_selector);
  reader.read("policyTypes", spec.policy_types);
  reader.read_list("ingress", spec.ingress, decode_ingress);
  reader.read_list("egress", spec.egress, decode_egress);
  return reader.finish(std::move(spec));
}

Json encode_selector(const MatchLabels& labels) {
  Json json = Json::object();
  put_unless_empty(json, "matchLabels", labels);
  return json;
}

Json encode(const NetworkPolicyPeer& peer) {
  Json json = Json::object();
  if (peer.pod_selector) json["podSelector"] = encode_selector(*peer.pod_selector);
  if (peer.namespace_selector) {
    json["namespaceSelector"] = encode_selector(*peer.namespace_selector);
  }
  if (peer.ip_block) {
    json["ipBlock"] = Json{{"cidr", peer.ip_block->cidr}};
    put_unless_empty(json["ipBlock"], "except", peer.ip_block->except);
  }
  return json;
}

Json encode(const NetworkPolicyRule& rule, const char* peers) {
  Json json = Json::object();
  for (const NetworkPolicyPeer& peer : rule.peers) json[peers].push_back(encode(peer));
  for (const NetworkPolicyPort& port : rule.ports) {
    json["ports"].push_back(Json{{"protocol", port.protocol}, {"port", port.port}});
  }
  return json;
}

Json encode(const NetworkPolicySpec& spec) {
  Json json = {{"podSelector", encode_selector(spec.pod_selector)}};
  put_unless_empty(json, "policyTypes", spec.policy_types);
  for (const NetworkPolicyRule& rule : spec.ingress) {
    json["ingress"].push_back(encode(rule, "from"));
  }
  for (const NetworkPolicyRule& rule : spec.egress) {
    json["egress"].push_back(encode(rule, "to"));
  }
  return json;
}

// Users may write what is not understood here; it must be seen to differ from what we want.
Result<NetworkPolicySpec> decode_policy_spec_in_part(const Json& json, const std::string& path) {
  NetworkPolicySpec spec = decode_policy_spec(json, path).value_or(NetworkPolicySpec{});
  spec.has_unread = encode(spec) != json;
  return spec;
}

Error partly_read(const std::string& path, const Json& given, const Json& understood) {
  return Error{
      ErrorKind::Configuration,
      path +
          ": only podSelector.matchLabels, namespaceSelector.matchLabels, ipBlock, and ports by "
          "protocol and number are known here; of " +
          given.dump() + " that leaves " + understood.dump()
  };
}

}  // namespace

Result<NetworkPolicyPeer> decode_peer_strictly(const Json& json, const std::string& path) {
  GNN_ASSIGN_OR_RETURN(NetworkPolicyPeer peer, decode_peer(json, path));
  const Json understood = encode(peer);
  if (understood != json) return tl::unexpected(partly_read(path, json, understood));
  return peer;
}

Result<NetworkPolicyRule> decode_egress_strictly(const Json& json, const std::string& path) {
  GNN_ASSIGN_OR_RETURN(NetworkPolicyRule rule, decode_egress(json, path));
  const Json understood = encode(rule, "to");
  if (understood != json) return tl::unexpected(partly_read(path, json, understood));
  return rule;
}

Result<NetworkPolicy> decode_network_policy(const Json& json) {
  NetworkPolicy policy;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", policy.metadata, decode_meta);
  reader.read_with("spec", policy.spec, decode_policy_spec_in_part);
  if (!is_controlled_by_job(policy.metadata) || bytes_of(policy.spec) > kMaxPolicySpecBytes) {
    policy.spec = NetworkPolicySpec{};
    policy.spec.has_unread = true;
  }
  return reader.finish(std::move(policy));
}

Json encode(const NetworkPolicy& policy) {
  return Json{
      {"apiVersion", "networking.k8s.io/v1"},
      {"kind", "NetworkPolicy"},
      {"metadata", encode(policy.metadata)},
      {"spec", encode(policy.spec)},
  };
}

}  // namespace gnn::objects
