#include "controller/app/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gnn-controller");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, RunIsTheDefaultCommand) {
  const ParsedOptions parsed = parse({});
  EXPECT_FALSE(parsed.finished);
  EXPECT_EQ(parsed.options.command, Command::Run);
  EXPECT_TRUE(parsed.options.namespaces.empty());
  EXPECT_FALSE(parsed.options.leader_elect);
}

TEST(Options, ReadsTheQueuesThatJobsMayName) {
  EXPECT_FALSE(parse({}).options.volcano_queues);
  const ParsedOptions parsed = parse({R"(--volcano-queues={"a": ["x", "y"], "*": []})"});
  ASSERT_FALSE(parsed.finished) << parsed.text;
  const reconcile::VolcanoQueues wanted = {{"a", {"x", "y"}}, {"*", {}}};
  EXPECT_EQ(parsed.options.volcano_queues, wanted);
  EXPECT_EQ(parse({"--volcano-queues={}"}).options.volcano_queues, reconcile::VolcanoQueues());
  EXPECT_EQ(parse({"--volcano-queues=[]"}).exit_code, 64);
  EXPECT_EQ(parse({R"(--volcano-queues={"a": "x"})"}).exit_code, 64);
}

TEST(Options, ReadsTheChartsCommandLine) {
  const ParsedOptions parsed = parse(
      {"run",
       "--leader-elect",
       "--lease-namespace=gnn-system",
       "--lease-name=gnn-operator",
       "--bind-address=:8080",
       "--workers=8",
       "--log-format=json",
       "--log-level=warning",
       "--progress=off",
       "--job-network-policy=false",
       "--job-allowed-keys=team,example.com/*",
       "--job-user-from-cluster",
       "--gang-provider=Native",
       "--gang-provider=Coscheduling",
       "--coscheduling-scheduler=mine",
       "--kueue",
       "--namespace=a",
       "--namespace=b"}
  );
  ASSERT_FALSE(parsed.finished) << parsed.text;
  EXPECT_TRUE(parsed.options.leader_elect);
  EXPECT_EQ(parsed.options.lease_name, "gnn-operator");
  EXPECT_EQ(parsed.options.workers, 8);
  EXPECT_EQ(parsed.options.log.level, LogLevel::Warning);
  EXPECT_EQ(parsed.options.progress, ProgressMode::Off);
  EXPECT_FALSE(parsed.options.job_network_policy);
  EXPECT_TRUE(parsed.options.job_allowed_keys.contains("example.com/cost"));
  EXPECT_FALSE(parsed.options.job_allowed_keys.contains("sidecar.istio.io/inject"));
  EXPECT_EQ(parsed.options.job_pod_user, reconcile::PodUser::OfCluster);
  EXPECT_EQ(parse({}).options.job_pod_user, reconcile::PodUser::OfImages);
  EXPECT_EQ(parsed.options.namespaces, (std::vector<std::string>{"a", "b"}));
  using objects::GroupApi;
  EXPECT_EQ(
      parsed.options.gang_providers,
      (std::vector<GroupApi>{GroupApi::Native, GroupApi::Coscheduling})
  );
  EXPECT_EQ(parsed.options.coscheduling_schedulers, std::vector<std::string>{"mine"});
  EXPECT_EQ(parsed.options.volcano_schedulers, std::vector<std::string>{"volcano"});
  EXPECT_EQ(parse({"--gang-provider=Kueue"}).exit_code, 64);
  EXPECT_TRUE(parsed.options.kueue);
  EXPECT_FALSE(parsed.options.kueue_manage_jobs_without_queue_name);
  EXPECT_FALSE(parse({}).options.kueue);
}

