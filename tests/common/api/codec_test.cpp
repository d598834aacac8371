#include "common/api/codec.h"

#include "common/api/yaml.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {
namespace {

using nlohmann::json;

std::string error_of(const Result<GnnJob>& result) {
  return result ? "no error" : result.error().message;
}

// As the controller reads what the API server sends.
Result<GnnJob> parse_job(std::string_view text) {
  GNN_ASSIGN_OR_RETURN(const json object, parse_json(text));
  return decode_job(object, UnknownFields::Ignore);
}

// The sample as JSON with one value put at a path.
json sample_with(const std::string& pointer, json value) {
  json object = encode(sample_job());
  object[json::json_pointer(pointer)] = std::move(value);
  return object;
}

std::string error_with(const std::string& pointer, json value) {
  return error_of(decode_job(sample_with(pointer, std::move(value)), UnknownFields::Reject));
}

// Every field that only link prediction has.
GnnJob whole_link_job() {
  GnnJob job = sample_link_job();
  Split& split = job.spec.dataset.split;
  split.negative_ratio = Decimal{"2"};
  split.disjoint_train = Decimal{"0.3"};
  split.seed = 4;
  job.spec.dataset.co_occurrence->edges = CoOccurrenceEdges::All;
  Sampling& sampling = *job.spec.sampling;
  sampling.fanout_by_edge_type = {
      {.edge_type = {.source = "item", .relation = "rev_to", .destination = "user"},
       .fanout = {8, 0}}
  };
  sampling.negatives =
      Negatives{.amount = {"0.5"}, .weights = NegativeWeights::Degree, .strict = true};
  sampling.exclude_seed_edges = true;
  job.spec.training.embeddings = Embeddings{.update = EmbeddingUpdate::Lazy};
  job.spec.training.evaluation.metric = Metric::Hits;
  job.spec.training.evaluation.hits_k = 50;
  return job;
}

TEST(Codec, ReadsBackWhatItWrites) {
  for (GnnJob job : {sample_job(), sample_graph_job(), sample_link_job(), whole_link_job()}) {
    job.spec.checkpoint.emplace();
    job.spec.checkpoint->path = "/ckpt";
    job.spec.model_export = Export{.path = "/models", .names = ParameterNames::DGL};
    job.status.attempt = 2;
    job.status.conditions.push_back(
        {.type = "Running", .status = "True", .reason = "PodsReady", .message = "2 of 2"}
    );
    job.status.last_failure.emplace();
    job.status.failures = {{.attempt = 1, .machine = "gpu-7", .reason = "Error", .charged = true}};
    const auto read = decode_job(encode(job), UnknownFields::Reject);
    ASSERT_TRUE(read) << error_of(read);
    EXPECT_EQ(*read, job);
    const auto again = parse_job(encode(job).dump());
    ASSERT_TRUE(again) << error_of(again);
    EXPECT_EQ(*again, job);
  }
}

TEST(Codec, ReadsTheFieldsOfLinkPrediction) {
  const auto job = parse_job_yaml(
      R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: taobao}
spec:
  task: {type: LinkPrediction, link: {source: user, relation: to, destination: item}}
  dataset:
    format: Taobao
    path: /data/taobao
    addReverse: true
    split: {type: RandomLink, validation: "0.1", test: "0.1", seed: 4, negativeRatio: "2", disjointTrain: "0.3"}
    coOccurrence: {node: item, through: user, atLeast: 3, edges: All}
  model: {type: BipartiteSAGE, bipartiteSage: {hiddenChannels: 64, outChannels: 64}}
  sampling:
    fanout: [8, 4]
    fanoutByEdgeType: [{source: item, relation: rev_to, destination: user, fanout: [8, 0]}]
    negatives: {type: Binary, amount: "0.5", weights: Degree, strict: true}
    excludeSeedEdges: true
  training:
    embeddings: {update: Lazy}
    evaluation: {metric: Hits, hitsK: 50}
)",
      UnknownFields::Reject
  );
  ASSERT_TRUE(job) << error_of(job);
  GnnJobSpec expected = whole_link_job().spec;
  expected.workers = {};
  EXPECT_EQ(job->spec, expected) << encode(job->spec).dump(2);
}

