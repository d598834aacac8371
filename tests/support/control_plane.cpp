#include "tests/support/control_plane.h"

#include "tests/support/cluster_tools.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/reserved_port.h"
#include "tests/support/wait_until.h"

#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <netinet/in.h>
#include <ranges>
#include <sstream>
#include <sys/file.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array kAllParts = {
    ControlPlanePart::Etcd,
    ControlPlanePart::ApiServer,
    ControlPlanePart::ControllerManager,
    ControlPlanePart::Scheduler,
    ControlPlanePart::Kwok,
};
constexpr const char* kFolderPrefix = "gnn-control-plane-";
constexpr seconds kStopTimeout{20};

const char* name_of(ControlPlanePart part) {
  switch (part) {
    case ControlPlanePart::Etcd:
      return "etcd";
    case ControlPlanePart::ApiServer:
      return "kube-apiserver";
    case ControlPlanePart::ControllerManager:
      return "kube-controller-manager";
    case ControlPlanePart::Scheduler:
      return "kube-scheduler";
    case ControlPlanePart::Kwok:
      return "kwok";
  }
  return "?";
}

const char* folder_of(ControlPlanePrograms programs) {
  switch (programs) {
    case ControlPlanePrograms::TestCluster:
      return "go";
    case ControlPlanePrograms::NativeGroups:
      return "gangs";
    case ControlPlanePrograms::Coscheduling:
      return "coscheduling";
  }
  return "?";
}

Status write_file(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << content;
  file.close();
  std::error_code error;
  if (file) fs::permissions(temporary, fs::perms::owner_read | fs::perms::owner_write, error);
  if (file && !error) fs::rename(temporary, path, error);
  if (!file || error) return fail(ErrorKind::Io, "writing " + path.string());
  return {};
}

Status run_checked(const std::vector<std::string>& arguments) {
  GNN_ASSIGN_OR_RETURN(const CommandOutput output, run_command(arguments));
  if (output.exit_code == 0) return {};
  return fail(ErrorKind::Internal, arguments.front() + " failed: " + output.errors);
}

// Removes what killed tests left: folders whose owner holds their lock no more.
void remove_stale_folders(const fs::path& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(kFolderPrefix)) continue;
    const int lock = open((entry.path() / "owner.lock").c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0) continue;  // another test is just making it, or another user's
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), error);
    close(lock);
  }
}

}  // namespace

struct ControlPlane::State {
  struct Part {
    std::vector<std::string> arguments;
    pid_t pid = 0;
    bool paused = false;
  };

  ControlPlaneOptions options;
  std::string tools;
  fs::path folder;
  int lock_fd = -1;
  ReservedPort etcd_port;
  ReservedPort etcd_peer_port;
  ReservedPort api_port;
  std::string server_url;
  ProcessSpawner spawner;
  std::array<Part, kAllParts.size()> parts;
  int next_namespace = 0;
  int next_token = 0;
  int next_kubeconfig = 0;

  ~State();

  Part& part(ControlPlanePart which) { return parts[static_cast<size_t>(which)]; }
  std::string file(std::string_view name) const { return (folder / name).string(); }
  std::string etcd_url() const { return "http://127.0.0.1:" + etcd_port.text(); }
  HttpEndpoint admin() const {
    return {
        .url = server_url,
        .ca_file = file("server-ca.crt"),
        .certificate_file = file("admin.crt"),
        .key_file = file("admin.key"),
    };
  }

  Status prepare();
  Status make_ca(const std::string& name) const;
  Status issue(
      const std::string& name,
      const std::string& subject,
      const std::string& ca,
      const std::vector<std::string>& extensions,
      bool expired = false
  ) const;
  Status copy_etcd(ControlPlane& plane, const std::string& from, const std::string& to) const;
  Status issue_server(const std::string& name, const CertificateOptions& certificate = {}) const;
  Json scheduler_config() const;
  void make_arguments();
  Status start_part(ControlPlanePart which);
  Status end_part(ControlPlanePart which, int signal);
  bool is_ready(ControlPlanePart which) const;
  bool has_exited(ControlPlanePart which);
  Status create(std::string_view collection, const Json& object) const;
  Status make_accounts();
  Status wait_for_default_account(std::string_view name_space) const;
  Status add_fake_nodes() const;
  Result<std::string> kubeconfig(std::string_view server, std::string_view user) const;
};