// An environment variable, set while a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Options, VariablesSetOptionsThatAreNotGiven) {
  const Variable kubeconfig(kEnvKubeconfig, "/etc/kubeconfig");
  const Variable namespace_(kEnvNamespace, "a");
  const Variable identity(kEnvIdentity, "pod-1");
  const ParsedOptions bare = parse({});
  EXPECT_EQ(bare.options.kubeconfig, "/etc/kubeconfig");
  EXPECT_EQ(bare.options.namespaces, (std::vector<std::string>{"a"}));
  EXPECT_EQ(bare.options.identity, "pod-1");
  const ParsedOptions given = parse({"--kubeconfig=mine", "--namespace=b", "--identity=me"});
  EXPECT_EQ(given.options.kubeconfig, "mine");
  EXPECT_EQ(given.options.namespaces, (std::vector<std::string>{"b"}));
  EXPECT_EQ(given.options.identity, "me");
}

TEST(Options, ReadsAJobFenceInKubernetesFormat) {
  const auto fence = parse_job_fence(R"({
      "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "ops"}}, "podSelector": {}}],
      "egress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.2.0/24"]}}],
                  "ports": [{"protocol": "TCP", "port": 443}]}]})");
  ASSERT_TRUE(fence) << fence.error().message;
  EXPECT_EQ(fence->metrics_from.at(0).namespace_selector->at("team"), "ops");
  EXPECT_EQ(fence->egress->at(0).peers.at(0).ip_block->except.at(0), "10.1.2.0/24");
  EXPECT_FALSE(parse_job_fence("{}")->egress);
  EXPECT_TRUE(parse_job_fence(R"({"egress": []})")->egress->empty());
}

TEST(Options, RefusesAJobFenceItCannotReadWhole) {
  for (const char* fence : {
           "[]",
           "x",
           R"({"ingress": []})",
           R"({"metricsFrom": [{"podSelector": {"matchExpressions": []}}]})",
           R"({"egress": [{"to": [{"ipBlock": {}}]}]})",
           R"({"egress": [{"ports": [{"protocol": "TCP", "port": 1, "endPort": 9}]}]})",
       }) {
    EXPECT_FALSE(parse_job_fence(fence)) << fence;
  }
}

TEST(Options, ReleaseIsACommand) {
  const ParsedOptions parsed = parse({"release", "--namespace=a"});
  EXPECT_EQ(parsed.options.command, Command::Release);
  EXPECT_EQ(parsed.options.namespaces.size(), 1U);
}

TEST(Options, InvalidCommandLinesExitWithTheConfigurationCode) {
  for (const std::vector<const char*>& line : std::vector<std::vector<const char*>>{
           {"--nosuch"},
           {"fly"},
           {"--workers=0"},
           {"--workers=x"},
           {"--progress=sometimes"},
           {"--job-fence=all"},
           {"--job-allowed-keys=gnn.dev/*"},
           {"--log-level=loud"},
           {"--bind-address=nowhere"},
           {"--renew-deadline=20"},
           {"--retry-period=12"},
       }) {
    const ParsedOptions parsed = parse(line);
    EXPECT_TRUE(parsed.finished) << line.front();
    EXPECT_EQ(parsed.exit_code, 64) << line.front();
    EXPECT_FALSE(parsed.text.empty());
  }
}

TEST(Options, HelpIsNoError) {
  const ParsedOptions parsed = parse({"--help"});
  EXPECT_TRUE(parsed.finished);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_NE(parsed.text.find("--leader-elect"), std::string::npos);
}

TEST(Options, ReadWhatToValidate) {
  const ParsedOptions parsed =
      parse({"validate", "-R", "-f", "-", "-f", "jobs", "--job-allowed-keys=team"});
  ASSERT_FALSE(parsed.finished) << parsed.text;
  EXPECT_EQ(parsed.options.command, Command::Validate);
  EXPECT_EQ(parsed.options.manifests, (std::vector<std::string>{"-", "jobs"}));
  EXPECT_TRUE(parsed.options.recursive);
  EXPECT_TRUE(parsed.options.job_allowed_keys.contains("team"));
  EXPECT_EQ(parse({"validate"}).exit_code, 64);
}

}  // namespace
}  // namespace gnn::app