// What the controllers of earlier versions wrote for their jobs. Workers of those versions read no
// later field, and a checkpoint's hash is that of the encoded spec.
TEST(Codec, WorkerConfigOfAnEarlierVersionsJobIsAsItWas) {
  const std::filesystem::path fixtures = gnn::testing::source_dir() + "/tests/fixtures";
  int versions = 0;
  for (const auto& version : std::filesystem::directory_iterator(fixtures)) {
    SCOPED_TRACE(version.path().string());
    const json objects =
        json::parse(testing::read_file((version.path() / "objects.json").string()));
    json stored = objects["job"];
    // As today's API server fills it in.
    stored["spec"]["dataset"].emplace("addReverse", false);
    stored["spec"]["sampling"].emplace("excludeSeedEdges", false);
    const auto job = decode_job(stored, UnknownFields::Ignore);
    ASSERT_TRUE(job) << error_of(job);
    for (const json& child : objects["children"]) {
      if (child["kind"] != "ConfigMap") continue;
      ++versions;
      EXPECT_EQ(worker_config(*job), child["data"]["job.yaml"].get<std::string>());
    }
  }
  EXPECT_GE(versions, 1);
}

TEST(Codec, AFlagThatIsOffIsReadButNotWritten) {
  const auto job =
      decode_job(sample_with("/spec/dataset/addReverse", false), UnknownFields::Reject);
  ASSERT_TRUE(job) << error_of(job);
  EXPECT_EQ(*job, sample_job());
  EXPECT_FALSE(encode(*job)["spec"]["dataset"].contains("addReverse"));
}

TEST(Codec, WritesBackTheStatusFieldsOfANewerVersion) {
  json object = encode(sample_job());
  object["status"] = {{"attempt", 3}, {"gauges", {{"ready", 2}}}};
  auto job = decode_job(object, UnknownFields::Ignore);
  ASSERT_TRUE(job) << error_of(job);
  job->status.attempt = 4;
  const json written = encode(job->status);
  EXPECT_EQ(written["attempt"], 4);
  EXPECT_EQ(written["gauges"], json({{"ready", 2}}));
}

TEST(Codec, WritesBackNestedStatusFieldsOfANewerVersion) {
  json object = encode(sample_job());
  const auto condition = [](const char* type) {
    return json{
        {"type", type},
        {"status", "True"},
        {"reason", "R"},
        {"message", ""},
        {"lastTransitionTime", "2026-01-31T12:00:00Z"},
        {"cause", std::string("of ") + type},
    };
  };
  const auto failure = [](int attempt) {
    return json{
        {"attempt", attempt},
        {"time", "2026-01-31T12:00:00Z"},
        {"rack", "r" + std::to_string(attempt)}
    };
  };
  object["status"] = {
      {"conditions", {condition("Running"), condition("Scheduled"), condition("Quantized")}},
      {"nodes", {{"desired", 2}, {"spare", 1}}},
      {"progress", {{"epoch", 2}, {"fabric", {{"gbps", 40}}}}},
      {"failures", {failure(1), failure(2)}},
      {"lastFailure", failure(2)},
      {"machines", {{{"name", "a"}, {"restarts", 1}, {"slot", 1}}, {{"name", "b"}, {"slot", 2}}}},
  };
  auto job = decode_job(object, UnknownFields::Ignore);
  ASSERT_TRUE(job) << error_of(job);
  const json same = encode(job->status);
  const json stored = object["status"];
  const json added = json::diff(stored, same);
  for (const json& step : added) EXPECT_EQ(step["op"], "add") << step;

  // Entries move, leave and come; a failure takes another's place.
  GnnJobStatus& status = job->status;
  std::swap(status.conditions[0], status.conditions[1]);
  status.conditions[1].status = "False";
  status.failures.erase(status.failures.begin());
  status.failures.push_back({.attempt = 3});
  status.machines.erase(status.machines.begin());
  status.last_failure->attempt = 3;
  status.nodes.ready = 1;
  json written = encode(status);
  EXPECT_EQ(written["conditions"][0]["cause"], "of Scheduled");
  EXPECT_EQ(written["conditions"][1]["cause"], "of Running");
  EXPECT_EQ(written["conditions"][1]["status"], "False");
  EXPECT_EQ(written["conditions"][2]["cause"], "of Quantized");
  EXPECT_EQ(written["nodes"]["spare"], 1);
  EXPECT_EQ(written["nodes"]["ready"], 1);
  EXPECT_EQ(written["progress"]["fabric"], json({{"gbps", 40}}));
  ASSERT_EQ(written["failures"].size(), 2U);
  EXPECT_EQ(written["failures"][0]["rack"], "r2");
  EXPECT_FALSE(written["failures"][1].contains("rack"));
  ASSERT_EQ(written["machines"].size(), 1U);
  EXPECT_EQ(written["machines"][0]["slot"], 2);
  EXPECT_FALSE(written["lastFailure"].contains("rack")) << "of the failure before";
  status.progress.reset();
  EXPECT_FALSE(encode(status).contains("progress"));
}

