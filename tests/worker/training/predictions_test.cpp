#include "worker/training/predictions.h"

#include "common/log.h"
#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/data/files.h"
#include "tests/worker/training/counting_sink.h"
#include "tests/worker/training/part_nodes.h"
#include "tests/worker/training/whole_graphs.h"
#include "worker/data/io/byte_source.h"
#include "worker/data/io/npy.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

namespace fs = std::filesystem;
using api::Output;
using gnn::testing::read_file;
using gnn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::vector<Output> kAll{Output::Classes, Output::Scores, Output::Embeddings};

// The elements of a .npy file, which is whole.
template <class T>
at::Tensor read_npy(const std::string& path) {
  auto reader = data::NpyReader::open(data::open_file(path).value()).value();
  std::vector<T> values(static_cast<size_t>(reader.header().num_elements()));
  if constexpr (std::is_same_v<T, int64_t>) {
    EXPECT_EQ(reader.header().dtype, data::DType::Int64);
    EXPECT_TRUE(reader.read_integers(values));
  } else {
    EXPECT_EQ(reader.header().dtype, data::DType::Float32);
    EXPECT_TRUE(reader.read_floats(values));
  }
  EXPECT_TRUE(reader.finish());
  return torch::tensor(values).reshape(reader.header().shape);
}

// What the last layer reads, from all layers before it over the whole graph at once.
at::Tensor inputs_of_last_layer(nn::NodeModel& model, const WholeGraph& whole) {
  nn::InEdges edges = in_edges_of(whole.graph, at::arange(whole.graph.num_destinations()));
  edges.norm = nn::gcn_norm(nn::in_degrees_without_loops(edges.matrix, edges.nodes), at::kDouble);
  at::Tensor x = whole.features.to(at::kDouble);
  for (int64_t layer = 0; layer + 1 < model.num_layers(); ++layer) {
    nn::MessagePassing& conv = model.conv(layer);
    const at::Tensor root = conv.has_root() ? conv.root(x) : at::Tensor();
    x = model.activate(layer, conv.update(root, conv.aggregate(conv.message(x), edges)));
  }
  return x;
}

class PredictionsTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.path("out/" + name);
  }
  [[nodiscard]] PredictionsOptions options(std::vector<Output> outputs = kAll) const {
    return {.path = folder_.path("out"), .outputs = std::move(outputs)};
  }
  // With a list of these nodes.
  PredictionsOptions options_for(const std::vector<int64_t>& ids) {
    PredictionsOptions made = options();
    made.nodes = folder_.write(
        "nodes.npy",
        data::testing::npy_bytes(
            "<i8", "(" + std::to_string(ids.size()) + ",)", data::testing::bytes_of(ids)
        )
    );
    return made;
  }

  // Of one rank. False if it stopped.
  Result<bool> write(
      const PredictionsOptions& options,
      nn::NodeModel& model,
      const comm::RankGroups& groups = {comm::make_single_communicator()},
      StopToken* stop = nullptr,
      progress::ProgressSink* progress = nullptr
  ) {
    const at::NoGradGuard no_grad;
    StopToken never;
    CountingSink sink;
    GNN_ASSIGN_OR_RETURN(Predictions predictions, Predictions::open(options, groups.all, files_));
    GNN_RETURN_IF_ERROR(predictions.choose_nodes(graph_.whole.graph.num_destinations()));
    GNN_ASSIGN_OR_RETURN(
        const EvaluatedParts evaluated,
        pass(
            predictions,
            {.model = model, .parts = parts_, .original_ids = original_ids_},
            groups,
            {.stop = stop != nullptr ? *stop : never,
             .progress = progress != nullptr ? *progress : sink}
        )
    );
    return evaluated.has_value();
  }

  virtual Result<EvaluatedParts> pass(
      Predictions& predictions,
      const Predictions::Inputs& inputs,
      const comm::RankGroups& groups,
      const EvaluationContext& context
  ) {
    WholeGraph whole = graph_.whole;
    whole.labels = at::zeros({whole.graph.num_destinations()}, at::kLong);
    return predictions.write(inputs, whole, groups, context, small_chunks());
  }

  void expect_rows_of(nn::NodeModel& model, const at::Tensor& ids) {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(read_npy<int64_t>(file("ids.npy")), ids));
    const at::Tensor nodes =
        original_ids_.defined() ? original_ids_.argsort().index_select(0, ids) : ids;
    const at::Tensor scores = graph_.forward(model).index_select(0, nodes);
    EXPECT_TRUE(at::equal(read_npy<int64_t>(file("classes.npy")), scores.argmax(1)));
    const auto close = [](const at::Tensor& found, const at::Tensor& expected) {
      return found.sizes() == expected.sizes() &&
             torch::allclose(found, expected.to(at::kFloat), 1e-6, 1e-6);
    };
    EXPECT_TRUE(close(read_npy<float>(file("scores.npy")), scores));
    const at::Tensor embeddings = inputs_of_last_layer(model, graph_.whole).index_select(0, nodes);
    EXPECT_TRUE(close(read_npy<float>(file("embeddings.npy")), embeddings));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path("out")))
      found.push_back(entry.path().filename());
    return found;
  }

  TemporaryFolder folder_;
  GraphAndBlock graph_{61};
  std::vector<at::Tensor> parts_;  // that are measured in the same pass
  at::Tensor original_ids_;        // of the nodes; undefined: they are not renumbered
  std::shared_ptr<checkpoint::FileOps> files_ = std::make_shared<checkpoint::PosixFileOps>();
};