ControlPlane::State::~State() {
  // Clients first, so that no log fills with failures to connect.
  for (auto it = kAllParts.rbegin(); it != kAllParts.rend(); ++it) {
    if (part(*it).pid != 0) static_cast<void>(end_part(*it, SIGKILL));
  }
  if (folder.empty()) return;
  std::error_code error;
  if (std::getenv("GNN_KEEP_CONTROL_PLANE") != nullptr) {
    std::cerr << "control plane's files are kept in " << folder << "\n";
  } else {
    fs::remove_all(folder, error);
  }
  if (lock_fd >= 0) close(lock_fd);
}

Status ControlPlane::State::prepare() {
  GNN_ASSIGN_OR_RETURN(tools, cluster_tools(folder_of(options.programs)));
  const fs::path parent = fs::temp_directory_path();
  remove_stale_folders(parent);
  std::string name = (parent / (std::string(kFolderPrefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    return fail(
        ErrorKind::Io, "making a folder in " + parent.string() + ": " + std::strerror(errno)
    );
  }
  folder = name;
  lock_fd = open(file("owner.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd < 0 || flock(lock_fd, LOCK_EX) != 0) {
    return fail(ErrorKind::Io, "locking " + folder.string() + ": " + std::strerror(errno));
  }
  fs::create_directory(folder / "files");

  GNN_ASSIGN_OR_RETURN(etcd_port, ReservedPort::reserve());
  GNN_ASSIGN_OR_RETURN(etcd_peer_port, ReservedPort::reserve());
  GNN_ASSIGN_OR_RETURN(api_port, ReservedPort::reserve());
  server_url = "https://127.0.0.1:" + api_port.text();

  // Our own OpenSSL configuration, because the machine's adds extensions.
  GNN_RETURN_IF_ERROR(write_file(
      folder / "openssl.cnf", "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN=unused\n"
  ));
  GNN_RETURN_IF_ERROR(make_ca("server-ca"));
  GNN_RETURN_IF_ERROR(make_ca("client-ca"));
  GNN_RETURN_IF_ERROR(issue_server("server"));
  GNN_RETURN_IF_ERROR(
      issue("admin", "/O=system:masters/CN=admin", "client-ca", {"extendedKeyUsage=clientAuth"})
  );
  GNN_RETURN_IF_ERROR(run_checked(
      {"openssl",
       "ecparam",
       "-genkey",
       "-noout",
       "-name",
       "prime256v1",
       "-out",
       file("accounts.key")}
  ));
  GNN_RETURN_IF_ERROR(run_checked(
      {"openssl", "ec", "-in", file("accounts.key"), "-pubout", "-out", file("accounts.pub")}
  ));
  GNN_ASSIGN_OR_RETURN(const std::string config, kubeconfig(server_url, "certificate"));
  GNN_RETURN_IF_ERROR(write_file(folder / "kubeconfig", config));
  GNN_RETURN_IF_ERROR(write_file(folder / "scheduler.json", scheduler_config().dump(2)));
  make_arguments();
  return {};
}

Json ControlPlane::State::scheduler_config() const {
  Json config = {
      {"apiVersion", "kubescheduler.config.k8s.io/v1"},
      {"kind", "KubeSchedulerConfiguration"},
      {"clientConnection", {{"kubeconfig", file("kubeconfig")}, {"qps", 200}, {"burst", 400}}},
      {"leaderElection", {{"leaderElect", false}}},
  };
  if (options.scheduler_max_backoff) {
    config["podMaxBackoffSeconds"] = *options.scheduler_max_backoff;
  }
  if (options.programs == ControlPlanePrograms::Coscheduling) {
    // The plugin has its own order of the queue.
    config["profiles"] = Json::array(
        {{{"schedulerName", "coscheduling"},
          {"plugins",
           {{"multiPoint",
             {{"enabled", Json::array({{{"name", "Coscheduling"}}})},
              {"disabled", Json::array({{{"name", "PrioritySort"}}})}}}}}}}
    );
  }
  return config;
}

Status ControlPlane::State::make_ca(const std::string& name) const {
  return run_checked(
      {"openssl",
       "req",
       "-x509",
       "-config",
       file("openssl.cnf"),
       "-newkey",
       "ec",
       "-pkeyopt",
       "ec_paramgen_curve:prime256v1",
       "-nodes",
       "-days",
       "30",
       "-subj",
       "/CN=" + name,
       "-addext",
       "basicConstraints=critical,CA:TRUE",
       "-addext",
       "keyUsage=critical,keyCertSign,digitalSignature",
       "-addext",
       "subjectKeyIdentifier=hash",
       "-keyout",
       file(name + ".key"),
       "-out",
       file(name + ".crt")}
  );
}

Status ControlPlane::State::issue(
    const std::string& name,
    const std::string& subject,
    const std::string& ca,
    const std::vector<std::string>& extensions,
    bool expired
) const {
  std::vector<std::string> arguments = {
      "openssl",
      "req",
      "-x509",
      "-config",
      file("openssl.cnf"),
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "30",
      "-subj",
      subject,
      "-CA",
      file(ca + ".crt"),
      "-CAkey",
      file(ca + ".key"),
      "-addext",
      "basicConstraints=critical,CA:FALSE",
      "-addext",
      "authorityKeyIdentifier=keyid",
      "-keyout",
      file(name + ".key"),
      "-out",
      file(name + ".crt")
  };
  if (expired) {
    arguments.insert(
        arguments.begin(),
        {"/usr/bin/env", std::string("LD_PRELOAD=") + kFaketimeLibrary, "FAKETIME=-60d"}
    );
  }
  for (const std::string& extension : extensions) {
    arguments.insert(arguments.end(), {"-addext", extension});
  }
  return run_checked(arguments);
}

Status ControlPlane::State::issue_server(
    const std::string& name, const CertificateOptions& certificate
) const {
  return issue(
      name,
      "/CN=" + name,
      "server-ca",
      {"extendedKeyUsage=serverAuth", "subjectAltName=" + certificate.alternative_names},
      certificate.expired
  );
}

void ControlPlane::State::make_arguments() {
  const std::string peer_url = "http://127.0.0.1:" + etcd_peer_port.text();
  part(ControlPlanePart::Etcd).arguments = {
      tools + "/etcd",
      "--name=default",
      "--data-dir=" + file("etcd"),
      "--listen-client-urls=" + etcd_url(),
      "--advertise-client-urls=" + etcd_url(),
      "--listen-peer-urls=" + peer_url,
      "--initial-advertise-peer-urls=" + peer_url,
      "--initial-cluster=default=" + peer_url,
      "--socket-reuse-port=true",
      "--unsafe-no-fsync",
      "--log-level=warn",
  };
  auto& api = part(ControlPlanePart::ApiServer).arguments;
  api = {
      tools + "/kube-apiserver",
      "--etcd-servers=" + etcd_url(),
      "--bind-address=127.0.0.1",
      "--secure-port=" + api_port.text(),
      "--permit-port-sharing=true",
      "--endpoint-reconciler-type=none",
      "--tls-cert-file=" + file("server.crt"),
      "--tls-private-key-file=" + file("server.key"),
      "--client-ca-file=" + file("client-ca.crt"),
      "--service-account-key-file=" + file("accounts.pub"),
      "--service-account-signing-key-file=" + file("accounts.key"),
      "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
      "--service-cluster-ip-range=10.96.0.0/16",
      "--authorization-mode=Node,RBAC",
      "--enable-admission-plugins=NodeRestriction",
      // As in real clusters: who may not have it is for policies to say.
      "--allow-privileged=true",
      "--shutdown-delay-duration=0s",
      "--profiling=false",
      std::string("--watch-cache=") + (options.watch_cache ? "true" : "false"),
      "--cert-dir=" + file("apiserver"),
  };
  api.insert(api.end(), options.api_server_flags.begin(), options.api_server_flags.end());
  part(ControlPlanePart::ControllerManager).arguments = {
      tools + "/kube-controller-manager",
      "--kubeconfig=" + file("kubeconfig"),
      "--service-account-private-key-file=" + file("accounts.key"),
      "--root-ca-file=" + file("server-ca.crt"),
      "--leader-elect=false",
      "--secure-port=0",
      // Endpoints of pods with loopback addresses are refused: their controllers would only retry.
      "--controllers=*,-endpoints-controller,-endpointslice-controller,"
      "-endpointslice-mirroring-controller",
      "--node-monitor-grace-period=" + std::to_string(options.node_patience.count()) + "s",
      "--node-monitor-period=1s",
      "--kube-api-qps=200",
      "--kube-api-burst=400",
  };
  part(ControlPlanePart::Scheduler).arguments = {
      tools + "/kube-scheduler", "--config=" + file("scheduler.json"), "--secure-port=0"
  };
  if (options.programs == ControlPlanePrograms::Coscheduling) {
    // No event wakes a gang that the plugin rejected; by default it waits 5 minutes for another look.
    part(ControlPlanePart::Scheduler)
        .arguments.push_back("--pod-max-in-unschedulable-pods-duration=5s");
  }
  if (!options.feature_gates.empty()) {
    for (const ControlPlanePart each :
         {ControlPlanePart::ApiServer,
          ControlPlanePart::ControllerManager,
          ControlPlanePart::Scheduler}) {
      part(each).arguments.push_back("--feature-gates=" + options.feature_gates);
    }
  }
  auto& kwok = part(ControlPlanePart::Kwok).arguments;
  kwok = {
      tools + "/kwok",
      "--kubeconfig=" + file("kubeconfig"),
      "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
      "--cidr=127.64.0.0/16",
      "--node-ip=127.0.0.1",
      // It renews leases at a quarter of this, well within the controller manager's grace period.
      "--node-lease-duration-seconds=" + std::to_string(options.node_patience.count()),
  };
  std::error_code error;
  for (const auto& stage : fs::directory_iterator(tools + "/kwok-stages", error)) {
    kwok.push_back("--config=" + stage.path().string());
  }
}

bool ControlPlane::State::has_exited(ControlPlanePart which) {
  Part& entry = part(which);
  if (entry.pid == 0) return true;
  if (!wait_for_exit(entry.pid, milliseconds(0))) return false;
  entry.pid = 0;
  return true;
}

bool ControlPlane::State::is_ready(ControlPlanePart which) const {
  switch (which) {
    case ControlPlanePart::Etcd: {
      const auto reply =
          http_request({.url = etcd_url()}, "GET", "/health", {}, {}, milliseconds(500));
      return reply && reply->status == 200;
    }
    case ControlPlanePart::ApiServer: {
      const auto reply = http_request(admin(), "GET", "/readyz", {}, {}, seconds(2));
      return reply && reply->status == 200;
    }
    case ControlPlanePart::ControllerManager:
    case ControlPlanePart::Scheduler:
    case ControlPlanePart::Kwok:
      return true;  // seen by their effects
  }
  return false;
}

Status ControlPlane::State::start_part(ControlPlanePart which) {
  Part& entry = part(which);
  const std::string name = name_of(which);
  if (entry.pid != 0 && !has_exited(which)) {
    return fail(ErrorKind::Conflict, name + " runs already");
  }
  GNN_ASSIGN_OR_RETURN(entry.pid, spawner.spawn(entry.arguments, file(name + ".log")));
  entry.paused = false;
  bool exited = false;
  const bool ready = wait_until(options.start_timeout, [&] {
    exited = has_exited(which);
    return exited || is_ready(which);
  });
  if (ready && !exited) return {};
  const std::string what = exited ? " ended at once" : " isn't ready in time";
  return fail(
      ErrorKind::Internal,
      name + what + "; its log ends with:\n" + end_of_file(file(name + ".log"), 2000)
  );
}

Status ControlPlane::State::end_part(ControlPlanePart which, int signal) {
  Part& entry = part(which);
  if (has_exited(which)) {
    return fail(ErrorKind::NotFound, std::string(name_of(which)) + " does not run");
  }
  ::kill(entry.pid, signal);
  if (entry.paused && signal != SIGKILL) ::kill(entry.pid, SIGCONT);
  if (!wait_for_exit(entry.pid, kStopTimeout)) {
    ::kill(entry.pid, SIGKILL);
    static_cast<void>(wait_for_exit(entry.pid, kStopTimeout));
  }
  entry.pid = 0;
  entry.paused = false;
  return {};
}

Status ControlPlane::State::create(std::string_view collection, const Json& object) const {
  GNN_ASSIGN_OR_RETURN(
      const HttpReply reply, http_request(admin(), "POST", collection, object.dump())
  );
  if (reply.status == 201 || reply.status == 409) return {};
  return fail(ErrorKind::Internal, "creating in " + std::string(collection) + ": " + reply.body);
}

Status ControlPlane::State::make_accounts() {
  // The API server makes its own namespaces a moment after it is ready.
  Status made = fail(ErrorKind::Timeout, "kube-system did not appear");
  const bool done = wait_until(options.start_timeout, [&] {
    made = create(
        "/api/v1/namespaces/kube-system/serviceaccounts", {{"metadata", {{"name", "test-admin"}}}}
    );
    return made.has_value();
  });
  if (!done) return made;
  return create(
      "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
      {
          {"metadata", {{"name", "test-admin"}}},
          {"roleRef",
           {{"apiGroup", "rbac.authorization.k8s.io"},
            {"kind", "ClusterRole"},
            {"name", "cluster-admin"}}},
          {"subjects",
           {{{"kind", "ServiceAccount"}, {"name", "test-admin"}, {"namespace", "kube-system"}}}},
      }
  );
}

Status ControlPlane::State::wait_for_default_account(std::string_view name_space) const {
  const std::string path =
      "/api/v1/namespaces/" + std::string(name_space) + "/serviceaccounts/default";
  const bool found = wait_until(options.start_timeout, [&] {
    const auto reply = http_request(admin(), "GET", path);
    return reply && reply->status == 200;
  });
  if (found) return {};
  return fail(
      ErrorKind::Timeout,
      "namespace " + std::string(name_space) +
          " got no default service account; kube-controller-manager's log ends with:\n" +
          end_of_file(file("kube-controller-manager.log"), 2000)
  );
}

Status ControlPlane::State::add_fake_nodes() const {
  for (int i = 0; i < options.fake_nodes; ++i) {
    const std::string name = "fake-" + std::to_string(i);
    const Json resources = {
        {"cpu", "32"}, {"memory", "256Gi"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}
    };
    GNN_RETURN_IF_ERROR(create(
        "/api/v1/nodes",
        {
            {"metadata",
             {{"name", name},
              {"annotations", {{"kwok.x-k8s.io/node", "fake"}}},
              {"labels",
               {{"kubernetes.io/arch", "amd64"},
                {"kubernetes.io/hostname", name},
                {"kubernetes.io/os", "linux"},
                {"type", "kwok"}}}}},
            {"status", {{"allocatable", resources}, {"capacity", resources}}},
        }
    ));
  }
  return {};
}

Result<std::string> ControlPlane::State::kubeconfig(std::string_view server, std::string_view user)
    const {
  Json credentials;
  if (user == "certificate") {
    credentials = {{"client-certificate", file("admin.crt")}, {"client-key", file("admin.key")}};
  } else {
    credentials = {{"tokenFile", file("token")}};
  }
  const Json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "test"},
      {"contexts", {{{"name", "test"}, {"context", {{"cluster", "test"}, {"user", "admin"}}}}}},
      {"clusters",
       {{{"name", "test"},
         {"cluster", {{"server", server}, {"certificate-authority", file("server-ca.crt")}}}}}},
      {"users", {{{"name", "admin"}, {"user", credentials}}}},
  };
  return config.dump(2);
}

ControlPlane::ControlPlane(std::unique_ptr<State> state) : state_(std::move(state)) {}
ControlPlane::~ControlPlane() = default;

ControlPlane& ControlPlane::shared() {
  static const std::unique_ptr<ControlPlane> instance = [] {
    auto started = start();
    if (!started) {
      std::cerr << "the control plane for this test did not start: " << started.error().message
                << std::endl;
      std::_Exit(1);
    }
    return std::move(*started);
  }();
  return *instance;
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::start(ControlPlaneOptions options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  GNN_RETURN_IF_ERROR(state->prepare());
  std::unique_ptr<ControlPlane> plane(new ControlPlane(std::move(state)));
  State& self = *plane->state_;
  GNN_RETURN_IF_ERROR(self.start_part(ControlPlanePart::Etcd));
  GNN_RETURN_IF_ERROR(self.start_part(ControlPlanePart::ApiServer));
  if (self.options.controller_manager) {
    GNN_RETURN_IF_ERROR(self.start_part(ControlPlanePart::ControllerManager));
  }
  if (self.options.scheduler) GNN_RETURN_IF_ERROR(self.start_part(ControlPlanePart::Scheduler));
  GNN_RETURN_IF_ERROR(self.make_accounts());
  GNN_RETURN_IF_ERROR(plane->rotate_token(OldToken::Keep));
  if (self.options.fake_nodes > 0) {
    GNN_RETURN_IF_ERROR(self.add_fake_nodes());
    GNN_RETURN_IF_ERROR(self.start_part(ControlPlanePart::Kwok));
  }
  if (self.options.controller_manager) {
    GNN_RETURN_IF_ERROR(self.wait_for_default_account("default"));
  }
  return plane;
}

const std::string& ControlPlane::server_url() const {
  return state_->server_url;
}
std::string ControlPlane::ca_file() const {
  return state_->file("server-ca.crt");
}
std::string ControlPlane::client_certificate_file() const {
  return state_->file("admin.crt");
}
std::string ControlPlane::client_key_file() const {
  return state_->file("admin.key");
}
std::string ControlPlane::token_file() const {
  return state_->file("token");
}
std::string ControlPlane::kubeconfig_file() const {
  return state_->file("kubeconfig");
}
std::filesystem::path ControlPlane::directory() const {
  return state_->folder / "files";
}
HttpEndpoint ControlPlane::admin_endpoint() const {
  return state_->admin();
}

Result<std::string> ControlPlane::write_kubeconfig(
    std::string_view server_url, KubeconfigUser user
) {
  GNN_ASSIGN_OR_RETURN(
      const std::string config,
      state_->kubeconfig(server_url, user == KubeconfigUser::Certificate ? "certificate" : "token")
  );
  const std::string path = state_->file("kubeconfig-" + std::to_string(state_->next_kubeconfig++));
  GNN_RETURN_IF_ERROR(write_file(path, config));
  return path;
}

Status ControlPlane::stop(ControlPlanePart part) {
  return state_->end_part(part, SIGTERM);
}
Status ControlPlane::kill(ControlPlanePart part) {
  return state_->end_part(part, SIGKILL);
}
Status ControlPlane::start(ControlPlanePart part) {
  return state_->start_part(part);
}

Status ControlPlane::pause(ControlPlanePart part) {
  if (!running(part))
    return fail(ErrorKind::NotFound, std::string(name_of(part)) + " does not run");
  ::kill(state_->part(part).pid, SIGSTOP);
  state_->part(part).paused = true;
  return {};
}

Status ControlPlane::resume(ControlPlanePart part) {
  if (!running(part))
    return fail(ErrorKind::NotFound, std::string(name_of(part)) + " does not run");
  ::kill(state_->part(part).pid, SIGCONT);
  state_->part(part).paused = false;
  return {};
}

Status ControlPlane::restart(ControlPlanePart part) {
  GNN_RETURN_IF_ERROR(kill(part));
  return start(part);
}

bool ControlPlane::running(ControlPlanePart part) const {
  return !state_->has_exited(part);
}
int64_t ControlPlane::pid(ControlPlanePart part) const {
  return running(part) ? state_->part(part).pid : 0;
}
std::string ControlPlane::log_file(ControlPlanePart part) const {
  return state_->file(std::string(name_of(part)) + ".log");
}

Result<int64_t> ControlPlane::compact_etcd() {
  const HttpEndpoint etcd{.url = state_->etcd_url()};
  // Any read tells the newest revision.
  GNN_ASSIGN_OR_RETURN(
      const HttpReply read, http_request(etcd, "POST", "/v3/kv/range", R"({"key": "YQ=="})")
  );
  const Json header = Json::parse(read.body, nullptr, false);
  if (read.status != 200 || !header.contains("header")) {
    return fail(ErrorKind::Internal, "reading etcd's revision: " + read.body);
  }
  const std::string revision = header.at("header").at("revision");
  const Json request = {{"revision", revision}, {"physical", true}};
  GNN_ASSIGN_OR_RETURN(
      const HttpReply reply, http_request(etcd, "POST", "/v3/kv/compaction", request.dump())
  );
  if (reply.status != 200) return fail(ErrorKind::Internal, "compacting etcd: " + reply.body);
  return std::stoll(revision);
}

Status ControlPlane::rotate_token(OldToken old_token) {
  // Each token is bound to a Secret: it is refused once that is gone.
  const std::string secrets = "/api/v1/namespaces/kube-system/secrets";
  const std::string name = "test-admin-" + std::to_string(state_->next_token);
  GNN_RETURN_IF_ERROR(state_->create(secrets, {{"metadata", {{"name", name}}}}));
  const Json request = {
      {"apiVersion", "authentication.k8s.io/v1"},
      {"kind", "TokenRequest"},
      {"spec",
       {{"expirationSeconds", 3600},
        {"boundObjectRef", {{"apiVersion", "v1"}, {"kind", "Secret"}, {"name", name}}}}},
  };
  GNN_ASSIGN_OR_RETURN(
      const HttpReply reply,
      http_request(
          state_->admin(),
          "POST",
          "/api/v1/namespaces/kube-system/serviceaccounts/test-admin/token",
          request.dump()
      )
  );
  if (reply.status != 201) return fail(ErrorKind::Internal, "requesting a token: " + reply.body);
  const std::string old_content = read_file(token_file());
  GNN_RETURN_IF_ERROR(
      write_file(token_file(), Json::parse(reply.body).at("status").at("token").get<std::string>())
  );
  const int previous = state_->next_token++ - 1;
  if (old_token == OldToken::Keep || previous < 0) return {};

  const std::string path = secrets + "/test-admin-" + std::to_string(previous);
  GNN_ASSIGN_OR_RETURN(const HttpReply gone, http_request(state_->admin(), "DELETE", path));
  if (gone.status != 200) return fail(ErrorKind::Internal, "revoking a token: " + gone.body);
  const HttpEndpoint with_old{
      .url = state_->server_url, .ca_file = ca_file(), .bearer_token = old_content
  };
  const bool refused = wait_until(seconds(30), [&] {
    const auto answer = http_request(with_old, "GET", "/api/v1/namespaces/default");
    return answer && answer->status == 401;
  });
  if (!refused) return fail(ErrorKind::Timeout, "the revoked token is still accepted");
  return {};
}

Result<std::string> ControlPlane::token_for(
    std::string_view name_space, std::string_view service_account
) {
  GNN_ASSIGN_OR_RETURN(
      const HttpReply reply,
      http_request(
          state_->admin(),
          "POST",
          "/api/v1/namespaces/" + std::string(name_space) + "/serviceaccounts/" +
              std::string(service_account) + "/token",
          R"({"spec": {"expirationSeconds": 3600}})"
      )
  );
  if (reply.status != 201) return fail(ErrorKind::NotFound, "requesting a token: " + reply.body);
  return Json::parse(reply.body).at("status").at("token").get<std::string>();
}

Status ControlPlane::back_up_etcd() {
  return state_->copy_etcd(*this, "etcd", "etcd-backup");
}

Status ControlPlane::restore_etcd() {
  return state_->copy_etcd(*this, "etcd-backup", "etcd");
}

Status ControlPlane::State::copy_etcd(
    ControlPlane& plane, const std::string& from, const std::string& to
) const {
  std::vector<ControlPlanePart> stopped;
  for (const ControlPlanePart part :
       {ControlPlanePart::ControllerManager, ControlPlanePart::ApiServer, ControlPlanePart::Etcd}) {
    if (!plane.running(part)) continue;
    // Etcd is asked to end, so that its files are whole.
    GNN_RETURN_IF_ERROR(part == ControlPlanePart::Etcd ? plane.stop(part) : plane.kill(part));
    stopped.push_back(part);
  }
  std::error_code error;
  fs::remove_all(file(to), error);
  fs::copy(file(from), file(to), fs::copy_options::recursive, error);
  if (error) return fail(ErrorKind::Io, "copying " + file(from) + ": " + error.message());
  for (const ControlPlanePart part : std::views::reverse(stopped)) {
    GNN_RETURN_IF_ERROR(plane.start(part));
  }
  return {};
}

Status ControlPlane::rotate_server_ca() {
  GNN_RETURN_IF_ERROR(kill(ControlPlanePart::ApiServer));
  GNN_RETURN_IF_ERROR(state_->make_ca("server-ca"));
  GNN_RETURN_IF_ERROR(state_->issue_server("server"));
  return start(ControlPlanePart::ApiServer);
}

std::string ControlPlane::program(std::string_view name) const {
  return state_->tools + "/" + std::string(name);
}

Result<CommandOutput> ControlPlane::kubectl(
    const std::vector<std::string>& arguments, std::string_view standard_input
) const {
  std::vector<std::string> command = {
      program("kubectl"),
      "--kubeconfig=" + kubeconfig_file(),
      // Ports come back, and what kubectl remembers of a server goes by its port.
      "--cache-dir=" + state_->file("kubectl-cache"),
  };
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_command(command, standard_input);
}

Status ControlPlane::apply(std::string_view path, std::string_view standard_input) {
  GNN_ASSIGN_OR_RETURN(
      const CommandOutput output,
      kubectl(
          {"apply", "--server-side", "--force-conflicts", "-R", "-f", std::string(path)},
          standard_input
      )
  );
  if (output.exit_code != 0) {
    return fail(ErrorKind::Configuration, "applying " + std::string(path) + ": " + output.errors);
  }
  const bool established = wait_until(seconds(30), [&] {
    const auto reply = http_request(
        state_->admin(), "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    );
    if (!reply || reply->status != 200) return false;
    const Json list = Json::parse(reply->body);
    for (const Json& definition : list.at("items")) {
      bool is_established = false;
      const Json status = definition.value("status", Json::object());
      for (const Json& condition : status.value("conditions", Json::array())) {
        is_established |= condition.at("type") == "Established" && condition.at("status") == "True";
      }
      if (!is_established) return false;
    }
    return true;
  });
  if (!established) return fail(ErrorKind::Timeout, "a CRD was not established within 30 s");
  return {};
}

Result<std::string> ControlPlane::create_namespace(std::string_view prefix) {
  const std::string name = std::string(prefix) + "-" + std::to_string(state_->next_namespace++);
  GNN_RETURN_IF_ERROR(state_->create("/api/v1/namespaces", {{"metadata", {{"name", name}}}}));
  if (state_->options.controller_manager) {
    GNN_RETURN_IF_ERROR(state_->wait_for_default_account(name));
  }
  return name;
}

Result<ControlPlane::CertificateFiles> ControlPlane::issue_server_certificate(
    std::string_view name, const CertificateOptions& options
) {
  const std::string file_name = "issued-" + std::string(name);
  GNN_RETURN_IF_ERROR(state_->issue_server(file_name, options));
  return CertificateFiles{
      .certificate = state_->file(file_name + ".crt"), .key = state_->file(file_name + ".key")
  };
}

}  // namespace gnn::testing
