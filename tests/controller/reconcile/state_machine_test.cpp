#include "common/api/codec.h"
#include "tests/controller/reconcile/builders.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>

// Compares docs/state-machine.md with the constants of controller/reconcile/conditions.h, and what the
// controller writes in each state with the file that tests of other people's tools read.
namespace gnn::reconcile {
namespace {

using nlohmann::json;

std::string read(const std::string& path) {
  return gnn::testing::read_file(gnn::testing::source_dir() + "/" + path);
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex);
       it != std::sregex_iterator();
       ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

// The text between a heading and the next.
std::string section(const std::string& text, const std::string& heading) {
  const size_t start = text.find("## " + heading + "\n");
  EXPECT_NE(start, std::string::npos) << heading;
  const size_t end = text.find("\n## ", start + 1);
  return text.substr(start, end - start);
}

std::string constants_of(const std::string& header, const std::string& name) {
  const size_t start = header.find("namespace " + name + " {");
  return header.substr(start, header.find("}  // namespace " + name) - start);
}

TEST(StateMachine, PageAndConstantsAgree) {
  const std::string header = read("controller/reconcile/conditions.h");
  const std::string page = read("docs/state-machine.md");
  constexpr const char* kConstant = R"re(= "(\w+)")re";
  constexpr const char* kFirstCell = R"(\n\| `(\w+)` \|)";
  EXPECT_EQ(
      matches(section(page, "Conditions"), kFirstCell),
      matches(constants_of(header, "condition"), kConstant)
  );
  EXPECT_EQ(
      matches(section(page, "Reasons"), kFirstCell),
      matches(constants_of(header, "reason"), kConstant)
  );
  EXPECT_EQ(
      matches(section(page, "States"), kFirstCell),
      matches(constants_of(header, "state"), kConstant)
  );
}

// A job as `observed` has it, with the status that the next pass writes.
api::GnnJob written(const Observed& observed) {
  api::GnnJob job = observed.job;
  job.status = plan(observed).status;
  return job;
}

// The first gang of a job, whose pods `change` brings into another state.
api::GnnJob first_gang(const std::function<void(Observed&)>& change) {
  Observed observed = running();
  observed.job.status = {};
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  change(observed);
  return written(observed);
}

api::GnnJob running_and(const std::function<void(Observed&)>& change) {
  Observed observed = running();
  change(observed);
  return written(observed);
}

api::GnnJob released_job() {
  Observed observed;
  observed.job = first_gang([](Observed& each) {
    schedule(each.pods[0]);
    add_condition(each.pods[1], "PodScheduled", false, "Unschedulable", "0/3 nodes: no GPU");
  });
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  add_condition(observed.pods[1], "PodScheduled", false, "Unschedulable", "0/3 nodes: no GPU");
  observed.now = at(1000);
  return written(observed);
}

api::GnnJob preparing_job() {
  Observed observed;
  observed.job = job_with_prepare();
  observed.now = at(30);
  objects::Pod pod = desired_prepare_pod(observed.job, 1);
  pod.status.phase = "Pending";
  observed.pods = {make_ready(pod)};
  return written(observed);
}

api::GnnJob suspended_job() {
  Observed observed;
  observed.job = running_and([](Observed& each) { each.job.spec.suspend = true; });
  observed.now = at(60);
  return written(observed);
}

api::GnnJob invalid_job() {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.workers.pod_template->metadata = {.labels = {{"app", "web"}}};
  observed.now = at(1);
  return written(observed);
}

// Before the controller has seen it, as the CRD's default has it.
api::GnnJob unseen_job() {
  api::GnnJob job = small_job();
  job.status.observed_generation = -1;
  return job;
}

// Finished, but for an edit that nobody has seen yet.
api::GnnJob edited(api::GnnJob job) {
  job.metadata.generation = 2;
  return job;
}

api::GnnJob complete_job() {
  return running_and([](Observed& each) {
    for (objects::Pod& pod : each.pods) end_container(pod, 0);
  });
}

std::map<std::string, api::GnnJob> job_of_each_state() {
  return {
      {"Unseen", unseen_job()},
      {"Edited", edited(complete_job())},
      {"Invalid", invalid_job()},
      {"Pending", first_gang([](Observed&) {})},
      {"Released", released_job()},
      {"Preparing", preparing_job()},
      {"Starting", first_gang([](Observed& each) {
         for (objects::Pod& pod : each.pods) schedule(pod);
       })},
      {"Running", running_and([](Observed&) {})},
      {"Restarting", running_and([](Observed& each) { end_container(each.pods[1], 1); })},
      {"Suspending", running_and([](Observed& each) { each.job.spec.suspend = true; })},
      {"Suspended", suspended_job()},
      {"Complete", complete_job()},
      {"Failed", running_and([](Observed& each) {
         end_container(each.pods[1], contract::kExitConfiguration);
       })},
  };
}

// GNN_WRITE_JOB_STATES=1 writes the file anew.
TEST(StateMachine, TheFileHasAJobOfEachState) {
  const std::string file = gnn::testing::source_dir() + "/tests/support/job_states.json";
  json objects;
  std::set<std::string> seen;
  for (const auto& [name, job] : job_of_each_state()) {
    objects[name] = api::encode(job);
    objects[name].erase("spec");
    if (name == "Unseen" || name == "Edited") continue;
    EXPECT_EQ(job.status.state, name);
    seen.insert(job.status.state);
  }
  EXPECT_EQ(
      seen,
      matches(constants_of(read("controller/reconcile/conditions.h"), "state"), R"re(= "(\w+)")re")
  );
  if (std::getenv("GNN_WRITE_JOB_STATES") != nullptr) {
    std::ofstream(file) << objects.dump(1) << "\n";
  }
  EXPECT_EQ(json::parse(gnn::testing::read_file(file)), objects)
      << "run this test with GNN_WRITE_JOB_STATES=1";
}

}  // namespace
}  // namespace gnn::reconcile
