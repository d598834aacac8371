#include "worker/app/prepare_data.h"

#include "common/api/defaults.h"
#include "tests/worker/data/files.h"
#include "worker/app/import_data.h"
#include "worker/app/partition_data.h"
#include "worker/data/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PrepareData : public ::testing::Test {
 protected:
  PrepareData() {
    data::testing::OgbFiles().write(folder_);
    job_.spec.dataset.path = folder_.path("out");
    api::DataImport& import = job_.spec.prepare.emplace().data_import.emplace();
    import.path = folder_.path("ring");
  }

  Status prepare() {
    said_.str("");
    api::GnnJob with_defaults = job_;
    api::apply_defaults(with_defaults.spec);
    return prepare_data(with_defaults, console());
  }

  DataConsole console() {
    return {
        .out = said_,
        .progress = silent_,
        .dumpavail = &data_is_not_asked_for,
        .await_writer = wait_
    };
  }
  static Result<std::string> data_is_not_asked_for() {
    return fail(ErrorKind::Internal, "not in a pod");
  }

  data::testing::TemporaryFolder folder_;
  api::GnnJob job_;
  std::ostringstream said_;
  SilentProgressBar silent_;
  std::function<Status(const Error&)> wait_;
};

TEST_F(PrepareData, MakesWhatTheImportCommandMakesWithTheSameOptions) {
  api::DataImport& import = *job_.spec.prepare->data_import;
  import.to_undirected = true;
  import.row_normalize = true;
  import.self_loops = api::SelfLoops::AddRemaining;
  import.feature_type = api::FeatureType::Float16;
  const Status made = prepare();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(said_.str(), HasSubstr("out: 6 nodes, "));
  ImportRequest request;
  request.input = import.path;
  request.output.folder = *job_.spec.dataset.path;
  request.reading.to_undirected = true;
  request.reading.self_loops = data::SelfLoops::AddRemaining;
  request.reading.normalize_rows = true;
  request.reading.feature_dtype = data::DType::Float16;
  said_.str("");
  ASSERT_TRUE(import_data(request, console()));
  EXPECT_THAT(said_.str(), HasSubstr("already complete"));
  ASSERT_TRUE(prepare());
  EXPECT_THAT(said_.str(), HasSubstr("already complete"));

  job_.spec.prepare->data_import->output = job_.spec.dataset.path;
  job_.spec.dataset.path = folder_.path("parts");
  job_.spec.sampling = api::Sampling{.fanout = {2, -1}, .replace = true};
  job_.spec.sampling->rule = api::SamplingRule::AllSeen;
  job_.spec.sampling->fanout_by_edge_type = {
      {.edge_type = {.source = "node", .relation = "to", .destination = "node"}, .fanout = {1, 3}}
  };
  job_.spec.sampling->negatives.emplace().amount = api::Decimal{"1.5"};
  job_.spec.training.batch_size = 2;
  api::DataPartition& partition = job_.spec.prepare->partition.emplace();
  partition.parts = 2;
  partition.method = api::PartitionMethod::LDG;
  partition.hot_rows = api::Decimal{"0.5"};
  // Two jobs of the same data may come together.
  auto other = data::NativeWriter::open(folder_.path("parts"), "another job");
  ASSERT_TRUE(other);
  wait_ = [&](const Error& busy) -> Status {
    EXPECT_THAT(busy.message, HasSubstr("parts: is being written by process "));
    other->reset();
    return {};
  };
  const Status parted = prepare();
  ASSERT_TRUE(parted) << parted.error().message;
  EXPECT_THAT(said_.str(), HasSubstr("out: already complete"));
  EXPECT_THAT(said_.str(), HasSubstr("parts: 6 nodes, "));
  EXPECT_FALSE(*other);
  PartitionRequest parts;
  parts.input = request.output.folder;
  parts.output.folder = *job_.spec.dataset.path;
  parts.options.parts = 2;
  parts.options.method = partition::Method::Ldg;
  parts.options.fanout = {2, -1};
  parts.options.fanout_by_edge_type = {
      {.edge_type = {.source = "node", .relation = "to", .destination = "node"}, .fanout = {1, 3}}
  };
  parts.options.negatives = 1.5;
  parts.options.batch_size = 2;
  parts.options.replace = true;
  parts.options.rule = data::HopRule::AllSeen;
  parts.options.hot_rows = 0.5;
  said_.str("");
  ASSERT_TRUE(partition_data(parts, console()));
  EXPECT_THAT(said_.str(), HasSubstr("parts: already complete"));
  const std::vector<std::pair<api::PartitionMethod, std::string>> methods{
      {api::PartitionMethod::LDG, "ldg"},
      {api::PartitionMethod::METIS, "metis"},
      {api::PartitionMethod::Random, "random"},
      {api::PartitionMethod::Hotness, "hotness"}
  };
  partition.replace = true;
  for (const auto& [method, name] : methods) {
    partition.method = method;
    ASSERT_TRUE(prepare());
    const auto opened = data::open_native(*job_.spec.dataset.path);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->arrays.partitions->book.method, name);
  }

  // Links are split as the job says. A job that splits them in another way takes the same parts.
  folder_.write("shop/nodes/user/num_nodes.csv", "5\n");
  folder_.write("shop/nodes/item/num_nodes.csv", "4\n");
  folder_.write(
      "shop/edges/user__buys__item.csv", "0,0\n1,1\n2,2\n3,3\n4,0\n0,1\n1,2\n2,3\n3,0\n4,1\n"
  );
  job_.spec.sampling->fanout_by_edge_type.clear();
  job_.spec.prepare->data_import = api::DataImport{
      .format = api::ImportFormat::EdgeList,
      .path = folder_.path("shop"),
      .output = folder_.path("links"),
      .link = api::EdgeType{.source = "user", .relation = "buys", .destination = "item"}
  };
  job_.spec.dataset.path = folder_.path("parts-of-links");
  job_.spec.dataset.split = {
      .type = api::SplitType::RandomLink,
      .validation = api::Decimal{"0.2"},
      .test = api::Decimal{"0.1"},
      .negative_ratio = api::Decimal{"2"}
  };
  job_.spec.training.seed = 9;
  partition.replace = false;
  const auto split_there = [&] {
    const auto opened = data::open_native(*job_.spec.dataset.path);
    return data::describe(opened.value().arrays.partitions->link_split.value().options);
  };
  const Status with_split = prepare();
  ASSERT_TRUE(with_split) << with_split.error().message;
  const std::string by_seed_9 =
      "seed=9, validation=0.2, test=0.1, disjointTrain=0, negativeRatio=2";
  EXPECT_EQ(split_there(), by_seed_9);
  job_.spec.dataset.split.seed = 8;
  ASSERT_TRUE(prepare());
  EXPECT_THAT(said_.str(), HasSubstr("but its links split by " + by_seed_9 + ": the job splits"));
  EXPECT_EQ(split_there(), by_seed_9);
  const api::Split of_links = std::exchange(job_.spec.dataset.split, {});
  ASSERT_TRUE(prepare()) << "nothing is said against a job that has no use for it";
  EXPECT_EQ(split_there(), by_seed_9);
  job_.spec.training.batch_size = 3;
  EXPECT_FALSE(prepare()) << "another one would be made in other ways, too";
  job_.spec.training.batch_size = 2;
  job_.spec.dataset.split = of_links;
  partition.replace = true;
  ASSERT_TRUE(prepare());
  EXPECT_THAT(split_there(), HasSubstr("seed=8,"));
  job_.spec.prepare->data_import->link.reset();
  job_.spec.prepare->data_import->no_split = true;
  job_.spec.prepare->data_import->output = folder_.path("edges");
  job_.spec.dataset.path = folder_.path("parts-of-edges");
  ASSERT_TRUE(prepare()) << "links are made when the job loads the data";
  EXPECT_FALSE(data::open_native(*job_.spec.dataset.path)->arrays.partitions->link_split);

  job_.spec.prepare.reset();
  job_.spec.dataset.path = "/nowhere";
  EXPECT_TRUE(prepare()) << "nothing to prepare";
}

