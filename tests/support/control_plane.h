#pragma once

#include "common/result.h"
#include "tests/support/http.h"
#include "tests/support/process.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::testing {

/// The programs of a control plane. Kwok plays the kubelet for fake nodes; without it nothing moves
/// a pod's status but the test.
enum class ControlPlanePart { Etcd, ApiServer, ControllerManager, Scheduler, Kwok };

/// Where the programs come from.
enum class ControlPlanePrograms {
  TestCluster,  ///< those of the test cluster: tools/cluster/go/build, or $GNN_CLUSTER_TOOLS
  NativeGroups,  ///< Kubernetes 1.37, whose scheduler can know groups of pods: tools/cluster/gangs/build
  Coscheduling,  ///< with a scheduler of that name, which has the plugin: tools/cluster/coscheduling/build
};

struct ControlPlaneOptions {
  /// Garbage collection, namespaces' default service accounts, quota. Without it a pod can be
  /// created only with a service account that exists.
  bool controller_manager = true;
  bool scheduler = false;
  /// Fake nodes ("fake-0", ...) played by kwok. Their pods become Running with addresses in
  /// 127.64.0.0/16, so that whoever connects to one stays on this machine. Needs `scheduler`, or
  /// pods with spec.nodeName.
  int fake_nodes = 0;
  /// A fake node counts as lost after so long without a sign of kwok, which gives four in that time.
  /// On a busy machine it may come late.
  std::chrono::seconds node_patience = std::chrono::seconds(8);
  /// Off: watches go straight to etcd, so that a compacted revision is answered 410 at once. On (as
  /// in real clusters): the API server answers from its memory what it still holds there.
  bool watch_cache = true;
  /// Appended to the API server's flags, e.g. "--max-requests-inflight=1".
  std::vector<std::string> api_server_flags = {};
  ControlPlanePrograms programs = ControlPlanePrograms::TestCluster;
  /// Of all its programs, e.g. "GenericWorkload=true".
  std::string feature_gates = {};
  /// podMaxBackoffSeconds of the scheduler: how long it waits at most before it looks at a pod again.
  std::optional<int> scheduler_max_backoff = {};
  /// A part that isn't ready by then is an error that quotes the end of its log.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
};

/// A real Kubernetes control plane (etcd, kube-apiserver and more) on free loopback ports, whose
/// faults are ordinary test steps. No kubelet and no root: for real pods see scripts/cluster. Ports
/// and files stay the same over restarts. All of it dies with the test's process, also when that is
/// killed.
/// Threads: one thread at a time, except the accessors.
/// Typical use, one for a whole test binary:
///     ControlPlane& cluster = ControlPlane::shared();
///     const std::string ns = cluster.create_namespace("watch").value();
class ControlPlane {
 public:
  /// The test binary's own control plane with the default options, started by the first call and
  /// stopped at exit. Ends the process with a message if it cannot start: a test that needs a
  /// cluster fails, it is never skipped.
  static ControlPlane& shared();

  /// Starts another one and waits until the API server is ready and, with the controller manager,
  /// the namespace "default" has its service account.
  [[nodiscard]] static Result<std::unique_ptr<ControlPlane>> start(
      ControlPlaneOptions options = {}
  );

  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;
  ~ControlPlane();

  /// E.g. "https://127.0.0.1:41234".
  [[nodiscard]] const std::string& server_url() const;
  /// Signed the API server's certificate (which names 127.0.0.1, ::1 and localhost).
  [[nodiscard]] std::string ca_file() const;
  /// A cluster administrator's client certificate (group system:masters).
  [[nodiscard]] std::string client_certificate_file() const;
  [[nodiscard]] std::string client_key_file() const;
  /// The bearer token of the service account kube-system/test-admin, who may do everything.
  [[nodiscard]] std::string token_file() const;
  /// The administrator's, by certificate.
  [[nodiscard]] std::string kubeconfig_file() const;
  /// The administrator's access for http_request() and HttpStream.
  [[nodiscard]] HttpEndpoint admin_endpoint() const;
  /// A folder of this control plane for the test's own files; removed at the end.
  [[nodiscard]] std::filesystem::path directory() const;

