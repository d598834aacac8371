#include "controller/app/manifest_check.h"

#include "common/api/codec.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace gnn::app {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

json sample() {
  return api::encode(api::sample_job());
}

std::vector<CheckedObject> check(const std::string& text) {
  return check_manifest(text, api::AllowedKeys());
}

// The only object of a manifest.
CheckedObject only(const json& object) {
  const std::vector<CheckedObject> found = check(object.dump());
  return found.size() == 1 ? found.front() : CheckedObject{.name = "not one object"};
}

// What is said after a patch of the sample, as for JSON merge patches.
std::vector<std::string> errors_with(const std::string& patch) {
  json job = sample();
  job.merge_patch(json::parse(patch));
  return only(job).errors;
}

TEST(ManifestCheck, TakesAValidJob) {
  const CheckedObject job = only(sample());
  EXPECT_EQ(job.name, "GNNJob train/arxiv");
  EXPECT_TRUE(job.is_job);
  EXPECT_THAT(job.errors, IsEmpty());
  EXPECT_THAT(job.warnings, IsEmpty());
}

TEST(ManifestCheck, NamesFieldAndFix) {
  EXPECT_THAT(
      errors_with(R"({"spec": {"sampling": {"fanout": [10, 10, -2]}}})"),
      ElementsAre("spec.sampling.fanout[2]: must be at least -1")
  );
  EXPECT_THAT(
      errors_with(R"({"spec": {"training": {"epocs": 3}}})"),
      ElementsAre(AllOf(
          StartsWith("spec.training: unknown field \"epocs\"; expected one of:"),
          HasSubstr(" epochs ")
      ))
  );
  EXPECT_THAT(
      errors_with(R"({"spec": {"training": {"optimizer": {"learningRate": 0.1}}}})"),
      ElementsAre("spec.training.optimizer.learningRate: expected a decimal number in quotes, such "
                  "as \"0.01\", found 0.1")
  );
  EXPECT_THAT(
      errors_with(R"({"apiVersion": "gnn.dev/v1"})"),
      ElementsAre(StartsWith("apiVersion: expected gnn.dev/v1alpha1"))
  );
  EXPECT_THAT(
      errors_with(R"({"metadata": {"name": "Arxiv"}})"),
      ElementsAre(StartsWith("metadata.name: must be"))
  );
  EXPECT_THAT(
      errors_with(R"({"metadata": null})"),
      ElementsAre(StartsWith("metadata: required object is missing"))
  );
  EXPECT_THAT(errors_with(R"({"spec": null})"), ElementsAre(StartsWith("spec: ")));
}

TEST(ManifestCheck, TakesNoMisspeltKindForAnother) {
  EXPECT_THAT(errors_with(R"({"kind": "GNNjob"})"), ElementsAre("kind: expected GNNJob"));
}

TEST(ManifestCheck, FindsWhatIsWrongBesideAnUnknownField) {
  EXPECT_THAT(
      errors_with(R"({"spec": {"training": {"epocs": 3, "batchSize": 0}}})"),
      ElementsAre(HasSubstr("epocs"), "spec.training.batchSize: must be at least 1")
  );
}

TEST(ManifestCheck, NamesEveryUnknownWordAndJudgesNoDefaultInItsPlace) {
  EXPECT_THAT(
      errors_with(R"({"spec": {"model": {"type": "GAT"}, "training": {"device": "TPU"}}})"),
      ElementsAre(
          AllOf(
              StartsWith("spec.model.type: expected one of"),
              HasSubstr("GraphSAGE"),
              HasSubstr("\"GAT\"")
          ),
          "spec.training.device: this version does not know \"TPU\""
      )
  );
}

TEST(ManifestCheck, AsksForWhatOnlyAClusterNeeds) {
  EXPECT_THAT(
      errors_with(R"({"spec": {"workers": {"template": null}}})"),
      ElementsAre("spec.workers.template: required field is missing")
  );
}

TEST(ManifestCheck, KnowsTheKeysThatJobsMayPutOnTheirPods) {
  json job = sample();
  job["spec"]["workers"]["template"]["metadata"]["labels"]["team"] = "a";
  EXPECT_THAT(only(job).errors, ElementsAre(HasSubstr("jobs.podMetadata.allowedKeys")));
  const api::AllowedKeys keys = testing::must(api::AllowedKeys::parse("team"));
  EXPECT_THAT(check_manifest(job.dump(), keys).front().errors, IsEmpty());
}