TEST_F(PredictionsTest, AreWhatOneForwardGivesByAnyRanks) {
  for (const auto& model : make_models()) {
    for (const int64_t world : {1, 2, 3}) {
      comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& all) {
        EXPECT_TRUE(comm::require(write(options(), *model, {all})));
      });
      expect_rows_of(*model, at::arange(61));
    }
  }
}

TEST_F(PredictionsTest, GiveNoClassToNodesWhoseScoresAreNoNumbers) {
  const at::NoGradGuard no_grad;
  graph_.whole.features[7].fill_(NAN);
  const auto model = make_models()[0];
  const at::Tensor scores = graph_.forward(*model);
  const at::Tensor none = scores.isnan().any(1);
  const auto count = none.sum().item<int64_t>();
  ASSERT_GT(count, 1);
  ASSERT_LT(count, 61);
  std::vector<std::string> log;
  const ScopedLogOutput output([&](std::string_view line) { log.emplace_back(line); });
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& all) {
    EXPECT_TRUE(comm::require(write(options(), *model, {all})));
  });
  EXPECT_TRUE(
      at::equal(read_npy<int64_t>(file("classes.npy")), scores.argmax(1).masked_fill(none, -1))
  );
  ASSERT_THAT(log, ::testing::SizeIs(1));
  EXPECT_THAT(log[0], HasSubstr("nodes=" + std::to_string(count) + " of=61"));
}

TEST_F(PredictionsTest, AreOfListedNodesAloneWithMoreRanksThanThey) {
  const auto listed = options_for({60, 3, 17});
  parts_ = {at::arange(0, 61, 2)};
  for (const auto& model : make_models()) {
    comm::run_ranks_of_nodes(2, 3, [&](const comm::RankGroups& groups) {
      EXPECT_TRUE(comm::require(write(listed, *model, groups)));
    });
    expect_rows_of(*model, torch::tensor({3, 17, 60}, at::kLong));
  }
}

TEST_F(PredictionsTest, OfRenumberedNodesAreByTheirOriginalIds) {
  torch::manual_seed(9);
  original_ids_ = torch::randperm(61);
  const auto listed = options_for({60, 3, 17});
  for (const auto& model : make_models()) {
    for (const int64_t world : {1, 3}) {
      comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& all) {
        EXPECT_TRUE(comm::require(write(options(), *model, {all})));
      });
      expect_rows_of(*model, at::arange(61));
      comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& all) {
        EXPECT_TRUE(comm::require(write(listed, *model, {all})));
      });
      expect_rows_of(*model, torch::tensor({3, 17, 60}, at::kLong));
    }
  }
}

TEST_F(PredictionsTest, LeaveNoOutputOfAnEarlierJob) {
  const Models models = make_models();
  ASSERT_TRUE(write(options(), *models[0]).value());
  ASSERT_TRUE(write(options({Output::Scores}), *models[1]).value());
  EXPECT_THAT(names(), UnorderedElementsAre("ids.npy", "scores.npy", "predictions.lock"));
}

