#include "worker/graph/load.h"

#include "tests/support/mapping_flags.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/dealt_parts.h"
#include "tests/worker/data/files.h"
#include "tests/worker/graph/load_native.h"
#include "worker/data/native.h"
#include "worker/data/readers/edge_list.h"
#include "worker/data/readers/ogb.h"
#include "worker/data/transforms.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::graph {
namespace {

using data::testing::OgbFiles;
using gnn::testing::mapping_flags;
using gnn::testing::mapping_flags_of_file;
using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;
using testing::load_native;
using ::testing::Not;

class Load : public ::testing::Test {
 protected:
  Result<Dataset> load(const api::Dataset& spec, int64_t seed = 0) {
    return load_dataset(spec, {.training_seed = seed}, silent_);
  }
  api::Dataset ogb() {
    OgbFiles().write(folder_);
    api::Dataset spec;
    spec.format = api::DatasetFormat::OGB;
    spec.path = folder_.path("ring");
    return spec;
  }
  TemporaryFolder folder_;
  SilentProgressBar silent_;
};

TEST_F(Load, AppliesTheSameTransformsToTextAndNativeForm) {
  api::Dataset spec = ogb();
  {
    auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
    const auto arrays = data::read_ogb(*spec.path, {}, *writer, silent_);
    ASSERT_TRUE(writer->publish(*arrays, false));
  }
  spec.to_undirected = true;
  spec.add_self_loops = true;
  spec.feature_transform = api::FeatureTransform::RowNormalize;
  const auto text = load(spec);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->graph().num_edges(), 16 + 6);
  EXPECT_EQ(text->graph().indices().scalar_type(), at::kInt);
  EXPECT_FLOAT_EQ(text->features().rows()[5][1].item<float>(), 0.75F);
  spec.format = api::DatasetFormat::Native;
  spec.path = folder_.path("native");
  const auto native = load(spec);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_TRUE(at::equal(text->graph().indptr(), native->graph().indptr()));
  EXPECT_TRUE(at::equal(text->graph().indices(), native->graph().indices()));
  EXPECT_TRUE(at::equal(text->features().rows(), native->features().rows()));
  EXPECT_TRUE(at::equal(text->split.train, native->split.train));
}

TEST_F(Load, NamesTheFileOfANativeSetWhoseSplitOrLabelsAreWrong) {
  const api::Dataset text = ogb();
  // Publishes the ring after a change to it; returns the error of loading it.
  const auto error_after = [&](const std::function<void(data::DatasetArrays&)>& change) -> Error {
    auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
    data::DatasetArrays arrays = *data::read_ogb(*text.path, {}, *writer, silent_);
    change(arrays);
    EXPECT_TRUE(writer->publish(arrays, true));
    api::Dataset native;
    native.path = folder_.path("native");
    const auto dataset = load(native);
    return dataset ? Error{} : dataset.error();
  };
  const Error overlap = error_after([](data::DatasetArrays& a) { a.test = a.train; });
  EXPECT_EQ(overlap.kind, ErrorKind::Data);
  const std::string train = folder_.path("native/split.train.npy");
  EXPECT_EQ(
      overlap.message,
      train + ": test[0]: id 0 is in test and in train (" + train + "); leave it in one part"
  );
  EXPECT_THAT(
      error_after([](data::DatasetArrays& a) { a.num_classes = 2; }).message,
      HasSubstr("native/nodes.node.labels.npy: labels[2]: expected a class in [0, 2)")
  );
}

TEST_F(Load, KnowsWhichDataItHasRead) {
  const api::Dataset spec = ogb();
  const std::string digest = load(spec)->digest;
  EXPECT_EQ(load(spec)->digest, digest);
  OgbFiles changed;
  changed.features = "1,0\n0.5,0.5\n0,1\n1,1\n0,0\n2,7\n";
  changed.write(folder_);
  EXPECT_NE(load(spec)->digest, digest);
}

