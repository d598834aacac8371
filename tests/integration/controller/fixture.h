#pragma once

#include "common/guarded.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/http.h"
#include "tests/support/process.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::testing {

using Json = nlohmann::json;

/// Calls the API as administrator. Throws on anything but success, unless a member says otherwise.
class Api {
 public:
  explicit Api(const ControlPlane& cluster) : endpoint_(cluster.admin_endpoint()) {}
  /// Through the proxy.
  Api(const ControlPlane& cluster, const FaultProxy& proxy)
      : endpoint_{.url = proxy.url(), .ca_file = cluster.ca_file()} {}

  [[nodiscard]] Json get(const std::string& path) const;
  /// null if it does not exist.
  [[nodiscard]] Json find(const std::string& path) const;
  Json create(const std::string& collection, const Json& object) const;
  /// Merge patch; false if the object does not exist.
  bool patch(const std::string& path, const Json& patch) const;
  void remove(const std::string& path, std::string_view options = "{}") const;

 private:
  HttpEndpoint endpoint_;
};

/// Simulates the kubelets of one namespace: pods become Running and, after a while, Succeeded with
/// the contract's result; the workers of deleted pods leave. Remembers every pod it has seen.
class FakeKubelets {
 public:
  FakeKubelets(
      const ControlPlane& cluster, std::string name_space, std::chrono::milliseconds run_time
  )
      : FakeKubelets(Api(cluster), std::move(name_space), run_time) {}
  FakeKubelets(Api api, std::string name_space, std::chrono::milliseconds run_time);
  ~FakeKubelets();

  /// Pods run on until this is called.
  void let_finish() { finish_ = true; }
  /// Makes the pod of that name fail as soon as it runs.
  void fail(const std::string& pod, int exit_code);
  /// Sets the address of the pod of that name; the others get 127.0.0.1.
  void set_address(const std::string& pod, const std::string& address);
  /// "name/uid" of each pod ever seen.
  [[nodiscard]] std::set<std::string> seen() const;

 private:
  struct State {
    std::set<std::string> seen;
    std::map<std::string, int> failures;           // exit codes by pod name
    std::map<std::string, std::string> addresses;  // by pod name
  };

  void run();
  void step(const Json& pod);

  const Api api_;
  const std::string name_space_;
  const std::chrono::milliseconds run_time_;
  std::atomic<bool> finish_ = false;
  std::atomic<bool> stopping_ = false;
  mutable Guarded<State> state_;
  std::map<std::string, std::chrono::steady_clock::time_point> running_since_;
  std::thread thread_;
};

/// Simulates the kubelets of one namespace with real processes. Each container runs as
/// gnn-conformance-worker on an address of its own in 127/8, with the pod's environment and the
/// job's ConfigMap as a file, and gets SIGTERM on deletion. Node 0 of every job has MASTER_ADDR.
class ProcessKubelets {
 public:
  ProcessKubelets(const ControlPlane& cluster, std::string name_space);
  ~ProcessKubelets();

  /// Kills the pod's process, as a crash would. False if it is not running.
  bool kill_pod(const std::string& pod);

 private:
  struct Container {
    pid_t pid = 0;
    std::string address;
    std::string result_file;
    bool told_to_stop = false;
  };

  void run();
  void step(const Json& pod);
  void start(const Json& pod);
  [[nodiscard]] int store_port(const std::string& gang);
  void report_end(const std::string& path, const Container& container, int status);

  const Api api_;
  const std::string name_space_;
  const std::filesystem::path directory_;
  ProcessSpawner spawner_;
  std::mutex mutex_;  // guards containers_ and uids_ through a whole turn of run()
  std::map<std::string, Container> containers_;  // by UID of the pod
  std::map<std::string, std::string> uids_;      // by name of the pod
  std::map<std::string, int> ports_;             // of the stores, by job and attempt
  int addresses_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// Puts our CRD there.
void install_crd(ControlPlane& plane);

/// The condition of that type; all its fields are empty texts if there is none.
[[nodiscard]] Json condition_in(const Json& conditions, const std::string& type);

/// A control plane with our CRD, and a fresh namespace for each test.
class Cluster {
 public:
  /// The shared one.
  Cluster();
  /// One that has our CRD, and outlives this.
  explicit Cluster(ControlPlane& plane);

  [[nodiscard]] ControlPlane& plane() const { return plane_; }
  [[nodiscard]] const Api& api() const { return api_; }
  [[nodiscard]] const std::string& name_space() const { return name_space_; }

  [[nodiscard]] std::string jobs() const;
  [[nodiscard]] std::string pods() const;
  [[nodiscard]] ControllerArguments arguments(std::vector<std::string> more = {}) const;
  [[nodiscard]] ControllerArguments arguments_through(
      const FaultProxy& proxy, std::vector<std::string> more = {}
  ) const;

  /// The administrator's kubeconfig, with that token instead of the certificate.
  [[nodiscard]] std::string kubeconfig_with_token(const std::string& token) const {
    return kubeconfig_with_token(token, plane_.server_url());
  }
  /// For that server.
  [[nodiscard]] std::string kubeconfig_with_token(
      const std::string& token, const std::string& server_url
  ) const;

  Json create_job(
      const std::string& name,
      int nodes = 2,
      const Json& changes = Json::object(),
      const Json& labels = Json::object()
  ) const;
  /// The names of the groups of pods in that API, but for those that are being deleted.
  [[nodiscard]] std::string groups(const std::string& api) const;
  [[nodiscard]] Json job(const std::string& name) const { return api_.find(jobs() + "/" + name); }
  [[nodiscard]] std::vector<Json> pods_of(const std::string& job) const;
  /// Whether the condition of that type is True.
  [[nodiscard]] bool holds(const std::string& job, const std::string& condition) const;
  /// The condition of that type; all its fields are empty texts if there is none.
  [[nodiscard]] Json condition(const std::string& job, const std::string& type) const;
  /// All conditions of the job as text, for messages.
  [[nodiscard]] std::string describe(const std::string& job) const;
  /// Reports that a pod's worker has ended, as a kubelet would.
  void end_pod(const std::string& pod, int exit_code, const std::string& message = "") const;

 private:
  ControlPlane& plane_;
  Api api_;
  std::string name_space_;
};

}  // namespace gnn::testing
