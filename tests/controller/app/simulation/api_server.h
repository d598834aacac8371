#pragma once

#include "controller/client/http_transport.h"
#include "controller/objects/json.h"
#include "controller/objects/meta.h"
#include "tests/controller/app/simulation/simulated_time.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::simulation {

using objects::Json;
using objects::ObjectKey;
/// An object as it was at one version.
using Object = std::shared_ptr<const Json>;

/// Names of kinds, "plural.group".
namespace kinds {
inline const std::string kJobs = "gnnjobs.gnn.dev";
inline const std::string kPods = "pods";
inline const std::string kServices = "services";
inline const std::string kConfigMaps = "configmaps";
inline const std::string kSecrets = "secrets";
inline const std::string kNetworkPolicies = "networkpolicies.networking.k8s.io";
inline const std::string kWorkloads = "workloads.kueue.x-k8s.io";
inline const std::string kGroups = "podgroups.scheduling.x-k8s.io";
inline const std::string kFlavors = "resourceflavors.kueue.x-k8s.io";
inline const std::string kWorkloadPriorities = "workloadpriorityclasses.kueue.x-k8s.io";
inline const std::string kPriorities = "priorityclasses.scheduling.k8s.io";
}  // namespace kinds

/// Marks what is not the operator's.
inline const std::string kForeignLabel = "example.com/foreign";

/// One change of an object; `before` is null for a new one, `gone` says that it is no more.
struct Change {
  Object before;
  Object after;
  int64_t version = 0;
  bool gone = false;
};

/// Why a write is not taken.
struct Refusal {
  int status = 403;
  std::string reason = "Forbidden";
  std::string message;
};

// What objects say of themselves; empty texts where they say nothing.
[[nodiscard]] ObjectKey key_in(const Json& object);
[[nodiscard]] std::string text_at(const Json& object, const char* pointer);
[[nodiscard]] std::string uid_in(const Json& object);
[[nodiscard]] bool is_deleted(const Json& object);
[[nodiscard]] std::string label_in(const Json& object, std::string_view key);
/// The UID of the controller among its owners.
[[nodiscard]] std::string owner_in(const Json& object);
/// Whether somebody made it who only claims that it is the operator's.
[[nodiscard]] bool is_foreign(const Json& object);
/// Whether its owners were taken off it.
[[nodiscard]] bool is_orphan(const Json& object);
[[nodiscard]] bool has_finalizer(const Json& object, std::string_view finalizer);
void drop_finalizer(Json& object, std::string_view finalizer);
/// Whether a condition of its status is True.
[[nodiscard]] bool condition_holds(const Json& object, std::string_view type);
/// Puts a condition in the place of the one of that type.
void put_condition(Json& object, Json condition);

/// A Kubernetes API server in memory, as far as the controller and its world need it: names, UIDs,
/// versions, preconditions, finalizers, graceful deletion, patches, status subresources.
class ApiServer {
 public:
  /// Asked before a new object is stored; may change it.
  using Admit = std::function<std::optional<Refusal>(const std::string& kind, Json& object)>;
  /// Told of each change, and whose it is.
  using Tell =
      std::function<void(const std::string& kind, const Change& change, const std::string& actor)>;

  ApiServer(const SimulatedTime& time, Admit admit, Tell tell);

  /// Answers a request.
  [[nodiscard]] client::HttpResponse handle(
      const client::HttpRequest& request, const std::string& actor
  );

  // ---- for those who are always answered

  [[nodiscard]] Object find(const std::string& kind, const ObjectKey& key) const;
  [[nodiscard]] const std::map<ObjectKey, Object>& all(const std::string& kind) const;
  /// The same for those who change them meanwhile.
  [[nodiscard]] std::vector<Object> snapshot(const std::string& kind) const;
  /// Without admission. Nothing happens if the name is taken.
  void create(const std::string& kind, Json object, const std::string& actor);
  /// Puts the object in the place of the one of its name, if there is one of its UID.
  void change(const std::string& kind, Json object, const std::string& actor);
  void remove(
      const std::string& kind,
      const ObjectKey& key,
      const std::string& actor,
      const Json& options = Json::object()
  );
  /// All changes of a kind, the oldest first.
  [[nodiscard]] const std::vector<Change>& history(const std::string& kind) const;
  [[nodiscard]] int64_t version() const { return version_; }
  [[nodiscard]] std::string time_text() const;

  // ---- what administrators do

  /// Whether the API of Workloads, or of groups of pods, is served.
  void serve(const std::string& kind, bool served) {
    if (served) {
      unserved_.erase(kind);
    } else {
      unserved_.insert(kind);
    }
  }
  [[nodiscard]] bool serves(const std::string& kind) const { return !unserved_.contains(kind); }
  /// A namespace that takes no new object.
  void terminate(const std::string& name_space, bool terminates);
  [[nodiscard]] const std::set<std::string>& terminating() const { return terminating_; }

 private:
  struct KindState {
    std::map<ObjectKey, Object> objects;
    std::vector<Change> history;
    bool has_generation = false;
  };
  struct Target;

  [[nodiscard]] std::optional<Target> parse(const std::string& path);
  [[nodiscard]] client::HttpResponse discovery() const;
  [[nodiscard]] client::HttpResponse list(const Target& target) const;
  [[nodiscard]] client::HttpResponse post(
      const Target& target, const client::HttpRequest& request, const std::string& actor
  );
  [[nodiscard]] client::HttpResponse put(
      const Target& target, const client::HttpRequest& request, const std::string& actor
  );
  [[nodiscard]] client::HttpResponse patch(
      const Target& target, const client::HttpRequest& request, const std::string& actor
  );
  [[nodiscard]] client::HttpResponse erase(
      const Target& target, const Json& options, const std::string& actor
  );
  Object store(const std::string& kind, const Object& before, Json after, const std::string& actor);

  const SimulatedTime& time_;
  const Admit admit_;
  const Tell tell_;
  std::map<std::string, KindState> kinds_;
  std::set<std::string> terminating_;
  std::set<std::string> unserved_;
  int64_t version_ = 100;
  int64_t uids_ = 0;
};

[[nodiscard]] client::HttpResponse refused(
    int status, const std::string& reason, const std::string& message
);

}  // namespace gnn::simulation
