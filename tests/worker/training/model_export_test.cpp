#include "worker/training/model_export.h"

#include "tests/support/read_file.h"
#include "tests/support/simulated_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/nn/models/bipartite_sage.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/progress/console_sink.h"
#include "worker/training/model_file.h"
#include "worker/training/scores.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::read_file;
using gnn::testing::SimulatedDisk;
using gnn::testing::TemporaryFolder;
using interop::Library;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct NamedModel {
  api::Model model;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
};

std::vector<NamedModel> models() {
  api::Model gin{.type = api::ModelType::GIN};
  gin.gin = api::Gin{.layers = 2, .hidden_channels = 4};
  return {
      {{.type = api::ModelType::GraphSAGE},
       [] {
         return std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
             .in_channels = 3, .hidden_channels = 4, .out_channels = 2, .layers = 2
         });
       }},
      {{.type = api::ModelType::GCN},
       [] {
         return std::make_shared<nn::GcnImpl>(
             nn::GcnOptions{.in_channels = 3, .hidden_channels = 4, .out_channels = 2}
         );
       }},
      {gin,
       [] {
         return std::make_shared<nn::GinImpl>(
             nn::GinOptions{.in_channels = 3, .hidden_channels = 4, .out_channels = 2, .layers = 2}
         );
       }},
      {{.type = api::ModelType::BipartiteSAGE},
       [] {
         return std::make_shared<nn::BipartiteSageImpl>(nn::BipartiteSageOptions{
             .user_type = 0,
             .item_type = 1,
             .item_to_item = 0,
             .item_to_user = 1,
             .user_channels = 3,
             .item_channels = 5,
             .hidden_channels = 4,
             .out_channels = 2
         });
       }},
  };
}

std::vector<at::Tensor> values_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> values;
  for (const auto& entry : checkpoint::capture_module(module)) values.push_back(entry.tensor);
  return values;
}

TEST(ModelFile, GivesEachModelBackUnderTheNamesOfEitherLibrary) {
  const TemporaryFolder folder;
  checkpoint::PosixFileOps files;
  const std::string path = folder.path() + "/m.safetensors";
  for (const NamedModel& each : models()) {
    for (const Library library : {Library::Dgl, Library::Pyg}) {
      if (!interop::check_library(each.model, library)) continue;
      const auto written = each.make();
      const auto read = each.make();
      ASSERT_FALSE(same_bits(values_of(*written), values_of(*read)));
      const auto tensors =
          state_dict_of(checkpoint::capture_module(*written), each.model, library).value();
      ASSERT_TRUE(write_model_file(files, path, tensors, {}));
      const auto own = checkpoint::capture_module(*read);
      const Status found = read_model_file(path, state_dict_of(own, each.model, library).value());
      ASSERT_TRUE(found) << found.error().message;
      ASSERT_TRUE(checkpoint::restore_module(*read, own));
      EXPECT_TRUE(same_bits(values_of(*written), values_of(*read)));
    }
  }
}

TEST(ModelFile, NamesFileAndTensorOfAnotherModel) {
  const TemporaryFolder folder;
  checkpoint::PosixFileOps files;
  const std::string path = folder.path() + "/m.safetensors";
  ASSERT_TRUE(write_model_file(files, path, {{"convs.0.bias", at::ones({3})}}, {}));
  const at::Tensor into = at::zeros({4});
  const Status found = read_model_file(path, {{"convs.0.bias", into}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::Data);
  EXPECT_EQ(found.error().message, path + ": tensor convs.0.bias: expected F32 [4], found F32 [3]");
  EXPECT_TRUE(at::equal(into, at::zeros({4})));
}

// A model of one layer, named as a GCN.
struct TinyGcnImpl : torch::nn::Module {
  TinyGcnImpl() { conv = register_module("convs_0", torch::nn::Linear(4, 3)); }
  torch::nn::Linear conv{nullptr};
};

// Twenty points in batches of four.
class TinyWorkload final : public Workload {
 public:
  TinyWorkload() {
    torch::manual_seed(7);
    points_ = torch::randn({20, 4});
    labels_ = points_.narrow(1, 0, 3).argmax(1);
    net_ = std::make_shared<TinyGcnImpl>();
  }

  torch::nn::Module& module() override { return *net_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == batches_[0]) return std::optional<BatchSize>();
    current_ = next_++;
    if (on_batch) on_batch(epoch_, current_);
    return BatchSize{.items = 4, .sampled_edges = 0, .input_nodes = 4};
  }
  Scores forward() override {
    return {
        net_->conv->forward(points_.narrow(0, current_ * 4, 4)), labels_.narrow(0, current_ * 4, 4)
    };
  }
  at::Tensor loss(const Scores& scores) const override { return cross_entropy(scores); }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  bool has(Part part) const override { return part != Part::Train; }
  Result<Evaluated> evaluate(Part part, const EvaluationContext& context) override {
    if (context.stop.requested()) return Evaluated();
    if (on_evaluation) on_evaluation(part);
    const bool is_best = part == Part::Validation && epoch_ == best_epoch;
    return progress::accuracy(
        is_best ? 20 : count_correct({net_->conv->forward(points_), labels_}).item<int64_t>(), 20
    );
  }

  std::function<void(int64_t epoch, int64_t batch)> on_batch;
  std::function<void(Part)> on_evaluation;
  int64_t best_epoch = -1;  // whose validation is perfect

 private:
  at::Tensor points_;
  at::Tensor labels_;
  std::shared_ptr<TinyGcnImpl> net_;
  std::vector<int64_t> batches_ = {5};
  int64_t epoch_ = 0;
  int64_t next_ = 0;
  int64_t current_ = 0;
};