  /// Writes another kubeconfig: the same CA and, by `user`, the administrator's certificate or the
  /// token file, for another server, e.g. a FaultProxy. Returns its path.
  enum class KubeconfigUser { Certificate, TokenFile };
  [[nodiscard]] Result<std::string> write_kubeconfig(
      std::string_view server_url, KubeconfigUser user = KubeconfigUser::Certificate
  );

  /// SIGTERM and wait; SIGKILL and wait; SIGSTOP and SIGCONT.
  /// Errors: the part does not run.
  [[nodiscard]] Status stop(ControlPlanePart part);
  [[nodiscard]] Status kill(ControlPlanePart part);
  [[nodiscard]] Status pause(ControlPlanePart part);
  [[nodiscard]] Status resume(ControlPlanePart part);
  /// Starts a part that does not run, with the same ports and data, and waits until it is ready.
  [[nodiscard]] Status start(ControlPlanePart part);
  /// kill() and start().
  [[nodiscard]] Status restart(ControlPlanePart part);
  [[nodiscard]] bool running(ControlPlanePart part) const;
  /// 0 if it does not run.
  [[nodiscard]] int64_t pid(ControlPlanePart part) const;
  [[nodiscard]] std::string log_file(ControlPlanePart part) const;

  /// Drops all history of etcd before its newest revision, and returns that. Whoever then asks etcd
  /// for an older resourceVersion gets 410 Gone; the API server's watch cache may still answer it
  /// until it is restarted (or see ControlPlaneOptions::watch_cache).
  [[nodiscard]] Result<int64_t> compact_etcd();

  /// A backup of etcd, and its restoration: the API server's resourceVersions go back to those of the
  /// backup. Both stop what runs of etcd, the API server and the controller manager meanwhile, as
  /// Kubernetes advises.
  [[nodiscard]] Status back_up_etcd();
  [[nodiscard]] Status restore_etcd();

  /// Replaces token_file() by a new token of the same account, by rename as kubelets do. With
  /// Revoke it returns once the API server refuses the old one (it remembers tokens for 10 s).
  enum class OldToken { Keep, Revoke };
  [[nodiscard]] Status rotate_token(OldToken old_token);
  /// A token of any service account, valid for an hour; creates neither account nor rights.
  [[nodiscard]] Result<std::string> token_for(
      std::string_view name_space, std::string_view service_account
  );
  /// Replaces the CA behind ca_file() and the API server's certificate, and restarts the API
  /// server. Client certificates and tokens stay valid.
  [[nodiscard]] Status rotate_server_ca();

  /// The path of one of the pinned programs, e.g. "helm".
  [[nodiscard]] std::string program(std::string_view name) const;
  /// Runs the pinned kubectl as the administrator.
  [[nodiscard]] Result<CommandOutput> kubectl(
      const std::vector<std::string>& arguments, std::string_view standard_input = {}
  ) const;
  /// `kubectl apply --server-side -f`: a file, a folder (recursively), or "-" with
  /// `standard_input`. Waits until CRDs among them are established.
  [[nodiscard]] Status apply(std::string_view path, std::string_view standard_input = {});
  /// Creates "<prefix>-<number>", new in this control plane, with its default service account.
  [[nodiscard]] Result<std::string> create_namespace(std::string_view prefix);

  /// A server certificate signed by ca_file()'s CA, for what stands in front of the API server.
  struct CertificateFiles {
    std::string certificate;
    std::string key;
  };
  struct CertificateOptions {
    std::string alternative_names = "IP:127.0.0.1,IP:::1,DNS:localhost";
    bool expired = false;
  };
  [[nodiscard]] Result<CertificateFiles> issue_server_certificate(
      std::string_view name, const CertificateOptions& options
  );
  [[nodiscard]] Result<CertificateFiles> issue_server_certificate(std::string_view name) {
    return issue_server_certificate(name, {});
  }

 private:
  struct State;
  explicit ControlPlane(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gnn::testing
