// Jobs whose nodes hold partitions, as processes on this machine.

#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"
#include "worker/app/generate_data.h"
#include "worker/app/job_file.h"
#include "worker/app/local_job.h"
#include "worker/app/partition_data.h"
#include "worker/data/co_occurrence.h"
#include "worker/data/io/byte_source.h"
#include "worker/data/io/npy.h"
#include "worker/data/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr const char* kAllApart =
    R"(placement={"topology":"Partitioned","features":"Partitioned","partitions":2})";
constexpr const char* kAllOnEachNode = R"(placement={"partitions":2})";

class PartitionsTest : public ::testing::Test {
 protected:
  PartitionsTest()
      : folder_(fs::path(::testing::TempDir()) / ("partitions-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~PartitionsTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  // The data set NAME as it is, with two partitions (NAME-parts), and each of these alone
  // (NAME-node-0 and NAME-node-1).
  void make_data(const std::string& name, const DatasetMaker& make, int64_t seed = 0) {
    std::ostringstream said;
    const DataConsole console{.out = said, .progress = silent_, .dumpavail = {}};
    const auto must = [&](const Status& status) { ASSERT_TRUE(status) << status.error().message; };
    must(publish_dataset({.folder = path(name)}, name, make, console));
    PartitionRequest request;
    request.input = path(name);
    request.output.folder = path(name + "-parts");
    request.options = {
        .parts = 2,
        .method = partition::Method::Random,
        .fanout = {5, 3},
        .batch_size = 16,
        .seed = seed
    };
    must(partition_data(request, console));
    for (int64_t node = 0; node < 2; ++node) {
      must(extract_data(
          {.input = path(name + "-parts"),
           .output = {.folder = path(name + "-node-" + std::to_string(node))},
           .part = node},
          console
      ));
    }
  }
  void make_products(const std::string& name, int64_t seed = 0) {
    make_data(
        name,
        [this](data::ArrayStorage& storage) {
          return data::generate(
              {.shape = data::Shape::Products, .scale = 0.001, .seed = 4}, storage, silent_
          );
        },
        seed
    );
  }
  // Users and items with the reverse of their links, and edges between items.
  void make_shop() {
    make_data("shop", [this](data::ArrayStorage& storage) -> Result<data::DatasetArrays> {
      GNN_ASSIGN_OR_RETURN(
          auto arrays,
          data::generate(
              {.shape = data::Shape::Taobao, .scale = 0.0003, .seed = 4}, storage, silent_
          )
      );
      const data::EdgeTypeName link = data::name_of(arrays.edge_tables.at(0));
      GNN_ASSIGN_OR_RETURN(
          arrays,
          data::transform(std::move(arrays), {.link = link, .add_reverse = true}, storage, silent_)
      );
      ThreadPool pool(0);
      GNN_ASSIGN_OR_RETURN(
          arrays.edge_tables.emplace_back(),
          data::co_occurrence(
              arrays.edge_tables.at(0),
              {.num_sources = data::find_node_table(arrays, link.source)->num_nodes, .at_least = 2},
              pool,
              storage,
              silent_
          )
      );
      data::EdgeTable& items = arrays.edge_tables.back();
      items.source = items.destination = link.destination;
      items.relation = "to";
      return arrays;
    });
  }

  [[nodiscard]] std::vector<std::string> node_fields(
      const std::string& data, const std::string& placement
  ) const {
    return {
        "dataset.path=" + path(data),
        "model.graphSage.hiddenChannels=16",
        "sampling.fanout=[5,3,2]",
        "training.batchSize=16",
        "training.epochs=2",
        "training.evaluation.every=1",
        "training.evaluation.mode=LayerWise",
        placement
    };
  }
  [[nodiscard]] std::vector<std::string> link_fields(
      const std::string& data, const std::string& placement
  ) const {
    return {
        R"(dataset={"format":"Native","path":")" + path(data) +
            R"(","split":{"type":"RandomLink","validation":"0.1","test":"0.1","negativeRatio":"1"}})",
        R"(model.bipartiteSage={"hiddenChannels":8,"outChannels":8})",
        "sampling.fanout=[3,2]",
        "training.batchSize=512",
        "training.epochs=1",
        "workers.nodes=2",
        "workers.processesPerNode=2",
        placement
    };
  }

  // Runs the job of two nodes, as `gnn-worker run` does; returns its exit code.
  [[nodiscard]] int run(const std::string& sample, const std::vector<std::string>& changes) const {
    for (int rank = 0; rank < 4; ++rank) fs::remove(path("rank-" + std::to_string(rank)));
    fs::remove(path("output"));
    const std::string manifest =
        gnn::testing::source_dir() + "/manifests/samples/" + sample + ".yaml";
    const pid_t child = ::fork();
    if (child == 0) {
      const int output = ::open(path("output").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      ::dup2(output, STDOUT_FILENO);
      ::dup2(output, STDERR_FILENO);
      const auto job = load_job(manifest, changes);
      if (!job) std::_Exit(contract::exit_code_for(job.error().kind));
      std::vector<std::string> command = {
          std::getenv("GNN_RECORDING_RANK"), manifest, folder_.string()
      };
      command.insert(command.end(), changes.begin(), changes.end());
      std::_Exit(run_local_job(*job, command));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  [[nodiscard]] std::string predictions_to(const std::string& folder) const {
    return R"(predictions={"path":")" + path(folder) +
           R"(","outputs":["Classes","Scores","Embeddings"]})";
  }
  // The files with the predictions of a job.
  struct Predicted {
    std::vector<int64_t> ids;
    std::vector<int64_t> classes;
    std::vector<float> scores;
    std::vector<float> embeddings;
  };
  [[nodiscard]] Predicted predicted(const std::string& folder) const {
    const auto open = [&](const std::string& name, auto& values) {
      auto reader =
          data::NpyReader::open(data::open_file(path(folder + "/" + name + ".npy")).value());
      values.resize(static_cast<size_t>(reader.value().header().num_elements()));
      return std::move(*reader);
    };
    Predicted made;
    EXPECT_TRUE(open("ids", made.ids).read_integers(made.ids));
    EXPECT_TRUE(open("classes", made.classes).read_integers(made.classes));
    EXPECT_TRUE(open("scores", made.scores).read_floats(made.scores));
    EXPECT_TRUE(open("embeddings", made.embeddings).read_floats(made.embeddings));
    return made;
  }

  [[nodiscard]] std::string output() const { return testing::read_file(path("output")); }
  // What a rank was told: each loss, the metrics and the parameters, bit by bit.
  [[nodiscard]] std::string told(int rank) const {
    return testing::read_file(path("rank-" + std::to_string(rank)));
  }

  const fs::path folder_;
  SilentProgressBar silent_;
};