TEST_F(Load, GivesNativeSetsOfTheSameArraysOneDigestWhereverTheyCameFrom) {
  const api::Dataset text = ogb();
  const auto digest_of = [&](const std::string& folder, const std::string& origin) {
    auto writer = *data::NativeWriter::open(folder_.path(folder), "k");
    data::DatasetArrays arrays = *data::read_ogb(*text.path, {}, *writer, silent_);
    arrays.origin.path = origin;
    EXPECT_TRUE(writer->publish(arrays, true));
    api::Dataset native;
    native.path = folder_.path(folder);
    return load(native)->digest;
  };
  const std::string digest = digest_of("native", "/mnt/one");
  EXPECT_EQ(digest_of("copy", "/mnt/other"), digest);
  OgbFiles changed;
  changed.features = "1,0\n0.5,0.5\n0,1\n1,1\n0,0\n2,7\n";
  changed.write(folder_);
  EXPECT_NE(digest_of("changed", "/mnt/one"), digest);
}

class LoadNative : public Load {
 protected:
  void SetUp() override {
    const api::Dataset text = ogb();
    auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
    ASSERT_TRUE(writer->publish(*data::read_ogb(*text.path, {}, *writer, silent_), false));
    spec_.path = folder_.path("native");
    options_.check_mapped = [this](const std::string& version, const ContentCheck& check) {
      versions_.push_back(version);
      return answer_ ? answer_(check) : Status();
    };
  }
  Result<Dataset> load() { return load_dataset(spec_, options_, silent_); }

  api::Dataset spec_;
  LoadOptions options_;
  std::function<Status(const ContentCheck&)> answer_;  // accepts everything if it is empty
  std::vector<std::string> versions_;
};

TEST_F(LoadNative, LeavesTheContentsToItsCaller) {
  const std::string file = folder_.path("native/nodes.node.features.npy");
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(4096)
      << "\xff\xff\xff\xff";  // not a number
  const auto trusted = load();
  ASSERT_TRUE(trusted) << trusted.error().message;
  EXPECT_EQ(trusted->checked_version, versions_.at(0));
  answer_ = [this](const ContentCheck& check) { return check({}, silent_); };
  EXPECT_THAT(load().error().message, HasSubstr("features[0, 0] is not a finite number"));
  options_.check_mapped = nullptr;
  EXPECT_THAT(load().error().message, HasSubstr("features[0, 0] is not a finite number"));
}

TEST_F(LoadNative, ChecksLabelsAndSplitInTheFirstShare) {
  const std::string file = folder_.path("native/nodes.node.labels.npy");
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(4096) << "\x7f";
  int64_t share = 0;
  answer_ = [&](const ContentCheck& check) { return check({.index = share, .count = 2}, silent_); };
  EXPECT_THAT(load().error().message, HasSubstr("labels[0]: expected a class in [0, 3)"));
  share = 1;
  EXPECT_TRUE(load());
}

TEST_F(LoadNative, VouchesForNoFileThatChangedMeanwhile) {
  answer_ = [this](const ContentCheck&) {
    const std::string file = folder_.path("native/nodes.node.labels.npy");
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::min());
    return Status();
  };
  const auto dataset = load();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->checked_version, "");
}

TEST_F(LoadNative, ReadsFilesThatMemoryHasNoRoomForPageByPageOnceTheyAreChecked) {
  std::string while_checked;
  answer_ = [&](const ContentCheck&) {
    while_checked = mapping_flags_of_file("/nodes.node.features.npy");
    return Status();
  };
  options_.memory_bytes = 1000;
  const auto large = load();
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_THAT(while_checked, HasSubstr(" sr ")) << "in order";
  EXPECT_THAT(mapping_flags(large->features().row(0)), HasSubstr(" rr ")) << "in any";
}

TEST_F(LoadNative, KeepsFilesThatMemoryHasRoomForOnLargePages) {
  const auto dataset = load();
  ASSERT_TRUE(dataset) << dataset.error().message;
  const std::string flags = mapping_flags(dataset->features().row(0));
  EXPECT_THAT(flags, Not(HasSubstr(" rr ")));
  const bool has_large_pages = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  EXPECT_EQ(flags.find(" hg ") != std::string::npos, has_large_pages) << flags;
}