TEST(ManifestCheck, KnowsTheQueuesOfVolcanoThatJobsMayName) {
  json job = sample();
  job["spec"]["scheduling"] = {{"provider", "Volcano"}, {"volcano", {{"queue", "night"}}}};
  EXPECT_THAT(only(job).errors, IsEmpty()) << "nobody said which are allowed";
  const auto errors = [&](const reconcile::VolcanoQueues& queues) {
    return check_manifest(job.dump(), api::AllowedKeys(), queues).front().errors;
  };
  EXPECT_THAT(errors({{"train", {"night"}}}), IsEmpty());
  EXPECT_THAT(errors({{"train", {"day"}}}), ElementsAre(HasSubstr("only: day")));
  job["metadata"].erase("namespace");
  EXPECT_THAT(errors({{"train", {"day"}}}), IsEmpty()) << "kubectl says which namespace";
}

TEST(ManifestCheck, LooksAtMetadataAsTheApiServerDoes) {
  EXPECT_THAT(
      errors_with(R"({"metadata": {"lables": {"a": "b"}, "labels": {"a": 5, "-x": "b"}}})"),
      ElementsAre(
          StartsWith("metadata: unknown field \"lables\""),
          StartsWith("metadata.labels[\"-x\"]: the key must be"),
          "metadata.labels[\"a\"]: must be a string; put it in quotes",
          "metadata.labels[\"a\"]: expected a string, found 5"
      )
  );
}

TEST(ManifestCheck, TakesANameThatIsMadeUpLater) {
  EXPECT_THAT(errors_with(R"({"metadata": {"name": null, "generateName": "arxiv-"}})"), IsEmpty());
  EXPECT_THAT(
      errors_with(R"({"metadata": {"name": null, "generateName": "Arxiv-"}})"),
      ElementsAre(StartsWith("metadata.name: "))
  );
}

TEST(ManifestCheck, WarnsOfWhatIsAllowedAndHardlyMeant) {
  json job = sample();
  job["status"] = json::object();
  job["spec"]["training"]["device"] = "CPU";
  job["spec"]["workers"]["gpusPerProcess"] = 1;
  const CheckedObject checked = only(job);
  EXPECT_THAT(checked.errors, IsEmpty());
  EXPECT_THAT(
      checked.warnings, ElementsAre(StartsWith("spec.training.device: "), StartsWith("status: "))
  );
}

TEST(ManifestCheck, GivesEachDocumentItsNumberAndLine) {
  const std::string job = sample().dump();
  const std::vector<CheckedObject> found = check(
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n---\nb: [\n---\n" + job +
      "\n---\njust text\n---\na: 1\n"
  );
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].name, "ConfigMap settings");
  EXPECT_FALSE(found[0].is_job);
  EXPECT_THAT(found[0].errors, IsEmpty());
  EXPECT_THAT(found[1].errors, ElementsAre(StartsWith("not YAML: ")));
  EXPECT_EQ(found[2].document, 3);
  EXPECT_EQ(found[2].line, 6);
  EXPECT_THAT(found[2].errors, IsEmpty());
  EXPECT_THAT(found[3].errors, ElementsAre("expected an object with apiVersion and kind"));
  EXPECT_THAT(found[4].errors, ElementsAre("kind: required field is missing"));
}

TEST(ManifestCheck, LooksIntoLists) {
  json wrong = sample();
  wrong["spec"]["workers"]["nodes"] = 0;
  const json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", {sample(), wrong, 7}}};
  const std::vector<CheckedObject> found = check(list.dump());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].name, "GNNJob train/arxiv, item 1");
  EXPECT_THAT(found[0].errors, IsEmpty());
  EXPECT_THAT(found[1].errors, ElementsAre("spec.workers.nodes: must be at least 1"));
  EXPECT_THAT(found[2].errors, ElementsAre(HasSubstr("expected an object")));
}

TEST(ManifestCheck, LetsNoTextOfTheFileControlATerminal) {
  json job = sample();
  job["metadata"]["name"] = "a\x1B[2J\nb";
  job["metadata"]["labels"]["\x1B[31m"] = "b";
  job["spec"]["\x1B]0;title\x07"] = 1;
  const CheckedObject checked = only(job);
  EXPECT_THAT(checked.name, Not(HasSubstr("\x1B")));
  EXPECT_THAT(checked.errors, Not(IsEmpty()));
  EXPECT_THAT(
      checked.errors, Each(Not(AnyOf(HasSubstr("\x1B"), HasSubstr("\n"), HasSubstr("\x07"))))
  );
}

TEST(ManifestCheck, SaysHowManyErrorsMoreThereAre) {
  json job = sample();
  for (int i = 0; i < 1000; ++i) job["metadata"]["field" + std::to_string(i)] = 1;
  const CheckedObject checked = only(job);
  EXPECT_EQ(checked.errors.size(), 51U);
  EXPECT_EQ(checked.errors.back(), "and 950 errors more");
}

}  // namespace
}  // namespace gnn::app
