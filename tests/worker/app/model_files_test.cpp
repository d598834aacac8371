#include "worker/app/model_files.h"

#include "common/contract.h"
#include "tests/support/mutations.h"
#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "worker/app/command.h"
#include "worker/app/job_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/embedding/embeddings.h"
#include "worker/interop/safetensors.h"
#include "worker/tasks/model_widths.h"
#include "worker/training/parameters_hash.h"

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using gnn::testing::read_file;
using gnn::testing::TemporaryFolder;
using interop::Library;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kSage = R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: sage}
spec:
  task: {type: NodeClassification}
  dataset: {format: Native, path: /data}
  model: {type: GraphSAGE, graphSage: {layers: 2, hiddenChannels: 4}}
  sampling: {fanout: [3, 3]}
)";
const std::string kLinks = R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: links}
spec:
  task: {type: LinkPrediction, link: {source: reader, relation: reads, destination: book}}
  dataset: {format: Native, path: /data, split: {type: RandomLink, validation: "0.1", test: "0.1"}}
  model: {type: BipartiteSAGE, bipartiteSage: {hiddenChannels: 4, outChannels: 4}}
  sampling: {fanout: [3, 3]}
)";

class ModelFiles : public ::testing::Test {
 protected:
  // Writes a checkpoint with this model, and gives its manifest.
  std::string save(
      const torch::nn::Module& model, std::vector<checkpoint::CheckpointTensor> embeddings = {}
  ) {
    auto store = checkpoint::CheckpointStore::begin(
        {.directory = folder_.path() + "/job", .incarnation = {.job_uid = "1"}},
        checkpoint::Inherit::Nothing,
        std::make_shared<checkpoint::PosixFileOps>()
    );
    EXPECT_TRUE(store) << store.error().message;
    checkpoint::CheckpointState state;
    state.epoch = 3;
    state.config_hash = "42";
    state.model = checkpoint::capture_module(model);
    state.embeddings = std::move(embeddings);
    return store->save(state)->path.string();
  }

  ModelFileRequest request(const std::string& job, std::optional<Library> names = {}) {
    auto parsed = parse_job(job, {});
    EXPECT_TRUE(parsed) << parsed.error().message;
    return {.job = parsed.value_or(api::GnnJob{}), .file = file_, .names = names};
  }

  std::string check(const ModelFileRequest& asked) {
    std::ostringstream out;
    const Status checked = check_model(asked, out);
    return checked ? out.str() : checked.error().message;
  }

  TemporaryFolder folder_;
  std::string file_ = folder_.path() + "/m.safetensors";
  std::ostringstream out_;
};

TEST_F(ModelFiles, ExportACheckpointsModelAndCheckItWithoutTheDataSet) {
  const ModelFileRequest asked = request(kSage, Library::Pyg);
  const auto model = tasks::make_model(asked.job.spec, {.first = 7, .second = 3});
  const Status exported = export_checkpoint(save(*model), asked, out_);
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_EQ(out_.str(), "Wrote " + file_ + "\n");
  EXPECT_EQ(
      check(request(kSage)),
      file_ + ": GraphSAGE by PyG's names, 6 tensors, 87 numbers; epochs 3; parametersHash " +
          training::hash_of(model->parameters()) + "\n"
  );
  EXPECT_THAT(
      check(request(kSage, Library::Dgl)),
      HasSubstr("tensor layers.0.fc_neigh.weight: expected F32 [4, 1], found none")
  );
  EXPECT_THAT(
      check(request(kLinks)),
      AllOf(HasSubstr(file_ + ": tensor decoder.lin1.bias"), HasSubstr("found none"))
  );
}

TEST_F(ModelFiles, ExportAndCheckEmbeddings) {
  const ModelFileRequest asked = request(kLinks);
  const auto model = tasks::make_model(asked.job.spec, {.first = 4, .second = 4});
  const auto alone = comm::make_single_communicator();
  auto embeddings = embedding::Embeddings::create(
      {.tables =
           {{.name = "book", .rows = 6, .width = 4}, {.name = "reader", .rows = 5, .width = 4}},
       .optimizer = asked.job.spec.training.optimizer},
      *alone
  );
  ASSERT_TRUE(embeddings) << embeddings.error().message;
  const Status exported = export_checkpoint(save(*model, embeddings->state()), asked, out_);
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_THAT(check(asked), HasSubstr("BipartiteSAGE by PyG's names, 25 tensors"));

  auto reader = interop::SafetensorsReader::open(data::open_file(file_).value()).value();
  std::map<std::string, at::Tensor> read;
  ASSERT_TRUE(reader.read([&](const interop::TensorEntry& entry) {
    at::Tensor& tensor = read[entry.name] = at::empty(entry.shape);
    return std::span(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes());
  }));
  EXPECT_TRUE(at::equal(read.at("item_emb.weight"), embeddings->values(0)));
  EXPECT_TRUE(at::equal(read.at("user_emb.weight"), embeddings->values(1)));
}

TEST_F(ModelFiles, TakeNoWidthFromAFileThatTheFileDoesNotHave) {
  const ModelFileRequest asked = request(kSage);
  ASSERT_TRUE(export_checkpoint(
      save(*tasks::make_model(asked.job.spec, {.first = 7, .second = 3})), asked, out_
  ));
  const std::string bytes = read_file(file_);
  testing::Mutations mutations(5);
  for (int round = testing::mutation_rounds(300); round > 0; --round) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << mutations.of(bytes);
    std::ostringstream out;
    const Status checked = check_model(asked, out);
    if (!checked) {
      EXPECT_EQ(checked.error().kind, ErrorKind::Data) << checked.error().message;
      EXPECT_THAT(checked.error().message, HasSubstr(file_));
    }
  }
  // Rows without end, of no width: as large as nothing in the file, and as all memory in a model.
  const std::string header =
      R"({"layers.0.fc_neigh.weight":{"dtype":"F32","shape":[0,4611686018427387904],)"
      R"("data_offsets":[0,0]}})";
  std::ofstream(file_, std::ios::binary | std::ios::trunc)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header;
  EXPECT_THAT(check(asked), HasSubstr("tensor layers.0.fc_neigh.weight: expected F32 [4, 46116"));
}

TEST_F(ModelFiles, EndTheirCommandWithTheContractsExitCode) {
  const std::string job = folder_.path() + "/job.yaml";
  std::ofstream(job) << kSage;
  const auto run = [&](std::vector<std::string> arguments) {
    CLI::App root;
    Subcommand chosen;
    add_model_command(root, chosen);
    std::ranges::reverse(arguments);  // as CLI11 takes them
    root.parse(arguments);
    return chosen();
  };
  EXPECT_EQ(run({"model", "check", file_, "--job", job}), contract::kExitData);
  EXPECT_EQ(
      run({"model", "check", file_, "--job", job, "--set", "model.type=GTN"}),
      contract::kExitConfiguration
  );
  const std::string manifest =
      save(*tasks::make_model(request(kSage).job.spec, {.first = 7, .second = 3}));
  EXPECT_EQ(
      run({"model", "export", manifest, "--job", job, "--output", file_, "--names", "DGL"}),
      contract::kExitDone
  );
  EXPECT_EQ(run({"model", "check", file_, "--job", job}), contract::kExitDone);
  EXPECT_EQ(
      run(
          {"model",
           "export",
           manifest,
           "--job",
           job,
           "--output",
           file_,
           "--set",
           "model.graphSage.layers=3",
           "--set",
           "sampling.fanout=[3, 3, 3]"}
      ),
      contract::kExitConfiguration
  );
}

}  // namespace
}  // namespace gnn::app
