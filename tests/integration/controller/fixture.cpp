#include "tests/integration/controller/fixture.h"

#include "common/contract.h"
#include "common/rfc3339.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"

#include <arpa/inet.h>
#include <fstream>
#include <netinet/in.h>
#include <optional>
#include <signal.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

std::string text_at(const Json& json, const char* pointer) {
  return json.value(Json::json_pointer(pointer), std::string());
}

// Asks again while the API server has no room for the request or prepares a kind of object that it has just
// learned, as every client of Kubernetes does.
Result<HttpReply> ask(
    const HttpEndpoint& endpoint,
    std::string_view method,
    const std::string& target,
    std::string_view body = {},
    const HttpHeaders& headers = {}
) {
  std::optional<Result<HttpReply>> reply;
  static_cast<void>(eventually([&] {
    reply = http_request(endpoint, method, target, body, headers);
    return !*reply || (*reply)->status != 429;
  }));
  return *reply;
}

Json checked(const HttpReply& reply, const std::string& call) {
  if (reply.status / 100 != 2) throw std::runtime_error(call + ": " + reply.body);
  return Json::parse(reply.body);
}

// By the clock of a kubelet's machine.
std::string kubelet_time() {
  return format_rfc3339(std::chrono::system_clock::now());
}

// What a kubelet reports about a pod whose worker has ended.
Json ended_status(int exit_code, const std::string& message) {
  return {
      {"status",
       {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
        {"containerStatuses",
         {{{"name", contract::kWorkerContainer},
           {"image", "x"},
           {"imageID", "x"},
           {"restartCount", 0},
           {"ready", false},
           {"state",
            {{"terminated",
              {{"exitCode", exit_code},
               {"reason", exit_code == 0 ? "Completed" : "Error"},
               {"message", message},
               {"finishedAt", kubelet_time()}}}}}}}}}}
  };
}

ControlPlane& shared_with_crd() {
  static ControlPlane& shared = []() -> ControlPlane& {
    install_crd(ControlPlane::shared());
    return ControlPlane::shared();
  }();
  return shared;
}

}  // namespace

Json Api::get(const std::string& path) const {
  return checked(must(ask(endpoint_, "GET", path)), "GET " + path);
}

Json Api::find(const std::string& path) const {
  const auto reply = http_request(endpoint_, "GET", path);
  // While the API server restarts, nothing exists; callers poll.
  if (!reply || reply->status / 100 != 2) return nullptr;
  return Json::parse(reply->body);
}

Json Api::create(const std::string& collection, const Json& object) const {
  const HttpHeaders headers{{"Content-Type", "application/json"}};
  return checked(
      must(ask(endpoint_, "POST", collection, object.dump(), headers)), "POST " + collection
  );
}

bool Api::patch(const std::string& path, const Json& patch) const {
  const HttpHeaders headers{{"Content-Type", "application/merge-patch+json"}};
  const auto reply = ask(endpoint_, "PATCH", path, patch.dump(), headers);
  return reply && reply->status / 100 == 2;
}

void Api::remove(const std::string& path, std::string_view options) const {
  const HttpHeaders headers{{"Content-Type", "application/json"}};
  const HttpReply reply = must(ask(endpoint_, "DELETE", path, options, headers));
  if (reply.status / 100 != 2 && reply.status != 404) {
    throw std::runtime_error("DELETE " + path + ": " + reply.body);
  }
}

FakeKubelets::FakeKubelets(Api api, std::string name_space, std::chrono::milliseconds run_time)
    : api_(std::move(api)),
      name_space_(std::move(name_space)),
      run_time_(run_time),
      thread_([this] { run(); }) {}

FakeKubelets::~FakeKubelets() {
  stopping_ = true;
  thread_.join();
}

std::set<std::string> FakeKubelets::seen() const {
  return state_.lock()->seen;
}

void FakeKubelets::fail(const std::string& pod, int exit_code) {
  state_.lock()->failures[pod] = exit_code;
}

void FakeKubelets::set_address(const std::string& pod, const std::string& address) {
  state_.lock()->addresses[pod] = address;
}

void FakeKubelets::run() {
  while (!stopping_) {
    const Json list = api_.find("/api/v1/namespaces/" + name_space_ + "/pods");
    if (list.is_object()) {
      for (const Json& pod : list["items"]) step(pod);
    }
    std::this_thread::sleep_for(20ms);
  }
}