TEST_F(PartitionsTest, NodesThatHaveOnePartitionAloneEndWithTheBitsOfThoseThatHaveAllData) {
  make_products("products");
  make_shop();
  struct Job {
    std::string sample;
    std::vector<std::string> whole;
    std::vector<std::string> alone;
    std::string metric;
  };
  for (const Job& job : std::vector<Job>{
           {"products-partitioned",
            node_fields("products-parts", kAllOnEachNode),
            node_fields("products-node-{node}", kAllApart),
            "metric test_accuracy"},
           {"taobao-bipartite",
            link_fields("shop-parts", kAllOnEachNode),
            link_fields("shop-node-{node}", kAllApart),
            "metric test_auc"}
       }) {
    SCOPED_TRACE(job.sample);
    ASSERT_EQ(run(job.sample, job.whole), 0) << output();
    const std::string expected = told(0);
    EXPECT_THAT(expected, AllOf(HasSubstr(job.metric), HasSubstr("parameters ")));
    ASSERT_EQ(run(job.sample, job.alone), 0) << output();
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(told(rank), expected) << "rank " << rank;
  }
}

TEST_F(PartitionsTest, PredictionsAreThoseFromAllDataAsItWasBeforePartitioning) {
  make_products("products");
  std::vector<std::string> training = node_fields("products-node-{node}", kAllApart);
  training.push_back(R"(export={"path":")" + path("models") + R"("})");
  training.push_back(predictions_to("trained"));
  ASSERT_EQ(run("products-partitioned", training), 0) << output();
  const auto infer = [&](const std::string& data,
                         const std::string& to,
                         const std::vector<std::string>& placement) {
    std::vector<std::string> fields{
        R"(dataset={"format":"Native","path":")" + path(data) + R"("})",
        R"(model.graphSage={"layers":3,"hiddenChannels":16,"dropout":"0","parameters":"PyG"})",
        "model.from=" + path("models/last.safetensors"),
        "workers.nodes=2",
        "workers.processesPerNode=2",
        predictions_to(to)
    };
    fields.insert(fields.end(), placement.begin(), placement.end());
    ASSERT_EQ(run("arxiv-classes", fields), 0) << output();
  };
  infer("products", "whole", {});
  infer("products-parts", "renumbered", {});
  infer("products-parts", "on-each", {kAllOnEachNode});
  infer("products-node-{node}", "apart", {kAllApart});

  const Predicted expected = predicted("whole");
  std::vector<int64_t> all(expected.ids.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(expected.ids, all);
  for (const char* folder : {"trained", "renumbered", "on-each", "apart"}) {
    SCOPED_TRACE(folder);
    const Predicted found = predicted(folder);
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.classes, expected.classes);
    EXPECT_THAT(found.scores, Pointwise(FloatNear(1e-4), expected.scores));
    EXPECT_THAT(found.embeddings, Pointwise(FloatNear(1e-4), expected.embeddings));
  }
}

