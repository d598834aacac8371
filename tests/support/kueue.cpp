#include "tests/support/kueue.h"

#include "tests/support/cluster_tools.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/reserved_port.h"
#include "tests/support/wait_until.h"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kNamespace = "kueue-system";
constexpr const char* kAccount = "kueue-controller-manager";
constexpr const char* kWebhookService = "kueue-webhook-service";
constexpr const char* kCertificate = "kueue-webhook-server-cert";
// Kueue cannot be told to share a port, so that it has an address of its own: a port that we hold on
// 127.0.0.1 is free there.
constexpr const char* kAddress = "127.0.0.2";
constexpr milliseconds kStartTimeout = std::chrono::minutes(2);

constexpr const char* kServices = "/api/v1/namespaces/kueue-system/services";
constexpr const char* kSecrets = "/api/v1/namespaces/kueue-system/secrets";
constexpr const char* kAdmission = "/apis/admissionregistration.k8s.io/v1";
constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

Result<std::string> decode_base64(const std::string& text) {
  GNN_ASSIGN_OR_RETURN(
      const CommandOutput decoded, run_command({"openssl", "base64", "-d", "-A"}, text)
  );
  if (decoded.exit_code == 0) return decoded.output;
  return fail(ErrorKind::Data, "not base64: " + decoded.errors);
}

Status write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return fail(ErrorKind::Io, "writing " + path.string());
  return {};
}

}  // namespace

class Kueue::Impl {
 public:
  explicit Impl(ControlPlane& cluster)
      : cluster_(cluster),
        admin_(cluster.admin_endpoint()),
        folder_(cluster.directory() / "kueue") {}
  ~Impl() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait_for_exit(pid_, seconds(20)));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status start(std::string_view configuration);
  [[nodiscard]] std::string log_file() const { return folder_ / "kueue.log"; }

 private:
  [[nodiscard]] Result<Json> call(
      std::string_view method, const std::string& path, const Json& body = nullptr
  ) const;
  // The API server resolves a webhook's Service by itself; one of type ExternalName leads it to an address.
  Status lead_webhooks_here() const;
  Status set_port(const std::string& path, Json object) const;
  Status write_configuration(std::string_view changes) const;
  Status write_kubeconfig() const;
  // As a kubelet keeps a mounted Secret.
  Status mount_certificate() const;
  Status wait_ready();
  [[nodiscard]] bool answers() const;
  [[nodiscard]] tl::unexpected<Error> failed(const std::string& what) const {
    return fail(
        ErrorKind::Internal,
        "Kueue " + what + "; its log ends with:\n" + end_of_file(log_file(), 3000)
    );
  }

  ControlPlane& cluster_;
  HttpEndpoint admin_;
  std::filesystem::path folder_;
  ReservedPort webhook_port_;
  ReservedPort health_port_;
  ProcessSpawner spawner_;
  pid_t pid_ = 0;
};

Result<Json> Kueue::Impl::call(std::string_view method, const std::string& path, const Json& body)
    const {
  const HttpHeaders headers{
      {"Content-Type", method == "PATCH" ? "application/merge-patch+json" : "application/json"}
  };
  GNN_ASSIGN_OR_RETURN(
      const HttpReply reply,
      http_request(admin_, method, path, body.is_null() ? "" : body.dump(), headers)
  );
  if (reply.status / 100 == 2) return Json::parse(reply.body);
  return fail(ErrorKind::Internal, std::string(method) + " " + path + ": " + reply.body);
}

Status Kueue::Impl::start(std::string_view configuration) {
  GNN_ASSIGN_OR_RETURN(const std::string tools, cluster_tools("kueue"));
  std::filesystem::create_directories(folder_ / "certificate");
  GNN_ASSIGN_OR_RETURN(webhook_port_, ReservedPort::reserve());
  GNN_ASSIGN_OR_RETURN(health_port_, ReservedPort::reserve());
  GNN_RETURN_IF_ERROR(cluster_.apply(tools + "/manifests-without-manager.yaml"));
  GNN_RETURN_IF_ERROR(lead_webhooks_here());
  GNN_RETURN_IF_ERROR(write_configuration(configuration));
  GNN_RETURN_IF_ERROR(write_kubeconfig());
  const std::string folder = folder_.string();
  GNN_ASSIGN_OR_RETURN(
      pid_,
      spawner_.spawn(
          {tools + "/kueue",
           "--config=" + folder + "/configuration.json",
           "--kubeconfig=" + folder + "/kubeconfig",
           "--zap-log-level=2"},
          log_file()
      )
  );
  GNN_RETURN_IF_ERROR(mount_certificate());
  return wait_ready();
}