TEST_F(PredictionsTest, NameAFolderThatCannotBeWritten) {
  const auto model = make_models()[0];
  PredictionsOptions missing = options();
  missing.path = folder_.path("no/such");
  PredictionsOptions a_file = options();
  a_file.path = folder_.write("plain", "x");
  for (const PredictionsOptions& wrong : {missing, a_file}) {
    const auto written = write(wrong, *model);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(
        written.error().message, AllOf(HasSubstr("spec.predictions.path: "), HasSubstr(wrong.path))
    );
  }
}

TEST_F(PredictionsTest, RefuseAFolderThatAnotherJobWritesTo) {
  const auto alone = comm::make_single_communicator();
  auto first = Predictions::open(options(), alone, files_);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = Predictions::open(options(), alone, files_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Conflict);
  EXPECT_THAT(second.error().message, AllOf(HasSubstr("out"), HasSubstr("is being written by")));
}

// Fails at one call, counted among those that change the disk.
class FailingFiles final : public checkpoint::FileOps {
 public:
  explicit FailingFiles(int64_t failing) : left_(failing) {}
  [[nodiscard]] bool fired() const { return left_ < 0; }

  Result<int> create(const fs::path& path) override {
    if (fails()) return full();
    return files_.create(path);
  }
  Result<size_t> write(int file, const void* data, size_t size) override {
    if (fails()) return full();
    return files_.write(file, data, size);
  }
  Status reserve(int file, int64_t size) override {
    if (fails()) return full();
    return files_.reserve(file, size);
  }
  Status sync(int file) override {
    if (fails()) return full();
    return files_.sync(file);
  }
  Status close(int file) override { return files_.close(file); }
  Status rename(const fs::path& from, const fs::path& to) override {
    if (fails()) return full();
    return files_.rename(from, to);
  }
  Status sync_directory(const fs::path& path) override {
    if (fails()) return full();
    return files_.sync_directory(path);
  }
  Status make_directory(const fs::path& path) override { return files_.make_directory(path); }
  Status remove_file(const fs::path& path) override {
    if (fails()) return full();
    return files_.remove_file(path);
  }
  Status remove_directory(const fs::path& path) override { return files_.remove_directory(path); }
  Result<std::vector<std::string>> list(const fs::path& directory) override {
    return files_.list(directory);
  }
  Result<std::string> read(const fs::path& path, int64_t max_bytes) override {
    return files_.read(path, max_bytes);
  }

 private:
  bool fails() { return left_-- == 0; }
  static tl::unexpected<Error> full() {
    return fail(ErrorKind::Io, "write: no space left on device");
  }

  checkpoint::PosixFileOps files_;
  int64_t left_ = 0;
};

TEST_F(PredictionsTest, WithIdsAreWholeWhereverTheDiskFails) {
  const Models models = make_models();
  const auto posix = files_;
  const auto listed = options_for({5, 9});
  bool done = false;
  for (int64_t call = 0; !done; ++call) {
    files_ = posix;
    ASSERT_TRUE(write(options(), *models[0]).value());
    const auto failing = std::make_shared<FailingFiles>(call);
    files_ = failing;
    const auto written = write(listed, *models[1]);
    done = !failing->fired();
    ASSERT_EQ(written.has_value(), done) << "call " << call;
    if (!done) {
      EXPECT_THAT(written.error().message, HasSubstr("spec.predictions.path: "));
    }
    if (!fs::exists(file("ids.npy"))) continue;
    const bool of_first = read_npy<int64_t>(file("ids.npy")).numel() == 61;
    SCOPED_TRACE(call);
    expect_rows_of(
        of_first ? *models[0] : *models[1],
        of_first ? at::arange(61) : torch::tensor({5, 9}, at::kLong)
    );
  }
  EXPECT_EQ(read_npy<int64_t>(file("ids.npy")).numel(), 2);
}