TEST_F(LoadNative, ChecksWhatTransformsMadeOfItItself) {
  spec_.add_self_loops = true;
  const auto dataset = load();
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(versions_.size(), 1U) << "the files";
  EXPECT_EQ(dataset->checked_version, "");
  // Numbers that a transform makes infinite.
  auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
  data::DatasetArrays arrays = *data::read_ogb(folder_.path("ring"), {}, *writer, silent_);
  data::Array huge = *writer->create("huge", data::DType::Float64, {6, 1});
  huge.mutable_view<double>()[3] = 1e300;
  arrays.node_tables[0].features = *writer->commit(std::move(huge));
  ASSERT_TRUE(writer->publish(arrays, true));
  EXPECT_TRUE(load());
  spec_.feature_transform = api::FeatureTransform::RowNormalize;
  EXPECT_THAT(load().error().message, HasSubstr("is not a finite number"));
}

TEST_F(Load, TensorsKeepTheirMapping) {
  const api::Dataset spec = ogb();
  {
    auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
    ASSERT_TRUE(writer->publish(*data::read_ogb(*spec.path, {}, *writer, silent_), false));
  }
  at::Tensor rows;
  {
    const auto dataset = load_native(folder_.path("native"));
    ASSERT_TRUE(dataset) << dataset.error().message;
    rows = dataset->features().rows();
  }
  std::filesystem::remove_all(folder_.path("native"));
  EXPECT_EQ(rows[5][1].item<float>(), 6.0F);
}

TEST_F(Load, MakesDegreeAndConstantFeatures) {
  api::Dataset spec = ogb();
  spec.to_undirected = true;
  spec.node_features = api::NodeFeatures::DegreeOneHot;
  const auto degrees = load(spec);
  ASSERT_TRUE(degrees) << degrees.error().message;
  EXPECT_EQ(degrees->features().width(), 4);  // degrees 2 and 3
  EXPECT_EQ(degrees->features().rows()[0][3].item<float>(), 1.0F);
  spec.node_features = api::NodeFeatures::Constant;
  EXPECT_TRUE(at::equal(load(spec)->features().rows(), at::ones({6, 1})));
}

TEST_F(Load, MakesSplits) {
  api::Dataset spec = ogb();
  spec.split.type = api::SplitType::Random;
  spec.split.train = api::Decimal{"0.5"};
  spec.split.validation = api::Decimal{"0.25"};
  spec.split.test = api::Decimal{"0.25"};
  const auto dataset = load(spec, 7);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->split.train.numel(), 3);
  EXPECT_EQ(dataset->split.validation.numel(), 1);
  EXPECT_EQ(dataset->split.test.numel(), 2);
  const at::Tensor all =
      at::cat({dataset->split.train, dataset->split.validation, dataset->split.test});
  EXPECT_TRUE(at::equal(std::get<0>(at::sort(all)), at::arange(6)));
  spec.split.seed = 7;
  EXPECT_TRUE(at::equal(load(spec, 99)->split.train, dataset->split.train));
  spec.split = {};
  spec.split.type = api::SplitType::KFold;
  spec.split.folds = 3;
  spec.split.fold = 2;
  const auto fold = load(spec);
  EXPECT_EQ(fold->split.test.numel(), 2);
  EXPECT_EQ(fold->split.train.numel(), 4);
  spec.split.validation = api::Decimal{"0.25"};
  EXPECT_EQ(load(spec)->split.validation.numel(), 1);
  EXPECT_EQ(load(spec)->split.train.numel(), 3);
  std::filesystem::remove_all(folder_.path("ring/split"));
  EXPECT_TRUE(load_dataset(spec, {}, silent_));  // a random split needs none on disk
}

