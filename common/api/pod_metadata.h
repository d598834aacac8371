#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <set>
#include <string>
#include <string_view>

/// Which labels and annotations a job may put on its pods. By such keys meshes inject containers, clouds
/// lend roles, runtimes and network plugins open the machine, and other objects of the namespace select
/// pods. No list of the dangerous ones is ever whole, so an administrator lists those that are not.
namespace gnn::api {

/// Keys by which clusters are told not to move a pod or not to give it a sidecar.
inline constexpr std::string_view kDefaultAllowedKeys =
    "cluster-autoscaler.kubernetes.io/safe-to-evict,eks.amazonaws.com/skip-containers,"
    "istio.io/dataplane-mode,karpenter.sh/do-not-disrupt,kuma.io/sidecar-injection,"
    "linkerd.io/inject,sidecar.istio.io/inject";

/// Whether the API server takes it as the key of a label or an annotation: a name of at most 63
/// characters, with an optional DNS prefix and "/".
[[nodiscard]] bool is_qualified_key(std::string_view key);

/// Whether the key is the operator's own: of gnn.dev or a subdomain, or a label that it selects pods by.
[[nodiscard]] bool is_reserved_key(std::string_view key);

/// The keys that an administrator lets jobs set.
class AllowedKeys {
 public:
  AllowedKeys();  ///< kDefaultAllowedKeys
  /// From keys with commas between; "example.com/*" stands for all keys of a prefix. Empty: none.
  /// Errors: Configuration, which names the entry, for what is no key and for reserved ones.
  [[nodiscard]] static Result<AllowedKeys> parse(std::string_view list);
  [[nodiscard]] bool contains(std::string_view key) const;
  friend bool operator==(const AllowedKeys&, const AllowedKeys&) = default;

 private:
  // A whole prefix is kept with its "/".
  explicit AllowedKeys(std::set<std::string, std::less<>> keys) : keys_(std::move(keys)) {}
  std::set<std::string, std::less<>> keys_;
};

/// Configuration if a template's metadata has a key that is not allowed, with the key's path and what
/// an administrator can do; otherwise success.
[[nodiscard]] Status check_pod_metadata(const GnnJobSpec& spec, const AllowedKeys& allowed);

}  // namespace gnn::api
