#include "common/contract.h"
#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <set>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// Listens on a loopback address of its own: the contract fixes the port.
int listen_at_agents_port(std::string& address, int waiting) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  std::random_device random;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(contract::kHttpPort);
  do {
    address = "127." + std::to_string(128 + random() % 100) + "." + std::to_string(random() % 250) +
              "." + std::to_string(1 + random() % 250);
    ::inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  } while (::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0);
  ::listen(listener, waiting);
  return listener;
}

// Takes the place of a pod's agent, on a loopback address of its own, and answers each request in
// its own way.
class FakeAgent {
 public:
  // Called with the connection once the request was read; must not close it.
  using Answer = std::function<void(int connection)>;

  explicit FakeAgent(Answer answer)
      : answer_(std::move(answer)), listener_(listen_at_agents_port(address_, 8)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeAgent() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  void run() {
    while (!stopping_) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) continue;
      std::array<char, 1024> request{};
      if (::recv(connection, request.data(), request.size(), 0) > 0) {
        ++asked_;
        answer_(connection);
      }
      ::close(connection);
    }
  }

  const Answer answer_;
  std::string address_;
  int listener_;
  std::atomic<int> asked_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Takes connections and says nothing.
class SilentAgent {
 public:
  SilentAgent() : listener_(listen_at_agents_port(address_, 4096)) {}
  ~SilentAgent() { ::close(listener_); }
  SilentAgent(const SilentAgent&) = delete;
  SilentAgent& operator=(const SilentAgent&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  std::string address_;
  int listener_;
};

bool send_text(int connection, std::string_view text) {
  return ::send(connection, text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

FakeAgent::Answer with_body(std::string body) {
  return [body = std::move(body)](int connection) {
    send_text(
        connection,
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body
    );
  };
}

Json report(const Json& job, const Json& more) {
  Json json = {
      {"contract", contract::kVersion},
      {"job", job["metadata"]["name"]},
      {"jobUid", job["metadata"]["uid"]},
      {"attempt", 1},
      {"round", 0},
      {"node", 0},
  };
  json.update(more);
  return json;
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

// Users supply the image, so whatever its pods report must not harm the controller or other jobs.
class Hostile : public ::testing::Test {
 protected:
  ControllerProcess start_with_progress() {
    ControllerArguments arguments = cluster_.arguments();
    arguments.progress = "pod-ip";
    return {cluster_.plane(), arguments};
  }

  Cluster cluster_;
  FakeKubelets kubelets_{cluster_.plane(), cluster_.name_space(), 0ms};
};

TEST_F(Hostile, ANodeIsReplacedAloneWhenNode0SaysThatItWaitsAndPaysForIt) {
  ControllerProcess controller = start_with_progress();
  const Json rule = {{"reasons", {"Error"}}, {"action", "RestartNode"}};
  const Json job = cluster_.create_job(
      "j",
      3,
      {{"suspend", true},
       {"runPolicy", {{"maxRestarts", 1}, {"failurePolicy", {{"rules", {rule}}}}}}}
  );
  const Json said = {{"restartsNodes", true}, {"awaitedNode", 1}, {"round", 1}};
  FakeAgent agent(with_body(report(job, said).dump()));
  kubelets_.set_address("j-1-0", agent.address());
  ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", {{"spec", {{"suspend", false}}}}));
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running") && agent.asked() > 0; }))
      << cluster_.describe("j");
  const auto pods = [&] {
    std::set<std::string> names;
    for (const Json& pod : cluster_.pods_of("j")) names.insert(pod["metadata"]["name"]);
    return names;
  };
  kubelets_.fail("j-1-1", contract::kExitOther);
  EXPECT_TRUE(eventually([&] {
    return pods() == std::set<std::string>{"j-1-0", "j-1-1-r1", "j-1-2"} &&
           cluster_.holds("j", "Running");
  })) << cluster_.describe("j")
      << controller.log();
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["restarts"], 1);
  EXPECT_EQ(status["replacedNodes"], Json({1}));
  EXPECT_EQ(status["lastFailure"]["node"], 1);

  // It goes on saying so, but no restart is left.
  kubelets_.fail("j-1-1-r1", contract::kExitOther);
  EXPECT_TRUE(eventually([&] { return cluster_.holds("j", "Failed"); })) << cluster_.describe("j");
}

TEST_F(Hostile, ProgressBodiesHarmNobody) {
  ControllerProcess controller = start_with_progress();
  FakeAgent trap(with_body("{}"));
  std::map<std::string, std::unique_ptr<FakeAgent>> agents;
  const auto add = [&](const std::string& name,
                       const std::function<FakeAgent::Answer(Json)>& make) {
    // Suspended until the agent runs, which needs the job's UID.
    const Json job = cluster_.create_job(name, 1, {{"suspend", true}});
    agents[name] = std::make_unique<FakeAgent>(make(job));
    kubelets_.set_address(contract::pod_name(name, 1, 0), agents[name]->address());
    ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/" + name, {{"spec", {{"suspend", false}}}})
    );
  };
  add("endless", [](const Json&) {
    return [](int connection) {
      const std::string piece(65536, 'x');
      send_text(connection, "HTTP/1.1 200 OK\r\n\r\n");
      while (send_text(connection, piece)) {
      }
    };
  });
  add("slow", [](const Json&) {
    return [](int connection) {
      send_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n");
      pollfd peer{.fd = connection, .events = POLLIN, .revents = 0};
      // A byte now and then until the other side has had enough.
      while (::poll(&peer, 1, 50) == 0 && send_text(connection, " ")) {
      }
    };
  });
  add("redirect", [&](const Json&) {
    return [&](int connection) {
      send_text(
          connection,
          "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://" + trap.address() +
              ":9400/progress\r\n\r\n"
      );
    };
  });
  add("binary", [](const Json&) {
    std::mt19937 random(3);
    std::string body(60'000, '\0');
    for (char& c : body) c = static_cast<char>(random());
    return with_body(body);
  });
  add("deep", [](const Json&) { return with_body(std::string(60'000, '[')); });
  add("silent", [](const Json&) { return [](int) {}; });
  add("other", [](const Json& job) {
    return with_body(report(job, {{"jobUid", "another's"}, {"epoch", 9}}).dump());
  });
  add("tricks", [](const Json& job) {
    return with_body(report(
                         job,
                         {{"epoch", 4},
                          {"globalStep", -1},
                          {"loss", "1; rm -rf /"},
                          {"rate", 1e300},
                          {"round", 1'000'000},
                          {"checkpoint", "/ckpt/\u001b[31m\u202e5"}}
    ).dump());
  });
  add("honest", [](const Json& job) {
    return with_body(report(job, {{"epoch", 3}, {"epochs", 5}, {"loss", "0.5"}}).dump());
  });

  const auto progress = [&](const std::string& name) {
    return cluster_.job(name)["status"].value("progress", Json());
  };
  ASSERT_TRUE(eventually([&] {
    return std::all_of(agents.begin(), agents.end(), [](const auto& each) {
      return each.second->asked() >= 2;
    });
  })) << controller.log();
  ASSERT_TRUE(eventually([&] {
    return progress("honest").value("epoch", 0) == 3 && progress("tricks").value("epoch", 0) == 4;
  })) << cluster_.describe("honest");
  for (const char* name : {"endless", "slow", "redirect", "binary", "deep", "silent", "other"}) {
    EXPECT_TRUE(progress(name).is_null()) << name << cluster_.describe(name);
    EXPECT_TRUE(cluster_.holds(name, "Running")) << name;
  }
  const Json tricked = progress("tricks");
  EXPECT_FALSE(tricked.contains("loss"));
  EXPECT_FALSE(tricked.contains("globalStep"));
  EXPECT_FALSE(has_control_characters(tricked.value("checkpoint", ""))) << tricked;
  EXPECT_LE(cluster_.job("tricks")["status"]["restarts"].get<int>(), 3);
  EXPECT_EQ(trap.asked(), 0) << "a redirect was followed";
  EXPECT_EQ(controller.http("/healthz").status, 200);
  EXPECT_EQ(controller.http("/metrics").body.find("rm -rf"), std::string::npos);

  kubelets_.let_finish();
  for (const auto& [name, agent] : agents) {
    ASSERT_TRUE(eventually([&] { return cluster_.holds(name, "Complete"); }))
        << name << cluster_.describe(name);
  }
  EXPECT_EQ(controller.terminate(), 0) << controller.log();
}

TEST_F(Hostile, TerminationMessagesHarmNobody) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  const Json quick = {{"backoff", {{"initialSeconds", 1}, {"maxSeconds", 1}}}};
  const Json job =
      cluster_.create_job("j", 2, {{"runPolicy", {{"maxRestarts", 20}, {"failurePolicy", quick}}}});
  const std::vector<std::string> messages = {
      std::string(300'000, 'A'),
      std::string(100'000, '['),
      std::string("\0\x01\x02\x1b[2J\x7f", 8),
      "right\u202eto left \u2028 and \u200b hidden",
      "{\"contract\": 1, \"jobUid\": " + std::string(60, '{'),
      report(job, {{"attempt", "six"}, {"message", "not of this attempt"}}).dump(),
      report(job, {{"attempt", 6}, {"node", 77}, {"message", "not of this node"}}).dump(),
      "\n\n\n",
  };
  int attempt = 1;
  for (const std::string& message : messages) {
    ASSERT_TRUE(eventually([&] {
      return cluster_.holds("j", "Running") && cluster_.job("j")["status"]["attempt"] == attempt;
    })) << cluster_.describe("j");
    cluster_.end_pod(contract::pod_name("j", attempt, 1), contract::kExitOther, message);
    ++attempt;
    ASSERT_TRUE(eventually([&] { return cluster_.job("j")["status"]["attempt"] == attempt; }))
        << cluster_.describe("j") << controller.log();
    const Json failure = cluster_.job("j")["status"]["lastFailure"];
    EXPECT_EQ(failure["exitCode"], contract::kExitOther);
    EXPECT_EQ(failure["node"], 1);
    const std::string told = failure.value("message", "");
    EXPECT_LE(told.size(), 1024U);
    EXPECT_FALSE(has_control_characters(told)) << told;
    EXPECT_EQ(told.find("\u202e"), std::string::npos) << told;
  }
  EXPECT_EQ(cluster_.job("j")["status"]["restarts"], attempt - 1);
  kubelets_.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(controller.terminate(), 0) << controller.log();
}

TEST_F(Hostile, AWorkerThatLiesAboutRoundsHarmsOnlyItsOwnJob) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  const Json liar = cluster_.create_job("liar", 1, {{"runPolicy", {{"maxRestarts", 3}}}});
  cluster_.create_job("other", 1);
  ASSERT_TRUE(eventually([&] {
    return cluster_.holds("liar", "Running") && cluster_.holds("other", "Running");
  }));
  cluster_.end_pod(
      "liar-1-0",
      contract::kExitOther,
      report(liar, {{"round", 1'000'000'000}, {"reason", "Error"}, {"message", "lies"}}).dump()
  );
  ASSERT_TRUE(eventually([&] { return cluster_.holds("liar", "Failed"); }))
      << cluster_.describe("liar");
  EXPECT_EQ(cluster_.job("liar")["status"]["restarts"], 3);
  kubelets_.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("other", "Complete"); }))
      << cluster_.describe("other");
}

// The value of a metric without labels.
double value_of(const std::string& metrics, const std::string& name) {
  const size_t at = metrics.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + 1 + name.size()));
}

// What a webhook or a policy engine does that selects the namespace of one tenant. Events are slow alike.
TEST(Tenants, CreatesThatAreNotAnsweredInOneNamespaceHoldUpNoOther) {
  const Cluster slow;
  const Cluster other;
  const auto proxy = must(FaultProxy::in_front_of(slow.plane()));
  const auto creates_in = [](const Cluster& cluster) {
    return [name = "/namespaces/" + cluster.name_space() + "/"](const RecordedRequest& request) {
      return request.method == "POST" && request.path.find(name) != std::string::npos;
    };
  };
  const int silence = proxy->add_fault(creates_in(slow), BlackHole{});
  for (int i = 0; i < 20; ++i) slow.create_job("slow-" + std::to_string(i), 2);
  // All namespaces, as is the default.
  ControllerArguments arguments = other.arguments_through(*proxy);
  arguments.name_space.clear();
  const ControllerProcess controller(other.plane(), arguments);
  ASSERT_TRUE(eventually([&] { return proxy->times_applied(silence) >= 6; })) << controller.log();

  FakeKubelets kubelets(other.plane(), other.name_space(), 0ms);
  other.create_job("j");
  EXPECT_TRUE(eventually([&] { return other.holds("j", "Running"); }, 15s))
      << other.describe("j") << controller.log();
  const auto events = [&](const RecordedRequest& request) {
    return creates_in(other)(request) && request.path.ends_with("/events");
  };
  EXPECT_TRUE(proxy->wait_for_requests(events, 1, 5s));
  const std::string series =
      "gnn_operator_namespace_at_share{namespace=\"" + slow.name_space() + "\",queue=\"gnnjob\"} 1";
  EXPECT_TRUE(eventually([&] {
    return controller.http("/metrics").body.find(series) != std::string::npos;
  }));
}

TEST(Tenants, PodsOfOneThatSayNothingHoldUpNoOthersProgress) {
  const Cluster silent;
  const Cluster other;
  ControllerArguments arguments = other.arguments({"--progress-interval=1"});
  arguments.name_space.clear();
  arguments.progress = "pod-ip";
  const ControllerProcess controller(other.plane(), arguments);
  FakeKubelets silent_kubelets(silent.plane(), silent.name_space(), 0ms);
  FakeKubelets kubelets(other.plane(), other.name_space(), 0ms);
  // Accepts, by the kernel, and never answers.
  const SilentAgent agent;
  constexpr int kJobs = 40;
  for (int i = 0; i < kJobs; ++i) {
    const std::string name = "s" + std::to_string(i);
    silent_kubelets.set_address(name + "-1-0", agent.address());
    silent.create_job(name, 1);
  }
  const auto all_run = [&] { return silent.holds("s" + std::to_string(kJobs - 1), "Running"); };
  ASSERT_TRUE(eventually(all_run)) << controller.log();

  const FakeAgent asked(with_body("{}"));
  kubelets.set_address("j-1-0", asked.address());
  other.create_job("j", 1);
  ASSERT_TRUE(eventually([&] { return asked.asked() > 0; })) << controller.log();
  const int before = asked.asked();
  EXPECT_TRUE(eventually([&] { return asked.asked() >= before + 4; }, 12s)) << asked.asked();
}

// Whoever may edit a namespace may put our label on all that is in it: here on ConfigMaps of 48 MB,
// and on pods whose page is larger than a reply may be.
TEST(Tenants, LargeObjectsOfOneHoldUpNoOther) {
  const Cluster large;
  const Cluster other;
  const Json label = {{contract::kLabelJob, "large"}};
  for (int i = 0; i < 48; ++i) {
    large.api().create(
        "/api/v1/namespaces/" + large.name_space() + "/configmaps",
        {{"metadata", {{"name", "large-" + std::to_string(i)}, {"labels", label}}},
         {"data", {{"text", std::string(1'000'000, 'x')}}}}
    );
  }
  const Json annotations = {{"text", std::string(250'000, 'x')}};
  for (int i = 0; i < 60; ++i) {
    const std::string name = "large-" + std::to_string(i);
    large.api().create(
        large.pods(),
        {{"metadata", {{"name", name}, {"labels", label}, {"annotations", annotations}}},
         {"spec", {{"containers", {{{"name", "c"}, {"image", "localhost/none:1"}}}}}}}
    );
  }
  // All namespaces, as is the default.
  ControllerProcess controller(other.plane(), {other.plane().kubeconfig_file(), ""});
  EXPECT_TRUE(controller.wait_working()) << controller.log();
  FakeKubelets kubelets(other.plane(), other.name_space(), 0ms);
  kubelets.let_finish();
  other.create_job("j");
  EXPECT_TRUE(eventually([&] { return other.holds("j", "Complete"); }))
      << other.describe("j") << controller.log();
  const double resident =
      value_of(controller.http("/metrics").body, "process_resident_memory_bytes");
  EXPECT_GT(resident, 0);
  EXPECT_LT(resident, 128 << 20);
}

// Services of one namespace and its jobs take more memory than it gets of the operator.
TEST(Tenants, ANamespaceThatFillsTheCachesHoldsUpNoOther) {
  const Cluster filled;
  const Cluster other;
  const Json label = {{contract::kLabelJob, "filler"}};
  const std::string services = "/api/v1/namespaces/" + filled.name_space() + "/services";
  const Json port = {{{"port", 80}}};
  for (int i = 0; i < 800; ++i) {
    filled.api().create(
        services,
        {{"metadata", {{"name", "s" + std::to_string(i)}, {"labels", label}}},
         {"spec", {{"clusterIP", "None"}, {"ports", port}}}}
    );
  }
  filled.create_job("waits", 1);
  // Only these two: what other tests left would take memory, too.
  const ControllerProcess controller(
      other.plane(), other.arguments({"--cache-memory=1", "--namespace=" + filled.name_space()})
  );
  FakeKubelets kubelets(other.plane(), other.name_space(), 0ms);
  FakeKubelets filled_kubelets(filled.plane(), filled.name_space(), 0ms);
  other.create_job("j", 1);
  EXPECT_TRUE(eventually([&] { return other.holds("j", "Running"); }))
      << other.describe("j") << controller.log();
  ASSERT_TRUE(eventually([&] {
    return filled.condition("waits", "Scheduled")["reason"] == "MemoryLimit";
  })) << filled.describe("waits")
      << controller.log();
  const std::string why = filled.condition("waits", "Scheduled")["message"];
  EXPECT_NE(why.find("services"), std::string::npos) << why;
  EXPECT_TRUE(filled.pods_of("waits").empty());
  EXPECT_NE(
      controller.http("/metrics")
          .body.find("gnn_operator_left_out_objects{resource=\"services\"} "),
      std::string::npos
  );

  for (int i = 0; i < 800; ++i) filled.api().remove(services + "/s" + std::to_string(i));
  EXPECT_TRUE(eventually([&] { return filled.holds("waits", "Running"); }))
      << filled.describe("waits") << "it has room again";
}

TEST_F(Hostile, APodThatClaimsToBeOfALaterAttemptHoldsItsJobUpForNoMoment) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  const Json job = cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  const Json owner = {
      {"apiVersion", contract::kApiGroupVersion},
      {"kind", contract::kKind},
      {"name", "j"},
      {"uid", job["metadata"]["uid"]},
      {"controller", true},
  };
  for (const char* name : {"j-999-0", "j-1-1-r5", "j-something"}) {
    (void)cluster_.api().create(
        cluster_.pods(),
        {{"metadata",
          {{"name", name},
           {"labels", {{contract::kLabelJob, "j"}}},
           {"finalizers", {"example.com/keeps"}},
           {"ownerReferences", {owner}}}},
         {"spec", {{"containers", {{{"name", "c"}, {"image", "localhost/none:1"}}}}}}}
    );
  }
  ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", {{"spec", {{"suspend", true}}}}));
  EXPECT_TRUE(eventually([&] { return cluster_.holds("j", "Suspended"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_NE(controller.log().find("none of its pods"), std::string::npos) << controller.log();
  for (const char* name : {"j-999-0", "j-1-1-r5", "j-something"}) {
    const std::string path = cluster_.pods() + "/" + name;
    EXPECT_TRUE(eventually([&] {
      return cluster_.api().find(path)["metadata"].contains("deletionTimestamp");
    })) << name;
    EXPECT_TRUE(cluster_.api().patch(path, {{"metadata", {{"finalizers", nullptr}}}})) << name;
  }
}

}  // namespace
}  // namespace gnn::testing