TEST_F(Load, ReadsReddit) {
  data::testing::RedditFiles().write(folder_);
  api::Dataset spec;
  spec.format = api::DatasetFormat::Reddit;
  spec.path = folder_.path("reddit");
  const auto dataset = load(spec);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->graph().num_edges(), 16);
  EXPECT_EQ(dataset->split.test.numel(), 2);
  std::filesystem::remove(folder_.path("reddit/reddit_graph.npz"));
  EXPECT_EQ(load(spec).error().kind, ErrorKind::Data);
}

TEST_F(Load, NamesTheByteOrderMarkOfAText) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto expect_named = [&](api::DatasetFormat format,
                                const std::string& path,
                                const std::string& file,
                                const std::string& text) {
    folder_.write(file, mark + text);
    api::Dataset spec;
    spec.format = format;
    spec.path = folder_.path(path);
    const auto dataset = load(spec);
    ASSERT_FALSE(dataset) << file;
    EXPECT_EQ(dataset.error().kind, ErrorKind::Data);
    EXPECT_THAT(
        dataset.error().message,
        HasSubstr(
            folder_.path(file) +
            ": line 1: begins with a UTF-8 byte order mark; save the file as UTF-8 without one"
        )
    );
  };
  using enum api::DatasetFormat;
  expect_named(EdgeList, "plain", "plain/edges.csv", "0,1\n");
  expect_named(EdgeList, "shop", "shop/edges/user__buys__item.csv", "0,0\n");
  expect_named(GIN, "G", "G/G.txt", "1\n1 0\n0 0\n");
  expect_named(Taobao, "taobao", "taobao/UserBehavior.csv", "1,2,3,pv,1511600000\n");
  folder_.write("SET/SET_graph_indicator.txt", "1\n1\n");
  folder_.write("SET/SET_graph_labels.txt", "1\n");
  expect_named(TU, "SET", "SET/SET_A.txt", "1, 2\n");
  ogb();
  std::filesystem::remove(folder_.path("ring/raw/node-label.csv.gz"));
  expect_named(OGB, "ring", "ring/raw/node-label.csv", "0\n1\n2\n0\n1\n2\n");
}

TEST_F(Load, GeneratesSyntheticData) {
  api::Dataset spec;
  spec.format = api::DatasetFormat::Synthetic;
  spec.synthetic = api::Synthetic{
      .shape = api::SyntheticShape::Arxiv, .scale = {"0.01"}, .seed = 3, .flipped_labels = {"0.1"}
  };
  const auto dataset = load(spec);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->target().num_nodes, 1693);
  EXPECT_EQ(dataset->num_classes, 40);
}

TEST_F(Load, NamesTheFieldThatIsMissing) {
  api::Dataset spec;
  EXPECT_THAT(load(spec).error().message, HasSubstr("spec.dataset.path: expected"));
  EXPECT_EQ(load(spec).error().kind, ErrorKind::Configuration);
  spec.format = api::DatasetFormat::Synthetic;
  EXPECT_THAT(load(spec).error().message, HasSubstr("spec.dataset.synthetic: expected"));
  spec.format = api::DatasetFormat::Native;
  spec.path = folder_.path("nowhere");
  EXPECT_EQ(load(spec).error().kind, ErrorKind::Data);
}