TEST(Codec, ReportsTheWordsOfANewerVersion) {
  json object = sample_with("/spec/model/type", "GAT");
  object["spec"]["runPolicy"]["failurePolicy"]["rules"] = {
      {{"exitCodes", {3}}, {"action", "Restart"}},
      {{"reasons", {"Error", "Overheated"}}, {"action", "Pause"}},
  };
  EXPECT_EQ(
      error_of(decode_job(object, UnknownFields::Reject)),
      R"(spec.model.type: expected one of GraphSAGE GCN GIN BipartiteSAGE, found "GAT")"
  );
  const auto job = decode_job(object, UnknownFields::Ignore);
  ASSERT_TRUE(job) << error_of(job);
  const std::string rule = "spec.runPolicy.failurePolicy.rules[1].";
  EXPECT_EQ(
      job->unknown_words,
      (std::vector<UnknownWord>{
          {.path = "spec.model.type", .word = R"("GAT")"},
          {.path = rule + "reasons[1]", .word = R"("Overheated")"},
          {.path = rule + "action", .word = R"("Pause")"},
      })
  );
  EXPECT_EQ(
      job->spec.run_policy.failure_policy.rules.at(1).reasons, std::vector{FailureReason::Error}
  );
}

TEST(Codec, RefusesWhatIsNoWordAlsoWhereNewerOnesAreRead) {
  EXPECT_EQ(
      error_of(decode_job(sample_with("/spec/model/type", 7), UnknownFields::Ignore)),
      "spec.model.type: expected one of GraphSAGE GCN GIN BipartiteSAGE, found 7"
  );
}

TEST(Codec, ReadsYaml) {
  const auto job = parse_job_yaml(
      R"(
# two-hop sampling
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: cora, labels: {team: "7"}}
spec:
  task: {type: NodeClassification}
  dataset: {format: OGB, path: /data/cora, split: {name: planetoid}, featureTransform: RowNormalize}
  model:
    type: GCN
    gcn: {layers: 2, dropout: "0.5"}
  sampling:
    fanout: [-1, -1]
  training:
    optimizer: {learningRate: "0.01", weightDecay: "5e-4"}
)",
      UnknownFields::Reject
  );
  ASSERT_TRUE(job) << error_of(job);
  EXPECT_EQ(job->metadata.name, "cora");
  EXPECT_EQ(job->spec.dataset.split.name, "planetoid");
  EXPECT_EQ(job->spec.sampling->fanout, (std::vector<int64_t>{-1, -1}));
  EXPECT_DOUBLE_EQ(job->spec.training.optimizer.weight_decay.value(), 5e-4);
  EXPECT_EQ(job->spec.training.epochs, 5);  // a default
}

TEST(Codec, TakesTheOneJobAmongOtherDocuments) {
  const std::string job = encode(sample_job()).dump();
  EXPECT_TRUE(parse_job_yaml("kind: Namespace\n---\n" + job, UnknownFields::Reject));
  EXPECT_EQ(
      error_of(parse_job_yaml(job + "\n---\n" + job, UnknownFields::Reject)),
      "expected one GNNJob in the document, found 2"
  );
  EXPECT_EQ(
      error_of(parse_job_yaml("", UnknownFields::Reject)),
      "expected one GNNJob in the document, found 0"
  );
}