ModelExportOptions export_to(const std::string& path) {
  return {.path = path, .names = Library::Pyg, .model = {.type = api::ModelType::GCN}};
}

class ExportingJob : public ::testing::Test {
 protected:
  TrainerOptions options(int64_t epochs) const {
    TrainerOptions options = options_for(epochs);
    options.checkpoint = checkpoints_in(folder_);
    options.model_export = export_to(folder_.path() + "/models");
    options.dataset_digest = "xxh64:0123";
    return options;
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.path() + "/models/" + name + ".safetensors";
  }
  // Weight and bias of an exported model.
  [[nodiscard]] std::vector<at::Tensor> read(const std::string& name) const {
    const at::Tensor weight = at::zeros({3, 4});
    const at::Tensor bias = at::zeros({3});
    const Status found =
        read_model_file(file(name), {{"convs.0.lin.weight", weight}, {"convs.0.bias", bias}});
    EXPECT_TRUE(found) << found.error().message;
    return {weight, bias};
  }
  Result<TrainingResult> run(TinyWorkload& workload, const TrainerOptions& options) {
    TrainerContext context{
        .communicator = comm::make_single_communicator(),
        .device = c10::kCPU,
        .progress = sink_,
        .stop = stop_
    };
    return train(workload, context, options);
  }

  TemporaryFolder folder_;
  progress::NullSink sink_;
  StopToken stop_;
};

TEST_F(ExportingJob, WritesWhatItHasTrainedAndTheSameBytesAfterARestart) {
  TinyWorkload workload;
  ASSERT_TRUE(run(workload, options(2)));
  const std::string bytes = read_file(file("last"));
  EXPECT_TRUE(same_bits(read("last"), values_of(workload.module())));
  EXPECT_THAT(
      bytes,
      AllOf(
          HasSubstr(R"("format":"pt")"),
          HasSubstr(R"("gnn.model":"GCN")"),
          HasSubstr(R"("gnn.names":"PyG")"),
          HasSubstr(R"("gnn.epochs":"2")"),
          HasSubstr(R"("gnn.datasetDigest":"xxh64:0123")"),
          HasSubstr(R"("gnn.metric":"validation_accuracy")")
      )
  );

  TinyWorkload restarted;
  ASSERT_TRUE(run(restarted, options(2)));
  EXPECT_EQ(read_file(file("last")), bytes);
  std::filesystem::remove_all(folder_.path() + "/job");
  TinyWorkload anew;
  ASSERT_TRUE(run(anew, options(2)));
  EXPECT_EQ(read_file(file("last")), bytes);
}

// Whichever of them the test set is measured with, which stays in the model.
TEST_F(ExportingJob, WritesTheBestBesideTheLast) {
  for (const api::TestModel tested : {api::TestModel::Last, api::TestModel::Best}) {
    TrainerOptions both = options(3);
    both.checkpoint->best.emplace();
    both.training.evaluation.test_model = tested;
    TinyWorkload workload;
    workload.best_epoch = 1;
    std::vector<at::Tensor> best;
    workload.on_batch = [&](int64_t epoch, int64_t batch) {
      if (epoch == 2 && batch == 0) best = values_of(workload.module());
    };
    std::vector<at::Tensor> last;
    workload.on_evaluation = [&](Part part) {
      if (part == Part::Validation) last = values_of(workload.module());
    };
    const auto trained = run(workload, both);
    ASSERT_TRUE(trained) << trained.error().message;
    ASSERT_FALSE(same_bits(best, last));
    EXPECT_TRUE(same_bits(read("last"), last));
    EXPECT_TRUE(same_bits(read("best"), best));
    EXPECT_THAT(
        read_file(file("best")),
        AllOf(HasSubstr(R"("gnn.epochs":"2")"), HasSubstr(R"("gnn.metricValue":"1")"))
    );
    std::filesystem::remove_all(folder_.path() + "/job");
    std::filesystem::remove_all(folder_.path() + "/models");
  }
}