// A two-type manifest: users buy items, items are alike.
TEST_F(Load, ReadsTwoNodeTypesAndTheirRelations) {
  auto writer = *data::NativeWriter::open(folder_.path("shop"), "k");
  const auto ids = [&](const std::string& name, std::vector<int64_t> values) {
    data::Array array =
        *writer->create(name, data::DType::Int64, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), array.mutable_view<int64_t>().begin());
    return *writer->commit(std::move(array));
  };
  data::DatasetArrays shop;
  shop.name = "shop";
  shop.node_tables.push_back(
      {.name = "user", .num_nodes = 3, .features = {}, .labels = ids("user.labels", {0, 1, 0})}
  );
  shop.node_tables.push_back({.name = "item", .num_nodes = 2, .features = {}, .labels = {}});
  shop.edge_tables.push_back(
      {.source = "item",
       .relation = "bought_by",
       .destination = "user",
       .indptr = ids("a.indptr", {0, 1, 1, 3}),
       .indices = ids("a.indices", {1, 0, 1}),
       .edge_ids = ids("a.ids", {2, 0, 1}),
       .features = {}}
  );
  shop.edge_tables.push_back(
      {.source = "item",
       .relation = "like",
       .destination = "item",
       .indptr = ids("b.indptr", {0, 1, 2}),
       .indices = ids("b.indices", {1, 0}),
       .edge_ids = {},
       .features = {}}
  );
  shop.target_node_type = "user";
  shop.num_classes = 2;
  shop.train = ids("train", {0, 2});
  shop.validation = ids("validation", {1});
  shop.test = ids("test", {});
  ASSERT_TRUE(writer->publish(shop, false));
  const auto dataset = load_native(folder_.path("shop"));
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_FALSE(dataset->is_homogeneous());
  EXPECT_EQ(dataset->target().name, "user");
  ASSERT_EQ(dataset->edge_types.size(), 2U);
  EXPECT_EQ(dataset->edge_types[0].source_index, 1);
  EXPECT_EQ(dataset->edge_types[0].destination_index, 0);
  EXPECT_EQ(dataset->edge_types[0].graph.num_sources(), 2);
  EXPECT_EQ(dataset->edge_types[0].graph.num_destinations(), 3);
  EXPECT_EQ(dataset->edge_types[0].graph.edge_ids()[0].item<int64_t>(), 2);
  EXPECT_EQ(dataset->edge_types[1].graph.num_edges(), 2);
  // Transforms of one graph make no sense here and say so.
  api::Dataset spec;
  spec.format = api::DatasetFormat::Native;
  spec.path = folder_.path("shop");
  spec.add_self_loops = true;
  EXPECT_THAT(load(spec).error().message, HasSubstr("addSelfLoops: needs"));
}

// Users buy items: links, whose reverse is made.
class LoadLinks : public Load {
 protected:
  void SetUp() override {
    folder_.write("shop/nodes/user/num_nodes.csv", "3\n");
    folder_.write("shop/nodes/item/features.csv", "1\n2\n");
    folder_.write("shop/nodes/item/features.image.csv", "1,2\n3,4\n");
    folder_.write("shop/edges/user__buys__item.csv", "2,0\n0,1\n1,0\n2,1\n");
  }
  Result<Dataset> load_links(api::DatasetFormat format, const std::string& folder) {
    api::Dataset spec;
    spec.format = format;
    spec.path = folder_.path(folder);
    return load_dataset(spec, {.link = link_, .add_reverse = true}, silent_);
  }
  // Publishes the shop after these transforms, in so many parts; 0: without any.
  void publish(const data::TransformOptions& transforms, int64_t parts = 0) {
    auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
    data::ReadOptions reading;
    reading.split_required = false;
    reading.link = transforms.link;
    auto arrays = *data::read_edge_list(folder_.path("shop"), reading, *writer, silent_);
    arrays = *data::transform(arrays, transforms, *writer, silent_);
    if (parts > 0) data::testing::deal_to_parts(arrays, parts, *writer);
    ASSERT_TRUE(writer->publish(arrays, true));
  }
  static void expect_shop(const Result<Dataset>& dataset) {
    ASSERT_TRUE(dataset) << dataset.error().message;
    ASSERT_EQ(dataset->edge_types.size(), 2U);
    EXPECT_EQ(dataset->edge_types[1].relation, "rev_buys");
    ASSERT_TRUE(dataset->links);
    EXPECT_EQ(dataset->links->edge_type, 0);
    EXPECT_EQ(dataset->links->reverse_edge_type, 1);
    EXPECT_EQ(dataset->links->pairs.sizes(), (at::IntArrayRef{4, 2}));
    const NodeTypeData& items = dataset->node_types[0];
    EXPECT_EQ(items.features->width(), 1);
    ASSERT_EQ(items.more_features.size(), 1U);
    EXPECT_EQ(items.more_features[0].name, "image");
    EXPECT_EQ(items.more_features[0].rows.width(), 2);
  }
  data::EdgeTypeName link_{.source = "user", .relation = "buys", .destination = "item"};
};