TEST(Codec, NamesThePathOfAnError) {
  EXPECT_EQ(
      error_with("/spec/training/epochs", "five"),
      "spec.training.epochs: expected an integer, found \"five\""
  );
  EXPECT_EQ(
      error_with("/spec/sampling/fanout/1", 2.5),
      "spec.sampling.fanout[1]: expected an integer, found 2.5"
  );
  EXPECT_EQ(
      error_with("/spec/model/type", "Transformer"),
      "spec.model.type: expected one of GraphSAGE GCN GIN BipartiteSAGE, found \"Transformer\""
  );
  EXPECT_EQ(
      error_with("/spec/workers/template/env", {{{"name", "A"}, {"value", 1}}}),
      "spec.workers.template.env[0].value: expected a string, found 1"
  );
  EXPECT_EQ(
      error_with("/spec/workers/template/resources", {{"limits", {{"cpu", true}}}}),
      "spec.workers.template.resources.limits[\"cpu\"]: expected a string, found true"
  );
  EXPECT_EQ(error_with("/spec/suspend", 1), "spec.suspend: expected true or false, found 1");
  EXPECT_EQ(
      error_with("/spec/dataset", json::array()), "spec.dataset: expected an object, found []"
  );
  EXPECT_EQ(
      error_with("/spec/sampling", {{"rule", "NewNodes"}}),
      "spec.sampling.fanout: required field is missing"
  );
  EXPECT_EQ(error_with("/kind", "Job"), "kind: expected GNNJob, found \"Job\"");
  EXPECT_EQ(
      error_with("/apiVersion", "gnn.dev/v1"),
      "apiVersion: expected gnn.dev/v1alpha1, found \"gnn.dev/v1\""
  );
  EXPECT_EQ(
      error_with("/spec/training/seed", 18446744073709551615U),
      "spec.training.seed: expected an integer, found 18446744073709551615"
  );
}

TEST(Codec, DecimalsAreQuotedText) {
  EXPECT_EQ(
      error_with("/spec/training/optimizer/learningRate", 0.01),
      "spec.training.optimizer.learningRate: expected a decimal number in quotes, such as "
      "\"0.01\", found 0.01"
  );
  for (const char* text :
       {"", "x", "-1", "0x10", "1.", ".5", "1e", "nan", "inf", "1e999", " 1", "1,5"}) {
    EXPECT_TRUE(std::isnan(Decimal{text}.value())) << text;
  }
  EXPECT_DOUBLE_EQ(Decimal{"5e-4"}.value(), 5e-4);
  EXPECT_DOUBLE_EQ(Decimal{"1E+2"}.value(), 100);
  EXPECT_DOUBLE_EQ(Decimal{"1e-999"}.value(), 0);
}

TEST(Codec, UnknownFieldIsAnErrorOnlyInStrictMode) {
  const json object = sample_with("/spec/training/epoch", 3);
  const auto strict = decode_job(object, UnknownFields::Reject);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::Configuration);
  EXPECT_TRUE(strict.error().message.starts_with(
      "spec.training: unknown field \"epoch\"; expected one of: device epochs"
  )) << strict.error().message;
  EXPECT_TRUE(decode_job(object, UnknownFields::Ignore));
  EXPECT_EQ(
      error_of(decode_job(sample_with("/extra", 1), UnknownFields::Reject)),
      "unknown field \"extra\""
  );
}

TEST(Codec, NullCountsAsAbsent) {
  const auto job = decode_job(sample_with("/spec/checkpoint", nullptr), UnknownFields::Reject);
  ASSERT_TRUE(job) << error_of(job);
  EXPECT_FALSE(job->spec.checkpoint);
  EXPECT_EQ(error_with("/spec/task", nullptr), "spec.task: required field is missing");
}

TEST(Codec, LimitsDepthSizeAndNumberOfValues) {
  const std::string deep(100000, '[');
  EXPECT_NE(parse_json(deep).error().message.find("deeper than 64"), std::string::npos);
  std::string nested = "1";
  for (int i = 0; i < 64; ++i) nested = "[" + nested + "]";
  EXPECT_TRUE(parse_json(nested));
  EXPECT_FALSE(parse_json("[" + nested + "]"));
  EXPECT_TRUE(parse_json("\"[[[[\\\"[[\""));  // brackets in strings don't count
  EXPECT_NE(
      parse_json(std::string(kMaxDocumentBytes + 1, ' ')).error().message.find("larger than"),
      std::string::npos
  );
  EXPECT_FALSE(parse_json("[" + std::string(300000, ',') + "]"));
  EXPECT_FALSE(parse_json("{\"a\": 1e999}"));
  EXPECT_FALSE(parse_json("{\"a\": \"\xff\"}"));
  EXPECT_FALSE(parse_json(""));
}