TEST_F(PartitionsTest, DataThatDoesNotFitTheJobIsRefusedBeforeTheFirstStep) {
  make_products("products");
  make_products("other", 1);
  const auto node_has = [&](int node, const std::string& set, const std::string& folder) {
    fs::create_directory_symlink(path(folder), path(set + "-" + std::to_string(node)));
  };
  for (const int node : {0, 1}) {
    node_has(node, "swapped", "products-node-" + std::to_string(1 - node));
    node_has(node, "mixed", (node == 0 ? "products" : "other") + ("-node-" + std::to_string(node)));
  }
  node_has(0, "missing", "products-node-0");
  for (const char* set : {"newer", "cut", "spoiled"}) {
    node_has(0, set, "products-node-0");
    fs::copy(path("products-node-1"), path(std::string(set) + "-1"));
  }
  std::string manifest = testing::read_file(path("newer-1/manifest.yaml"));
  const size_t at = manifest.find("version: 2");
  ASSERT_NE(at, std::string::npos) << manifest;
  std::ofstream(path("newer-1/manifest.yaml")) << manifest.replace(at, 10, "version: 9");
  fs::resize_file(path("cut-1/nodes.node.features.npy"), 4096);
  const fs::path lists = path("spoiled-1/edges.node.to.node.indices.npy");
  std::fstream(lists, std::ios::in | std::ios::out).seekp(-4, std::ios::end) << "\xFF\xFF\xFF\xFF";

  const std::string of_node_1 = "culprit=\"node 1, rank 1, ";
  struct Case {
    std::string data;
    std::vector<std::string> changes;
    int exit_code;
    std::vector<std::string> said;
  };
  const auto own_of = [&](const std::string& set, int node) {
    return path(set + "-" + std::to_string(node));
  };
  for (const Case& each : std::vector<Case>{
           {"swapped-{node}",
            {},
            contract::kExitData,
            {own_of("swapped", 0) + ", node 0: expected partition 0", "found partition 1 alone"}},
           {"mixed-{node}", {}, contract::kExitData, {"found the digest", "on node 0", "on node 1"}
           },
           {"missing-{node}", {}, contract::kExitData, {own_of("missing", 1), of_node_1}},
           {"newer-{node}",
            {},
            contract::kExitConfiguration,
            {own_of("newer", 1), "version 9", of_node_1}},
           {"cut-{node}",
            {},
            contract::kExitData,
            {own_of("cut", 1) + "/nodes.node.features.npy", of_node_1}},
           {"spoiled-{node}",
            {},
            contract::kExitData,
            {own_of("spoiled", 1) + ": edge type (node, to, node)", of_node_1}},
           {"products",
            {},
            contract::kExitConfiguration,
            {path("products") + ", node 0: expected 2 partitions", "found data without partitions"}
           },
           {"products-parts",
            {"placement.partitions=3", "workers.nodes=3"},
            contract::kExitConfiguration,
            {path("products-parts") + ", node 0: expected 3 partitions", "found 2"}},
           {"products-parts", {"placement.partitions=3"}, contract::kExitConfiguration, {}}
       }) {
    SCOPED_TRACE(each.data);
    std::vector<std::string> fields = node_fields(each.data, kAllApart);
    fields.emplace_back("workers.processesPerNode=1");
    fields.insert(fields.end(), each.changes.begin(), each.changes.end());
    EXPECT_EQ(run("products-partitioned", fields), each.exit_code) << output();
    for (const std::string& text : each.said) EXPECT_THAT(output(), HasSubstr(text));
    EXPECT_EQ(told(0).find("step"), std::string::npos);
  }
}

}  // namespace
}  // namespace gnn::app