void FakeKubelets::step(const Json& pod) {
  const std::string name = text_at(pod, "/metadata/name");
  const std::string uid = text_at(pod, "/metadata/uid");
  const std::string path = "/api/v1/namespaces/" + name_space_ + "/pods/" + name;
  std::optional<int> failure;
  std::string address = "127.0.0.1";
  {
    const auto state = state_.lock();
    state->seen.insert(name + "/" + uid);
    if (const auto found = state->failures.find(name); found != state->failures.end()) {
      failure = found->second;
    }
    if (const auto found = state->addresses.find(name); found != state->addresses.end()) {
      address = found->second;
    }
  }
  const std::string phase = text_at(pod, "/status/phase");
  const auto now = std::chrono::steady_clock::now();
  const Json labels = pod["metadata"].value("labels", Json::object());
  const bool serves = labels.contains(std::string(contract::kLabelServer));
  if (!serves && !labels.contains(std::string(contract::kLabelNode))) return;
  // A server has no attempt.
  const auto number_in = [&](std::string_view label) {
    return std::stoi(labels.value(std::string(label), std::string("0")));
  };
  if (pod["metadata"].contains("deletionTimestamp")) {
    // Its worker is told to leave, and the pod stays as long as a finalizer holds it.
    if (phase == "Running") {
      api_.patch(path + "/status", ended_status(contract::kExitPreempted, ""));
    }
    return;
  }
  if (phase == "Pending") {
    running_since_[uid] = now;
    api_.patch(
        path + "/status",
        {{"metadata", {{"uid", uid}}},
         {"status",
          {{"phase", "Running"},
           {"podIP", address},
           {"startTime", kubelet_time()},
           {"conditions",
            {{{"type", "PodScheduled"}, {"status", "True"}},
             {{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", kubelet_time()}}}},
           {"containerStatuses",
            {{{"name", contract::kWorkerContainer},
              {"image", "x"},
              {"imageID", "x"},
              {"restartCount", 0},
              {"ready", true},
              {"state", {{"running", {{"startedAt", kubelet_time()}}}}}}}}}}}
    );
  } else if (phase == "Running" && failure) {
    api_.patch(path + "/status", ended_status(*failure, ""));
  } else if (phase == "Running" && finish_ && now - running_since_[uid] >= run_time_) {
    const Json result = {
        {"contract", contract::kVersion},
        {"job", labels[std::string(contract::kLabelJob)]},
        {"jobUid", labels[std::string(contract::kLabelJobUid)]},
        {"attempt", number_in(contract::kLabelAttempt)},
        {"round", 0},
        {"node", number_in(serves ? contract::kLabelServer : contract::kLabelNode)},
        {"exitCode", 0},
        {"reason", "Done"},
        {"epoch", 5},
        {"epochs", 5},
        {"testMetric", "0.5"},
    };
    api_.patch(
        path + "/status",
        {{"metadata", {{"uid", uid}}},
         {"status",
          {{"phase", "Succeeded"},
           {"containerStatuses",
            {{{"name", contract::kWorkerContainer},
              {"image", "x"},
              {"imageID", "x"},
              {"restartCount", 0},
              {"ready", false},
              {"state",
               {{"terminated",
                 {{"exitCode", 0},
                  {"reason", "Completed"},
                  {"message", result.dump()},
                  {"finishedAt", kubelet_time()}}}}}}}}}}}
    );
  }
}

ProcessKubelets::ProcessKubelets(const ControlPlane& cluster, std::string name_space)
    : api_(cluster),
      name_space_(std::move(name_space)),
      directory_(cluster.directory() / ("pods-" + name_space_)),
      thread_([this] { run(); }) {}

ProcessKubelets::~ProcessKubelets() {
  stopping_ = true;
  thread_.join();
  for (const auto& [uid, container] : containers_) {
    ::kill(container.pid, SIGKILL);
    ::waitpid(container.pid, nullptr, 0);
  }
}

bool ProcessKubelets::kill_pod(const std::string& pod) {
  const std::lock_guard lock(mutex_);
  const auto uid = uids_.find(pod);
  if (uid == uids_.end() || !containers_.contains(uid->second)) return false;
  return ::kill(containers_[uid->second].pid, SIGKILL) == 0;
}

void ProcessKubelets::run() {
  std::filesystem::create_directories(directory_);
  while (!stopping_) {
    const Json list = api_.find("/api/v1/namespaces/" + name_space_ + "/pods");
    if (list.is_object()) {
      const std::lock_guard lock(mutex_);
      std::set<std::string> listed;
      for (const Json& pod : list["items"]) {
        listed.insert(text_at(pod, "/metadata/uid"));
        step(pod);
      }
      std::erase_if(containers_, [&](const auto& each) {
        if (listed.contains(each.first)) return false;
        ::kill(each.second.pid, SIGKILL);
        ::waitpid(each.second.pid, nullptr, 0);
        return true;
      });
    }
    std::this_thread::sleep_for(50ms);
  }
}

void ProcessKubelets::step(const Json& pod) {
  const std::string uid = text_at(pod, "/metadata/uid");
  const std::string path =
      "/api/v1/namespaces/" + name_space_ + "/pods/" + text_at(pod, "/metadata/name");
  const bool deleted = pod["metadata"].contains("deletionTimestamp");
  const auto found = containers_.find(uid);
  if (found == containers_.end()) {
    if (text_at(pod, "/status/phase") == "Pending" && !deleted) start(pod);
    return;
  }
  Container& container = found->second;
  if (deleted && !std::exchange(container.told_to_stop, true)) ::kill(container.pid, SIGTERM);
  int status = 0;
  if (::waitpid(container.pid, &status, WNOHANG) == container.pid) {
    report_end(path, container, status);
    containers_.erase(found);
  }
}

void ProcessKubelets::start(const Json& pod) {
  const std::string name = text_at(pod, "/metadata/name");
  const std::string uid = text_at(pod, "/metadata/uid");
  const std::string job = pod["metadata"]["labels"][std::string(contract::kLabelJob)];
  const Json config =
      api_.find("/api/v1/namespaces/" + name_space_ + "/configmaps/" + contract::child_name(job));
  if (!config.is_object()) return;
  const std::filesystem::path config_file = directory_ / (uid + ".yaml");
  std::ofstream(config_file
  ) << config["data"][std::string(contract::kConfigKey)].get<std::string>();

  Container container;
  const int number = ++addresses_;
  container.address =
      "127.77." + std::to_string(number / 250) + "." + std::to_string(1 + number % 250);
  container.result_file = directory_ / (uid + ".result");
  std::vector<std::string> line{"/usr/bin/env", "-i"};
  for (const Json& variable : pod["spec"]["containers"][0]["env"]) {
    line.push_back(text_at(variable, "/name") + "=" + text_at(variable, "/value"));
  }
  const auto set = [&line](std::string_view variable, const std::string& value) {
    line.push_back(std::string(variable) + "=" + value);
  };
  // What a container would see through its mounts and the cluster's DNS.
  set(contract::kEnvConfig, config_file);
  set(contract::kEnvTerminationLog, container.result_file);
  set(contract::kEnvHttpAddress, container.address + ":" + std::to_string(contract::kHttpPort));
  set(contract::kEnvMasterAddr, "127.0.0.1");
  const std::string attempt = pod["metadata"]["labels"][std::string(contract::kLabelAttempt)];
  set(contract::kEnvMasterPort, std::to_string(store_port(job + "/" + attempt)));
  line.insert(line.end(), {GNN_CONFORMANCE_WORKER, "agent"});
  container.pid = must(spawner_.spawn(line, directory_ / (name + ".log")));
  const Json running = {
      {"metadata", {{"uid", uid}}},
      {"status",
       {{"phase", "Running"},
        {"podIP", container.address},
        {"conditions",
         {{{"type", "PodScheduled"}, {"status", "True"}}, {{"type", "Ready"}, {"status", "True"}}}},
        {"containerStatuses",
         {{{"name", contract::kWorkerContainer},
           {"image", "x"},
           {"imageID", "x"},
           {"restartCount", 0},
           {"ready", true},
           {"state", {{"running", Json::object()}}}}}}}},
  };
  api_.patch("/api/v1/namespaces/" + name_space_ + "/pods/" + name + "/status", running);
  uids_[name] = uid;
  containers_[uid] = std::move(container);
}

int ProcessKubelets::store_port(const std::string& gang) {
  int& port = ports_[gang];
  if (port != 0) return port;
  // All pods share one machine here, so each gang gets a free port.
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  ::bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(probe);
  port = ntohs(address.sin_port);
  return port;
}

void ProcessKubelets::report_end(const std::string& path, const Container& container, int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  api_.patch(
      path + "/status",
      {{"status",
        {{"phase", code == 0 ? "Succeeded" : "Failed"},
         {"containerStatuses",
          {{{"name", contract::kWorkerContainer},
            {"image", "x"},
            {"imageID", "x"},
            {"restartCount", 0},
            {"ready", false},
            {"state",
             {{"terminated",
               {{"exitCode", code},
                {"reason", code == 0 ? "Completed" : "Error"},
                {"message", read_file(container.result_file)}}}}}}}}}}}
  );
}

void install_crd(ControlPlane& plane) {
  must(plane.apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
}

Json condition_in(const Json& conditions, const std::string& type) {
  for (const Json& each : conditions) {
    if (each["type"] == type) return each;
  }
  return {{"status", ""}, {"reason", ""}, {"message", ""}};
}

Cluster::Cluster() : Cluster(shared_with_crd()) {}

Cluster::Cluster(ControlPlane& plane)
    : plane_(plane), api_(plane_), name_space_(must(plane_.create_namespace("job"))) {}

std::string Cluster::jobs() const {
  return "/apis/gnn.dev/v1alpha1/namespaces/" + name_space_ + "/gnnjobs";
}

std::string Cluster::pods() const {
  return "/api/v1/namespaces/" + name_space_ + "/pods";
}

ControllerArguments Cluster::arguments(std::vector<std::string> more) const {
  return {plane_.kubeconfig_file(), name_space_, std::move(more)};
}

ControllerArguments Cluster::arguments_through(
    const FaultProxy& proxy, std::vector<std::string> more
) const {
  return {must(plane_.write_kubeconfig(proxy.url())), name_space_, std::move(more)};
}

std::string Cluster::kubeconfig_with_token(const std::string& token, const std::string& server_url)
    const {
  const std::string token_file = plane_.directory() / ("token-" + name_space_);
  std::ofstream(token_file) << token;
  const std::string path =
      must(plane_.write_kubeconfig(server_url, ControlPlane::KubeconfigUser::TokenFile));
  std::string text = read_file(path);
  text.replace(text.find(plane_.token_file()), plane_.token_file().size(), token_file);
  std::ofstream(path) << text;
  return path;
}

Json Cluster::create_job(
    const std::string& name, int nodes, const Json& changes, const Json& labels
) const {
  Json job = {
      {"apiVersion", "gnn.dev/v1alpha1"},
      {"kind", "GNNJob"},
      {"metadata", {{"name", name}, {"namespace", name_space_}, {"labels", labels}}},
      {"spec",
       {{"task", {{"type", "NodeClassification"}}},
        {"dataset",
         {{"format", "Synthetic"}, {"synthetic", {{"shape", "Arxiv"}, {"scale", "0.01"}}}}},
        {"model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}},
        {"sampling", {{"fanout", {5, 5}}}},
        {"workers", {{"nodes", nodes}, {"template", {{"image", "localhost/none:1"}}}}}}},
  };
  job["spec"].merge_patch(changes);
  return api_.create(jobs(), job);
}

std::vector<Json> Cluster::pods_of(const std::string& job) const {
  const Json list = api_.find(pods() + "?labelSelector=gnn.dev%2Fjob%3D" + job);
  std::vector<Json> found;
  if (list.is_object()) found.assign(list["items"].begin(), list["items"].end());
  return found;
}

std::string Cluster::groups(const std::string& api) const {
  std::string names;
  const Json list = api_.find("/apis/" + api + "/namespaces/" + name_space_ + "/podgroups");
  if (!list.is_object()) return names;
  for (const Json& group : list["items"]) {
    if (group["metadata"].contains("deletionTimestamp")) continue;
    names += (names.empty() ? "" : " ") + group["metadata"]["name"].get<std::string>();
  }
  return names;
}

bool Cluster::holds(const std::string& name, const std::string& type) const {
  return condition(name, type)["status"] == "True";
}

Json Cluster::condition(const std::string& name, const std::string& type) const {
  const Json found = job(name);
  const Json conditions = found.is_object()
                              ? found.value(Json::json_pointer("/status/conditions"), Json::array())
                              : Json::array();
  return condition_in(conditions, type);
}

std::string Cluster::describe(const std::string& name) const {
  const Json found = job(name);
  return found.is_object() && found.contains("status") ? found["status"].dump(1) : "no status";
}

void Cluster::end_pod(const std::string& pod, int exit_code, const std::string& message) const {
  api_.patch(pods() + "/" + pod + "/status", ended_status(exit_code, message));
}

}  // namespace gnn::testing