Status Kueue::Impl::lead_webhooks_here() const {
  const std::string service = std::string(kServices) + "/" + kWebhookService;
  GNN_ASSIGN_OR_RETURN([[maybe_unused]] const Json deleted, call("DELETE", service));
  GNN_ASSIGN_OR_RETURN(
      [[maybe_unused]] const Json made,
      call(
          "POST",
          kServices,
          {{"metadata", {{"name", kWebhookService}}},
           {"spec", {{"type", "ExternalName"}, {"externalName", kAddress}}}}
      )
  );
  for (const char* kind : {"mutating", "validating"}) {
    const std::string path = std::string(kAdmission) + "/" + kind + "webhookconfigurations/kueue-" +
                             kind + "-webhook-configuration";
    GNN_ASSIGN_OR_RETURN(const Json configuration, call("GET", path));
    Json changed = configuration;
    for (Json& webhook : changed["webhooks"]) {
      webhook["clientConfig"]["service"]["port"] = webhook_port_.number();
    }
    GNN_ASSIGN_OR_RETURN([[maybe_unused]] const Json written, call("PUT", path, changed));
  }
  GNN_ASSIGN_OR_RETURN(const Json crds, call("GET", kCrds));
  for (const Json& crd : crds["items"]) {
    if (crd["spec"].value(Json::json_pointer("/conversion/strategy"), "") != "Webhook") continue;
    const Json port = {{"port", webhook_port_.number()}};
    GNN_ASSIGN_OR_RETURN(
        [[maybe_unused]] const Json written,
        call(
            "PATCH",
            std::string(kCrds) + "/" + crd["metadata"]["name"].get<std::string>(),
            {{"spec", {{"conversion", {{"webhook", {{"clientConfig", {{"service", port}}}}}}}}}}
        )
    );
  }
  return {};
}

Status Kueue::Impl::write_configuration(std::string_view changes) const {
  Json configuration = {
      {"apiVersion", "config.kueue.x-k8s.io/v1beta2"},
      {"kind", "Configuration"},
      {"namespace", kNamespace},
      {"health", {{"healthProbeBindAddress", std::string(kAddress) + ":" + health_port_.text()}}},
      {"metrics", {{"bindAddress", "0"}}},
      {"webhook",
       {{"host", kAddress},
        {"port", webhook_port_.number()},
        {"certDir", (folder_ / "certificate").string()}}},
      {"leaderElection", {{"leaderElect", false}}},
      {"clientConnection", {{"qps", 200}, {"burst", 400}}},
      {"integrations", {{"externalFrameworks", {"GNNJob.v1alpha1.gnn.dev"}}}},
      // Its server has a fixed port.
      {"featureGates", {{"VisibilityOnDemand", false}}},
  };
  const Json parsed = Json::parse(changes, nullptr, false);
  if (!parsed.is_object()) {
    return fail(ErrorKind::Configuration, "not a JSON object: " + std::string(changes));
  }
  configuration.merge_patch(parsed);
  return write_text(folder_ / "configuration.json", configuration.dump(2));
}

Status Kueue::Impl::write_kubeconfig() const {
  GNN_ASSIGN_OR_RETURN(const std::string token, cluster_.token_for(kNamespace, kAccount));
  const Json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "test"},
      {"contexts", {{{"name", "test"}, {"context", {{"cluster", "test"}, {"user", "kueue"}}}}}},
      {"clusters",
       {{{"name", "test"},
         {"cluster",
          {{"server", cluster_.server_url()}, {"certificate-authority", cluster_.ca_file()}}}}}},
      {"users", {{{"name", "kueue"}, {"user", {{"token", token}}}}}},
  };
  return write_text(folder_ / "kubeconfig", config.dump(2));
}

Status Kueue::Impl::mount_certificate() const {
  Json secret;
  const bool made = wait_until(kStartTimeout, [&] {
    const auto read = call("GET", std::string(kSecrets) + "/" + kCertificate);
    if (!read || !read->contains("data") || !(*read)["data"].contains("tls.crt")) return false;
    secret = *read;
    return true;
  });
  if (!made) return failed("made no certificate");
  for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
    GNN_ASSIGN_OR_RETURN(
        const std::string content, decode_base64(secret["data"].value(name, std::string()))
    );
    GNN_RETURN_IF_ERROR(write_text(folder_ / "certificate" / name, content));
  }
  return {};
}

bool Kueue::Impl::answers() const {
  const HttpEndpoint health{.url = std::string("http://") + kAddress + ":" + health_port_.text()};
  const auto ready = http_request(health, "GET", "/readyz", {}, {}, seconds(2));
  if (!ready || ready->status != 200) return false;
  // Through its webhooks: one of admission, and the conversion of an older version.
  const Json flavor = {
      {"apiVersion", "kueue.x-k8s.io/v1beta2"},
      {"kind", "ResourceFlavor"},
      {"metadata", {{"name", "probe"}}}
  };
  return call("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors?dryRun=All", flavor)
             .has_value() &&
         call("GET", "/apis/kueue.x-k8s.io/v1beta1/workloads").has_value();
}

Status Kueue::Impl::wait_ready() {
  bool exited = false;
  const bool ready = wait_until(kStartTimeout, [&] {
    exited = wait_for_exit(pid_, milliseconds(0));
    return exited || answers();
  });
  if (exited) pid_ = 0;
  if (ready && !exited) return {};
  return failed(exited ? "ended at once" : "is not ready in time");
}

Kueue::Kueue(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Kueue::~Kueue() = default;

Result<std::unique_ptr<Kueue>> Kueue::start(ControlPlane& cluster, std::string_view configuration) {
  std::unique_ptr<Kueue> kueue(new Kueue(std::make_unique<Impl>(cluster)));
  GNN_RETURN_IF_ERROR(kueue->impl_->start(configuration));
  return kueue;
}

std::string Kueue::log() const {
  return read_file(impl_->log_file());
}

}  // namespace gnn::testing