TEST_F(PrepareData, SaysWhatIsWrongSoThatTheJobIsNotRetried) {
  ASSERT_TRUE(prepare());
  job_.spec.prepare->data_import->coalesce = true;
  const Status others = prepare();
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(others.error().message, HasSubstr("spec.prepare.import.replace: true"));
  job_.spec.prepare->data_import->replace = true;
  {
    const auto other = data::NativeWriter::open(*job_.spec.dataset.path, "another job");
    const Status busy = prepare();
    ASSERT_FALSE(busy);
    EXPECT_THAT(busy.error().message, Not(HasSubstr("replace"))) << "would not help";
  }
  EXPECT_TRUE(prepare());
  job_.spec.prepare->data_import->path = folder_.path("missing");
  const Status missing = prepare();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Data);
  EXPECT_THAT(missing.error().message, HasSubstr("missing"));

  // Without an import, of native data that are there.
  api::Prepare& steps = *job_.spec.prepare;
  steps.data_import.reset();
  steps.partition.emplace().input = *job_.spec.dataset.path;
  steps.partition->parts = 2;
  job_.spec.sampling = api::Sampling{.fanout = {2}};
  job_.spec.dataset.path = folder_.path("parts");
  ASSERT_TRUE(prepare());
  steps.partition->method = api::PartitionMethod::Random;
  const Status other_method = prepare();
  ASSERT_FALSE(other_method);
  EXPECT_EQ(other_method.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(other_method.error().message, HasSubstr("spec.prepare.partition.replace: true"));
  steps.partition->replace = true;
  EXPECT_TRUE(prepare());
  steps.partition->input = folder_.path("nowhere");
  const Status nothing = prepare();
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::Data);
  EXPECT_THAT(nothing.error().message, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace gnn::app