// Keeps the edges that were told of first, and messages, and can ask to stop at the end of the last
// layer.
class EdgesSink final : public CountingSink {
 public:
  explicit EdgesSink(StopToken& stop, bool stops = false) : stop_(stop), stops_(stops) {}
  void on_evaluation(const progress::EvaluationProgress& evaluation) override {
    if (first == 0) first = evaluation.done;
    if (stops_ && evaluation.done == evaluation.total) stop_.request();
  }
  void on_message(const std::string& message) override { messages.push_back(message); }
  int64_t first = 0;
  std::vector<std::string> messages;

 private:
  StopToken& stop_;
  bool stops_;
};

class ResumedPredictions : public PredictionsTest {
 protected:
  ResumedPredictions() {
    kept_ = options();
    kept_.worth_seconds = 0;
  }
  // The first edges that a run tells of that is stopped in the last layer, or that is not.
  int64_t first_edges(nn::NodeModel& model, bool stops) {
    StopToken stop;
    EdgesSink sink(stop, stops);
    EXPECT_EQ(
        write(kept_, model, {comm::make_single_communicator()}, &stop, &sink).value(), !stops
    );
    messages_ = sink.messages;
    return sink.first;
  }
  // The one layer that is kept.
  [[nodiscard]] std::string kept_file() const {
    std::string found;
    for (const auto& entry : fs::directory_iterator(folder_.path("out/layers"))) {
      EXPECT_EQ(found, "");
      found = entry.path();
    }
    return found;
  }

  PredictionsOptions kept_;
  std::vector<std::string> messages_;  // of the last first_edges()
};

TEST_F(ResumedPredictions, StartWithTheLastLayerWhoseInputsAreKept) {
  const int64_t edges = graph_.whole.graph.num_edges();
  Models models = make_models();
  models.pop_back();  // has one layer
  for (const auto& model : models) {
    EXPECT_LT(first_edges(*model, true), edges);
    EXPECT_THAT(messages_, IsEmpty());
    EXPECT_THAT(kept_file(), HasSubstr("layer-2-"));
    EXPECT_GT(first_edges(*model, false), 2 * edges);
    EXPECT_THAT(messages_, ElementsAre("Resumed from a kept layer: 2 of 3 are not computed again"));
    expect_rows_of(*model, at::arange(61));
    EXPECT_FALSE(fs::exists(folder_.path("out/layers")));
  }
}

TEST_F(ResumedPredictions, ComputeAgainWhatIsDamagedOrOfOtherInputs) {
  const Models models = make_models();
  const int64_t edges = graph_.whole.graph.num_edges();
  first_edges(*models[0], true);
  {
    const at::NoGradGuard no_grad;
    models[0]->parameters()[0].add_(1);
  }
  EXPECT_LT(first_edges(*models[0], true), edges) << "the layer of other parameters was read";
  EXPECT_LT(first_edges(*models[1], true), edges) << "another model's layer was read";
  const std::string path = kept_file();
  std::string bytes = read_file(path);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  folder_.write(fs::relative(path, folder_.path()), bytes);
  EXPECT_LT(first_edges(*models[1], false), edges);
  expect_rows_of(*models[1], at::arange(61));
}

TEST_F(ResumedPredictions, GoOnWhereOneOfSeveralRanksWasStopped) {
  const Models models = make_models();
  for (const auto& model : {models[0], models[3]}) {
    std::vector<int64_t> first(3);
    for (const bool stops : {true, false}) {
      comm::run_ranks(3, [&](const std::shared_ptr<comm::Communicator>& all) {
        StopToken stop;
        EdgesSink sink(stop, stops && all->rank() == 1);
        EXPECT_EQ(comm::require(write(kept_, *model, {all}, &stop, &sink)), !stops);
        if (!stops) first[static_cast<size_t>(all->rank())] = sink.first;
      });
    }
    // A first chunk has at most seven edges, but for that of the last node.
    EXPECT_GT(*std::ranges::min_element(first), 14) << "a rank did not go on";
    expect_rows_of(*model, at::arange(61));
  }
}