TEST_F(ExportingJob, WritesNoModelWhenItIsStopped) {
  TinyWorkload workload;
  workload.on_batch = [&](int64_t, int64_t batch) {
    if (batch == 4) stop_.request();
  };
  const auto stopped = run(workload, options(2));
  ASSERT_TRUE(stopped);
  ASSERT_TRUE(stopped->stopped);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/models"));
}

TEST_F(ExportingJob, KeepsItsCheckpointWhereTheModelCannotBeWritten) {
  TinyWorkload workload;
  workload.on_batch = [&](int64_t, int64_t) {
    std::filesystem::create_directories(file("last") + ".tmp");  // in the way
  };
  const auto failed = run(workload, options(1));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::Io);
  EXPECT_THAT(
      failed.error().message, AllOf(HasSubstr("spec.export.path"), HasSubstr(file("last") + ".tmp"))
  );

  std::filesystem::remove(file("last") + ".tmp");
  TinyWorkload restarted;
  bool trained = false;
  restarted.on_batch = [&](int64_t, int64_t) { trained = true; };
  ASSERT_TRUE(run(restarted, options(1)));
  EXPECT_FALSE(trained) << "all steps are in the checkpoint";
  EXPECT_TRUE(std::filesystem::exists(file("last")));
}

TEST_F(ExportingJob, NamesAFolderThatCannotBeWrittenBeforeItTrains) {
  TinyWorkload workload;
  bool trained = false;
  workload.on_batch = [&](int64_t, int64_t) { trained = true; };
  TrainerOptions changed = options(1);
  changed.model_export->path = folder_.path() + "/missing/models";
  const auto failed = run(workload, changed);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      failed.error().message,
      AllOf(HasSubstr("spec.export.path: "), HasSubstr(folder_.path() + "/missing/models"))
  );
  EXPECT_FALSE(trained);
}

ModelFacts facts_of_epoch(int64_t epochs) {
  return {.config_hash = "1", .dataset_digest = "2", .epochs = epochs};
}

TEST(ModelExport, LeavesTheModelBeforeOrTheNewOneWhereverTheMachineStops) {
  using Fault = SimulatedDisk::Fault;
  using Survival = SimulatedDisk::Survival;
  const auto write = [](const std::shared_ptr<SimulatedDisk>& disk, int64_t epochs) {
    const TinyGcnImpl net;
    auto exporter =
        ModelExport::open(export_to("/job/models"), comm::make_single_communicator(), disk);
    return exporter && exporter->write("last", net, nullptr, facts_of_epoch(epochs));
  };
  for (const Fault fault : {Fault::Error, Fault::ShortWrite, Fault::Crash}) {
    for (const Survival survival : {Survival::None, Survival::All, Survival::Some}) {
      for (int64_t call = 0;; ++call) {
        const auto disk = std::make_shared<SimulatedDisk>();
        torch::manual_seed(1);
        ASSERT_TRUE(write(disk, 1));
        const std::string before = disk->content("/job/models/last.safetensors");
        disk->fail_at(call, fault);
        const bool written = write(disk, 2);
        if (!disk->fired()) break;
        disk->restart(survival, static_cast<uint64_t>(call));
        const std::string after = disk->content("/job/models/last.safetensors");
        auto reader =
            interop::SafetensorsReader::open(data::from_memory("last.safetensors", after));
        ASSERT_TRUE(reader) << call << ": " << reader.error().message;
        std::string scratch;
        const Status whole = reader->read([&](const interop::TensorEntry& entry) {
          scratch.resize(static_cast<size_t>(interop::bytes_of(entry)));
          return std::as_writable_bytes(std::span(scratch));
        });
        EXPECT_TRUE(whole) << call;
        if (written) {
          EXPECT_NE(after, before) << call;
        }
      }
    }
  }
}

TEST(ModelExport, WritesOnRank0AndTellsAllRanksWhetherItCould) {
  const auto disk = std::make_shared<SimulatedDisk>();
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    // Only rank 0 has the volume.
    const auto files = communicator->rank() == 0 ? disk : nullptr;
    const TinyGcnImpl net;
    auto exporter = comm::require(ModelExport::open(export_to("/job/models"), communicator, files));
    comm::require(exporter.write("last", net, nullptr, facts_of_epoch(1)));

    const auto refused = ModelExport::open(export_to("/missing/job/models"), communicator, files);
    ASSERT_FALSE(refused);
    EXPECT_EQ(
        refused.error().kind,
        communicator->rank() == 0 ? ErrorKind::Configuration : ErrorKind::PeerLost
    );
  });
  EXPECT_EQ(disk->paths().size(), 1U);
}

}  // namespace
}  // namespace gnn::training
