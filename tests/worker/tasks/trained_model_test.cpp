#include "worker/tasks/trained_model.h"

#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/interop/state_dict.h"
#include "worker/training/model_export.h"
#include "worker/training/model_file.h"
#include "worker/training/parameters_hash.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

namespace fs = std::filesystem;
using gnn::testing::read_file;
using gnn::testing::TemporaryFolder;
using interop::Library;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr OpenWidths kWidths{.first = 5, .second = 3};

std::string hash_of_all(const torch::nn::Module& module) {
  std::vector<at::Tensor> values = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) values.push_back(buffer);
  return training::hash_of(values);
}

class TrainedModelTest : public ::testing::Test {
 protected:
  TrainedModelTest() {
    spec_.model.graph_sage = api::GraphSage{.layers = 2, .hidden_channels = 4};
    torch::manual_seed(3);
    model_ = make_model(spec_, kWidths);
  }

  // A checkpoint of the model in a folder, by the path of its manifest.
  std::string save(const std::string& folder, const std::string& job = "1", int64_t step = 10) {
    auto store = checkpoint::CheckpointStore::begin(
        {.directory = folder_.path(folder), .incarnation = {.job_uid = job}},
        checkpoint::Inherit::Newest,
        std::make_shared<checkpoint::PosixFileOps>()
    );
    EXPECT_TRUE(store) << store.error().message;
    checkpoint::CheckpointState state;
    state.global_step = step;
    state.model = checkpoint::capture_module(*model_);
    return store->save(state)->path.string();
  }
  // The model under the names of a library; without metadata, as other programs may write it.
  std::string write_file(const std::string& name, Library names, bool says_names) {
    const std::string path = folder_.path(name);
    const auto tensors =
        training::state_dict_of(checkpoint::capture_module(*model_), spec_.model, names).value();
    const interop::Metadata metadata =
        says_names ? training::metadata_of(spec_.model, names, {}) : interop::Metadata{};
    EXPECT_TRUE(training::write_model_file(files_, path, tensors, metadata));
    return path;
  }
  Result<TrainedModel> read(const std::string& from) {
    spec_.model.from = from;
    return TrainedModel::read(spec_, *alone_, files_);
  }
  void expect_refused(const std::string& from, ErrorKind kind, const std::string& words) {
    const auto found = read(from);
    ASSERT_FALSE(found) << from;
    EXPECT_EQ(found.error().kind, kind) << found.error().message;
    EXPECT_THAT(
        found.error().message,
        AllOf(HasSubstr("spec.model.from: "), HasSubstr(from), HasSubstr(words))
    );
  }

  TemporaryFolder folder_;
  checkpoint::PosixFileOps files_;
  std::shared_ptr<comm::Communicator> alone_ = comm::make_single_communicator();
  api::GnnJobSpec spec_;
  std::shared_ptr<torch::nn::Module> model_;
};

TEST_F(TrainedModelTest, IsTheSameFromACheckpointItsFolderAndAFileOnAllRanks) {
  const std::string manifest = save("job");
  for (const std::string& from : std::vector<std::string>{
           manifest,
           folder_.path("job"),
           write_file("dgl.safetensors", Library::Dgl, true),
           write_file("pyg.safetensors", Library::Pyg, true),
           write_file("bare.safetensors", interop::own_library(spec_.model), false),
       }) {
    spec_.model.from = from;
    comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const auto trained = comm::require(TrainedModel::read(spec_, *communicator, files_));
      const auto made = comm::require(trained.make({.first = 5, .second = -1}, *communicator));
      EXPECT_EQ(hash_of_all(*made), hash_of_all(*model_)) << from;
    });
  }
}

TEST_F(TrainedModelTest, OfAFolderIsTheNewestThatIsValidAndTheFolderStaysAsItIs) {
  save("job", "1", 10);
  const std::string older = hash_of_all(*model_);
  model_ = make_model(spec_, kWidths);
  const std::string newest = save("job", "2", 4);
  const auto names_of = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("job")))
      names.push_back(entry.path());
    return names;
  };
  const std::vector<std::string> before = names_of();
  const auto trained = read(folder_.path("job"));
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_EQ(trained->source(), newest) << "of the later job";
  EXPECT_EQ(hash_of_all(**trained->make(kWidths, *alone_)), hash_of_all(*model_));

  std::string bytes = read_file(newest);
  bytes[12] = static_cast<char>(bytes[12] ^ 1);
  folder_.write(fs::relative(newest, folder_.path()), bytes);
  EXPECT_EQ(hash_of_all(**read(folder_.path("job"))->make(kWidths, *alone_)), older);
  EXPECT_EQ(names_of(), before);
}

TEST_F(TrainedModelTest, NamesWhatIsWrongWithoutTheDataSet) {
  const std::string good = write_file("m.safetensors", Library::Pyg, true);
  const std::string bytes = read_file(good);
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  fs::create_directories(folder_.path("models"));
  const std::string manifest = save("job");
  expect_refused(folder_.path("none.safetensors"), ErrorKind::Configuration, "No such file");
  expect_refused(folder_.path("none.manifest"), ErrorKind::Configuration, "No such file");
  expect_refused(folder_.path("models"), ErrorKind::Configuration, "name the file");
  expect_refused(
      folder_.write("cut.safetensors", bytes.substr(0, bytes.size() / 2)), ErrorKind::Data, ""
  );
  expect_refused(folder_.write("damaged.safetensors", damaged), ErrorKind::Data, "checksum");
  expect_refused(folder_.write("text.safetensors", "weights"), ErrorKind::Data, "");

  spec_.model.graph_sage->hidden_channels = 6;
  expect_refused(good, ErrorKind::Data, "tensor convs.0.");
  expect_refused(manifest, ErrorKind::Configuration, "expected");
  spec_.model.graph_sage->hidden_channels = 4;
  const at::NoGradGuard no_grad;
  model_->parameters()[0].view(-1)[1] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(write_file("nan.safetensors", Library::Pyg, true), ErrorKind::Data, "holds a NaN");
}

TEST_F(TrainedModelTest, NamesTheWidthsOfOtherData) {
  const auto trained = read(write_file("m.safetensors", Library::Pyg, true));
  ASSERT_TRUE(trained) << trained.error().message;
  for (const OpenWidths& data : {OpenWidths{.first = 7, .second = 3}, {.first = 5, .second = 4}}) {
    const auto made = trained->make(data, *alone_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(
        made.error().message,
        AllOf(
            HasSubstr("spec.model.from: " + folder_.path("m.safetensors")),
            HasSubstr("found one of 5 features and 3 classes")
        )
    );
  }
}

}  // namespace
}  // namespace gnn::tasks
