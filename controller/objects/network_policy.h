#pragma once

#include "controller/objects/meta.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::objects {

using MatchLabels = std::map<std::string, std::string>;

/// A block of addresses.
struct IpBlock {
  std::string cidr;
  std::vector<std::string> except;
  friend bool operator==(const IpBlock&, const IpBlock&) = default;
};

/// Pods (of the policy's namespace, or of the namespaces that match), or a block of addresses.
/// Empty MatchLabels select everything; absent ones do not restrict.
struct NetworkPolicyPeer {
  std::optional<MatchLabels> pod_selector;
  std::optional<MatchLabels> namespace_selector;
  std::optional<IpBlock> ip_block = {};
  friend bool operator==(const NetworkPolicyPeer&, const NetworkPolicyPeer&) = default;
};

struct NetworkPolicyPort {
  std::string protocol = "TCP";
  int64_t port = 0;
  friend bool operator==(const NetworkPolicyPort&, const NetworkPolicyPort&) = default;
};

/// No peers: from or to anywhere. No ports: on every port.
struct NetworkPolicyRule {
  std::vector<NetworkPolicyPeer> peers;
  std::vector<NetworkPolicyPort> ports;
  friend bool operator==(const NetworkPolicyRule&, const NetworkPolicyRule&) = default;
};

struct NetworkPolicySpec {
  MatchLabels pod_selector;
  std::vector<std::string> policy_types;
  std::vector<NetworkPolicyRule> ingress;
  std::vector<NetworkPolicyRule> egress = {};
  /// A decoded spec has more than these fields can say, such as matchExpressions, or is not kept,
  /// because no job controls the policy or it is far larger than ours. Ours has not.
  bool has_unread = false;
  friend bool operator==(const NetworkPolicySpec&, const NetworkPolicySpec&) = default;
};

struct NetworkPolicy {
  ObjectMeta metadata;
  NetworkPolicySpec spec;
  friend bool operator==(const NetworkPolicy&, const NetworkPolicy&) = default;
};

/// One peer or one egress rule, as given in an option. An unknown field is an error: a rule that is
/// understood only in part would allow more than it says.
[[nodiscard]] Result<NetworkPolicyPeer> decode_peer_strictly(
    const Json& json, const std::string& path
);
[[nodiscard]] Result<NetworkPolicyRule> decode_egress_strictly(
    const Json& json, const std::string& path
);

[[nodiscard]] Result<NetworkPolicy> decode_network_policy(const Json& json);
[[nodiscard]] Json encode(const NetworkPolicy& policy);

template <>
struct ResourceTraits<NetworkPolicy> {
  static constexpr std::string_view kGroup = "networking.k8s.io";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "NetworkPolicy";
  static constexpr std::string_view kPlural = "networkpolicies";
  [[nodiscard]] static Result<NetworkPolicy> decode(const Json& json) {
    return decode_network_policy(json);
  }
};

}  // namespace gnn::objects