TEST_F(LoadLinks, FromText) {
  const auto dataset = load_links(api::DatasetFormat::EdgeList, "shop");
  expect_shop(dataset);
  EXPECT_TRUE(
      at::equal(dataset->links->pairs, at::tensor({2, 0, 0, 1, 1, 0, 2, 1}, at::kLong).view({4, 2}))
  );
}

TEST_F(LoadLinks, FromANativeSetThatHasThemWithoutACopy) {
  publish({.link = link_, .add_reverse = true});
  const auto dataset = load_links(api::DatasetFormat::Native, "native");
  expect_shop(dataset);
  EXPECT_NE(dataset->checked_version, "");
  for (const at::Tensor& tensor :
       {dataset->links->pairs,
        dataset->edge_types[0].graph.indices(),
        dataset->edge_types[1].graph.edge_ids(),
        dataset->node_types[0].more_features[0].rows.rows()}) {
    EXPECT_THAT(mapping_flags(tensor.const_data_ptr()), HasSubstr(" ms ")) << "of a file";
  }
}

TEST_F(LoadLinks, FromANativeSetWithoutThem) {
  publish({});
  int64_t checks = 0;
  api::Dataset spec;
  spec.format = api::DatasetFormat::Native;
  spec.path = folder_.path("native");
  const auto check = [&](const std::string&, const ContentCheck& whole) {
    ++checks;
    return whole({}, silent_);
  };
  const auto dataset =
      load_dataset(spec, {.link = link_, .add_reverse = true, .check_mapped = check}, silent_);
  expect_shop(dataset);
  EXPECT_EQ(checks, 1);
  EXPECT_EQ(dataset->checked_version, "");
  EXPECT_TRUE(check_dataset(*dataset, "shop"));
  EXPECT_THAT(
      load_dataset(spec, {.link = data::EdgeTypeName{"user", "to", "item"}}, silent_)
          .error()
          .message,
      HasSubstr(
          "spec.task.link: expected an edge type of " + folder_.path("native") +
          ", (user, buys, item), found (user, to, item)"
      )
  );
}

TEST_F(LoadLinks, FromAPartitionedSetThatHasTheirReverseOrNamesTheFieldThatAsksForIt) {
  publish({.link = link_, .add_reverse = true}, 2);
  expect_shop(load_links(api::DatasetFormat::Native, "native"));
  publish({.link = link_}, 2);
  const auto dataset = load_links(api::DatasetFormat::Native, "native");
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      dataset.error().message,
      HasSubstr(
          "spec.dataset.addReverse: expected the reverse edge types in " + folder_.path("native")
      )
  );
  EXPECT_THAT(dataset.error().message, HasSubstr("import with --add-reverse, then partition"));
}

// Messages would flow along held-out links, backwards.
TEST_F(LoadLinks, RefusesAReverseThatTheManifestDoesNotName) {
  auto writer = *data::NativeWriter::open(folder_.path("native"), "k");
  data::ReadOptions reading;
  reading.split_required = false;
  auto arrays = *data::read_edge_list(folder_.path("shop"), reading, *writer, silent_);
  arrays = *data::transform(arrays, {.link = link_, .add_reverse = true}, *writer, silent_);
  ASSERT_EQ(arrays.links->reverse_edge_table, 1U);
  arrays.links->reverse_edge_table.reset();
  ASSERT_TRUE(writer->publish(arrays, false));
  const auto dataset = load_links(api::DatasetFormat::Native, "native");
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::Data);
  EXPECT_THAT(
      dataset.error().message,
      HasSubstr(
          folder_.path("native") + ": edge type (item, rev_buys, user): has the edges of the "
                                   "links (user, buys, item) from destination to source"
      )
  );
}