// Of ranks whose nodes each have one partition.
class PartPredictions : public PredictionsTest {
 protected:
  PartPredictions() {
    torch::manual_seed(9);
    graph_ = GraphAndBlock(61, at::kFloat);
    original_ids_ = torch::randperm(61);
  }
  // Each rank writes, or is stopped at the end of the last layer. Returns the first edges that each tells of.
  std::vector<int64_t> write_on(
      int64_t nodes,
      int64_t ranks,
      int64_t parts,
      const PredictionsOptions& options,
      nn::NodeModel& model,
      std::optional<int64_t> stopped = std::nullopt
  ) {
    const PartNodes made(dataset_of_parts(graph_.whole, parts), nodes);
    nodes_ = &made;
    std::vector<int64_t> first(static_cast<size_t>(nodes * ranks));
    comm::run_ranks_of_nodes(nodes, ranks, [&](const comm::RankGroups& groups) {
      StopToken stop;
      EdgesSink sink(stop, stopped == groups.all->rank());
      EXPECT_EQ(comm::require(write(options, model, groups, &stop, &sink)), !stopped);
      first[static_cast<size_t>(groups.all->rank())] = sink.first;
    });
    nodes_ = nullptr;
    return first;
  }

  Result<EvaluatedParts> pass(
      Predictions& predictions,
      const Predictions::Inputs& inputs,
      const comm::RankGroups& groups,
      const EvaluationContext& context
  ) override {
    const PartOfGraph graph =
        nodes_->graph_of(groups.all->rank() / groups.node->world_size(), groups.node->rank() == 0);
    const data::IdRange own = graph.part->own(0);
    Predictions::Inputs of_part = inputs;
    of_part.original_ids = inputs.original_ids.narrow(0, own.begin, own.size());
    return predictions.write(
        of_part, graph, groups, context, {.chunk_nodes = 5, .chunk_bytes = 400}
    );
  }

 private:
  const PartNodes* nodes_ = nullptr;
};

TEST_F(PartPredictions, AreWhatOneForwardGivesWhoeverHasTheRows) {
  // None of part 0, whose nodes have the numbers up to 14.
  const at::Tensor of_others = original_ids_.slice(0, 20, 61, 17).contiguous();
  const auto* const ids = of_others.const_data_ptr<int64_t>();
  const auto listed = options_for({ids, ids + of_others.numel()});
  for (const auto& model : make_models()) {
    for (const auto& [nodes, ranks] : std::vector<std::pair<int64_t, int64_t>>{{2, 1}, {3, 2}}) {
      SCOPED_TRACE(std::to_string(nodes) + " nodes of " + std::to_string(ranks) + " ranks");
      write_on(nodes, ranks, 2, options(), *model);
      expect_rows_of(*model, at::arange(61));
      parts_ = {at::arange(0, 61, 2)};
      write_on(nodes, ranks, 2, listed, *model);
      parts_.clear();
      expect_rows_of(*model, std::get<0>(of_others.sort()));
    }
  }
}

TEST_F(PartPredictions, GoOnWithTheLastLayerThatAllRanksHaveKept) {
  const Models models = make_models();
  PredictionsOptions kept = options();
  kept.worth_seconds = 0;
  for (const auto& model : {models[0], models[1], models[2]}) {
    const auto alone = write_on(4, 1, 2, options(), *model);
    const auto fresh = write_on(2, 2, 2, kept, *model, /*stopped=*/1);
    EXPECT_EQ(write_on(4, 1, 2, kept, *model, /*stopped=*/1), alone) << "read rows of other nodes";
    EXPECT_EQ(write_on(2, 2, 2, kept, *model, /*stopped=*/1), fresh);
    const auto resumed = write_on(2, 2, 2, kept, *model);
    for (size_t rank = 0; rank < fresh.size(); ++rank)
      EXPECT_GT(resumed[rank], fresh[rank]) << "of rank " << rank;
    expect_rows_of(*model, at::arange(61));
    EXPECT_FALSE(fs::exists(folder_.path("out/layers")));
  }
}

TEST_F(PredictionsTest, AreAsBeforeWhereTheJobIsStopped) {
  const Models models = make_models();
  ASSERT_TRUE(write(options(), *models[0]).value());
  for (const int64_t last : {1, 10, 40}) {
    StopToken stop;
    StopAtMark progress(stop, last);
    EXPECT_FALSE(
        write(options(), *models[1], {comm::make_single_communicator()}, &stop, &progress).value()
    );
    expect_rows_of(*models[0], at::arange(61));
  }
}

}  // namespace
}  // namespace gnn::training