TEST(Codec, YamlLimitsAliasesAndRefusesDoubleKeys) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += before + ", ";
    bomb += before + "]\n";
  }
  EXPECT_FALSE(parse_yaml(bomb));
  EXPECT_FALSE(parse_yaml(std::string(20000, '[')));
  EXPECT_EQ(
      parse_yaml("a: 1\nb: 2\na: 3\n").error().message,
      "YAML key \"a\" appears twice (line 3, column 1)"
  );
  EXPECT_FALSE(parse_yaml("? [a]\n: b\n"));
  EXPECT_FALSE(parse_yaml("a: [1, 2"));
  EXPECT_FALSE(parse_yaml("a: *nowhere"));
}

TEST(Codec, YamlWithABracketTooManyEnds) {
  for (const char* text : {"{}}", "[]]", "a: {}}", "{\n  }\n},\n", "---\n{}\n---\n]\n"}) {
    EXPECT_FALSE(parse_yaml(text)) << text;
  }
  EXPECT_TRUE(parse_yaml("---\n---\n{}\n---\n[]\n...\n"));
}

TEST(Codec, WorkerConfigIsTheJobWithoutThePodTemplateAndItsScheduling) {
  GnnJob job = sample_job();
  const std::string unscheduled = worker_config(job);
  job.spec.scheduling.emplace();
  EXPECT_EQ(worker_config(job), unscheduled);
  const auto read = parse_job_yaml(worker_config(job), UnknownFields::Reject);
  ASSERT_TRUE(read) << error_of(read);
  GnnJobSpec expected = job.spec;
  expected.scheduling.reset();
  expected.workers.pod_template.reset();
  EXPECT_EQ(read->spec, expected);
  EXPECT_EQ(read->metadata.name, job.metadata.name);
  EXPECT_EQ(worker_config(job), worker_config(job));
}

TEST(Codec, WorkerConfigHasTheServersButNotWhatMayChangeOfThem) {
  GnnJob job = sample_served_job();
  job.spec.servers->max_bytes_in_flight = "2Gi";
  const std::string config = worker_config(job);
  const auto read = parse_job_yaml(config, UnknownFields::Reject);
  ASSERT_TRUE(read) << error_of(read);
  ASSERT_TRUE(read->spec.servers);
  EXPECT_EQ(read->spec.servers->bytes_in_flight(), int64_t{2} << 30U);
  job.spec.servers->nodes = 7;
  job.spec.servers->pod_template->node_selector = {{"pool", "cpu"}};
  EXPECT_EQ(worker_config(job), config);
  job.spec.servers.reset();
  EXPECT_NE(worker_config(job), config);
}

TEST(Codec, MessagesCutWhatTheyShow) {
  const std::string message = error_with("/spec/training/epochs", std::string(5000, 'x'));
  EXPECT_LT(message.size(), 200U);
}

// What mutated text came to: a job that reads back as itself, or an error that says something.
void expect_job_or_error(const Result<GnnJob>& job, int& read) {
  if (!job) {
    EXPECT_EQ(job.error().kind, ErrorKind::Configuration);
    EXPECT_FALSE(job.error().message.empty());
    EXPECT_LT(job.error().message.size(), 2000U);
    return;
  }
  ++read;
  const auto again = decode_job(encode(*job), UnknownFields::Reject);
  ASSERT_TRUE(again) << error_of(again);
  GnnJob written = *job;
  written.unknown_words.clear();  // their fields are written with the defaults
  EXPECT_EQ(*again, written);
}

TEST(CodecMutations, JsonIsAJobOrAnError) {
  testing::Mutations mutations(23);
  int read = 0;
  const std::string whole = encode(whole_link_job()).dump();
  for (int round = 0; round < testing::mutation_rounds(1000); ++round) {
    expect_job_or_error(parse_job(mutations.of(whole)), read);
  }
  EXPECT_GT(read, 10);  // otherwise nothing but the first check was tried
}

TEST(CodecMutations, YamlIsAJobOrAnError) {
  testing::Mutations mutations(29);
  int read = 0;
  const std::string whole = worker_config(sample_graph_job());
  for (int round = 0; round < testing::mutation_rounds(1000); ++round) {
    expect_job_or_error(parse_job_yaml(mutations.of(whole), UnknownFields::Ignore), read);
  }
  EXPECT_GT(read, 10);
}

}  // namespace
}  // namespace gnn::api