TEST_F(LoadLinks, DamagedFilesAreFoundBeforeTheyAreTransformed) {
  publish({});
  const std::string file = "native/edges.user.buys.item.indptr.npy";
  std::string bytes = gnn::testing::read_file(folder_.path(file));
  bytes[4096 + 8 + 6] = 0x7F;  // the end of the first list
  folder_.write(file, bytes);
  const auto dataset = load_links(api::DatasetFormat::Native, "native");
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message, HasSubstr("indptr[2]: expected at least"));
}

TEST_F(LoadLinks, DistinguishesDataByTheNumbersOfTheirNodes) {
  const std::string digest = load_links(api::DatasetFormat::EdgeList, "shop")->digest;
  publish({});
  const std::string native = load_links(api::DatasetFormat::Native, "native")->digest;
  folder_.write("shop/nodes/user/num_nodes.csv", "4\n");
  EXPECT_NE(load_links(api::DatasetFormat::EdgeList, "shop")->digest, digest);
  publish({});
  EXPECT_NE(load_links(api::DatasetFormat::Native, "native")->digest, native);
}

// Data sets that are not part of the repository. Without them the tests are skipped, but not in
// CI.
class TestData : public Load {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("GNN_TEST_DATA");
    const char* ci = std::getenv("CI");
    if (folder != nullptr && *folder != '\0') {
      data_ = folder;
    } else if (ci != nullptr && std::string_view(ci) == "true") {
      FAIL() << "GNN_TEST_DATA must name the folder of the test data in CI";
    } else {
      GTEST_SKIP() << "GNN_TEST_DATA is not set: no cora and IMDBBINARY";
    }
  }
  std::string data_;
};

TEST_F(TestData, CoraIsThePlanetoidSplitOfCora) {
  api::Dataset spec;
  spec.format = api::DatasetFormat::OGB;
  spec.path = data_ + "/cora";
  spec.to_undirected = true;
  spec.feature_transform = api::FeatureTransform::RowNormalize;
  const auto cora = load(spec);
  ASSERT_TRUE(cora) << cora.error().message;
  EXPECT_EQ(cora->target().num_nodes, 2708);
  EXPECT_EQ(cora->graph().num_edges(), 10556);
  EXPECT_EQ(cora->features().width(), 1433);
  EXPECT_EQ(cora->num_classes, 7);
  EXPECT_EQ(cora->split.train.numel(), 140);
  EXPECT_EQ(cora->split.validation.numel(), 500);
  EXPECT_EQ(cora->split.test.numel(), 1000);
  const at::Tensor sums = cora->features().rows().sum(1);
  EXPECT_TRUE(at::allclose(sums, at::ones({2708})));
}

TEST_F(TestData, ImdbBinaryHasAThousandGraphs) {
  api::Dataset spec;
  spec.format = api::DatasetFormat::GIN;
  spec.path = data_ + "/IMDBBINARY";
  spec.split.type = api::SplitType::Random;
  spec.split.train = api::Decimal{"0.8"};
  spec.split.validation = api::Decimal{"0.1"};
  spec.split.test = api::Decimal{"0.1"};
  const auto imdb = load(spec);
  ASSERT_TRUE(imdb) << imdb.error().message;
  ASSERT_TRUE(imdb->graphs.has_value());
  EXPECT_EQ(imdb->graphs->num_graphs(), 1000);
  EXPECT_EQ(imdb->num_classes, 2);
  EXPECT_EQ(imdb->target().num_nodes, 19773);
  EXPECT_EQ(imdb->graph().num_edges(), 193062);
  EXPECT_EQ(imdb->graphs->labels.sum().item<int64_t>(), 500);
  // Without node labels every node has the constant 1.
  EXPECT_TRUE(at::equal(imdb->features().rows(), at::ones({19773, 1})));
  EXPECT_EQ(imdb->split.train.numel(), 800);
  spec.node_features = api::NodeFeatures::DegreeOneHot;
  EXPECT_EQ(load(spec)->features().width(), 136);
}

}  // namespace
}  // namespace gnn::graph
