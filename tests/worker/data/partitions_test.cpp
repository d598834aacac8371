#include "worker/data/partitions.h"

#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/shop.h"
#include "worker/data/digest.h"
#include "worker/data/links.h"
#include "worker/data/manifest.h"
#include "worker/data/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

using gnn::testing::read_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ids_array;
using testing::shop;
using testing::TemporaryFolder;
using testing::to_vector;

Array doubles(const std::string& name, const std::vector<double>& values) {
  MemoryStorage memory;
  Array array = *memory.create(name, DType::Float64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.mutable_view<double>().begin());
  return array;
}

Array pairs(const std::string& name, const std::vector<int64_t>& ends) {
  MemoryStorage memory;
  Array array = *memory.create(name, DType::Int64, {static_cast<int64_t>(ends.size()) / 2, 2});
  std::copy(ends.begin(), ends.end(), array.mutable_view<int64_t>().begin());
  return array;
}

// The shop's users dealt 2 + 1 and its items 1 + 1.
DatasetArrays dealt_shop() {
  DatasetArrays dataset = shop();
  Partitions& dealt = dataset.partitions.emplace();
  dealt.book = {
      .parts = 2,
      .offsets = {{0, 2, 3}, {0, 1, 2}},
      .method = "hotness",
      .seed = 7,
      .draws =
          {.fanouts = {{3, -1}, {0, 2}},
           .batch_size = 2,
           .replace = true,
           .rule = HopRule::AllSeen,
           .negatives = 0.1}
  };
  dealt.original_ids = {ids_array("original.user", {2, 0, 1}), ids_array("original.item", {1, 0})};
  dealt.hot = {
      {{.ids = ids_array("hot.0.user", {2}),
        .hotness = doubles("hotness.0.user", {0.25}),
        .local_reads = 1.5,
        .remote_reads = 0.25},
       {.ids = ids_array("hot.1.user", {1, 0}),
        .hotness = doubles("hotness.1.user", {0.75, 0.1}),
        .local_reads = 1,
        .remote_reads = 0.85}},
      {{.ids = {}, .hotness = {}, .local_reads = 0.125, .remote_reads = 1.0 / 3.0},
       {.ids = {}, .hotness = {}, .local_reads = 2, .remote_reads = 0}}
  };
  dataset.links = LinkTable{.pairs = pairs("pairs", {2, 0, 0, 1, 1, 0, 2, 1})};
  dealt.link_split = StoredLinkSplit{
      .options =
          {.validation = 0.25,
           .test = 1.0 / 3,
           .disjoint_train = 0.5,
           .negative_ratio = 2,
           .seed = 9},
      .order = ids_array("order", {3, 1, 0, 2}),
      .validation_negatives = pairs("validation", {0, 0, 1, 1}),
      .test_negatives = pairs("test", {1, 1, 0, 0})
  };
  return dataset;
}

TEST(Partitions, KnowOwnersAndHitRatesAndAreReadBackFromTheOnDiskForm) {
  const PartitionBook book{.parts = 4, .offsets = {{0, 2, 2, 3, 5}}};
  std::vector<int64_t> owners;
  for (int64_t id = 0; id < 5; ++id) owners.push_back(book.part_of(0, id));
  EXPECT_THAT(owners, ElementsAre(0, 0, 2, 3, 3));
  EXPECT_EQ(book.range_of(0, 1).size(), 0);
  EXPECT_EQ(book.range_of(0, 3), (IdRange{.begin = 3, .end = 5}));

  const TemporaryFolder folder;
  const std::string output = folder.path("out");
  DatasetArrays dataset = dealt_shop();
  auto writer = *NativeWriter::open(output, "key");
  const auto store = [&](Array& array) {
    if (!array.defined()) return;
    Array copy = *writer->create(array.name(), array.dtype(), array.shape());
    std::copy_n(array.bytes(), array.num_bytes(), copy.mutable_bytes());
    array = *writer->commit(std::move(copy));
  };
  for (EdgeTable& table : dataset.edge_tables) {
    for (Array* array : {&table.indptr, &table.indices, &table.edge_ids}) store(*array);
  }
  for (Array& ids : dataset.partitions->original_ids) store(ids);
  for (auto& parts : dataset.partitions->hot) {
    for (HotRows& hot : parts) {
      store(hot.ids);
      store(hot.hotness);
    }
  }
  StoredLinkSplit& split = *dataset.partitions->link_split;
  for (Array* array :
       {&dataset.links->pairs, &split.order, &split.validation_negatives, &split.test_negatives}) {
    store(*array);
  }
  ASSERT_TRUE(writer->publish(dataset, false));

  const auto opened = open_native(output);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->arrays.partitions);
  const Partitions& found = *opened->arrays.partitions;
  EXPECT_EQ(found.book, dataset.partitions->book);
  EXPECT_FALSE(found.only);
  EXPECT_THAT(to_vector<int64_t>(found.original_ids[0]), ElementsAre(2, 0, 1));
  EXPECT_THAT(to_vector<int64_t>(found.hot[0][1].ids), ElementsAre(1, 0));
  EXPECT_THAT(to_vector<double>(found.hot[0][1].hotness), ElementsAre(0.75, 0.1));
  EXPECT_EQ(found.hot[1][0].remote_reads, 1.0 / 3.0) << "to the last bit";
  EXPECT_FALSE(found.hot[1][0].ids.defined());
  EXPECT_EQ(found.hot[0][1].hit_rate(0), 0);
  EXPECT_DOUBLE_EQ(found.hot[0][1].hit_rate(1), 0.75 / 0.85);
  EXPECT_DOUBLE_EQ(found.hot[0][1].hit_rate(9), 1);
  EXPECT_EQ(found.hot[1][1].hit_rate(0), 1) << "nothing is missed where nothing is read";
  ASSERT_TRUE(found.link_split);
  EXPECT_EQ(found.link_split->options, split.options) << "to the last bit";
  EXPECT_THAT(to_vector<int64_t>(found.link_split->order), ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(to_vector<int64_t>(found.link_split->validation_negatives), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(to_vector<int64_t>(found.link_split->test_negatives), ElementsAre(1, 1, 0, 0));
  EXPECT_TRUE(check_partitions(opened->arrays, output));

  // A manifest with another book or split is refused when it is opened, with the file and the field.
  const std::string manifest = read_file(output + "/" + kManifestFile);
  const auto open_with = [&](const std::string& other, const std::string& what) {
    std::string changed = manifest.substr(0, manifest.rfind("digest: "));
    changed.replace(changed.find(what), what.size(), other);
    changed += "digest: " + digest_of(DigestKind::Xxh64, std::as_bytes(std::span(changed))) + "\n";
    folder.write("out/" + std::string(kManifestFile), changed);
    return open_native(output);
  };
  EXPECT_THAT(
      open_with("offsets: [0, 2, 2]", "offsets: [0, 2, 3]").error().message,
      HasSubstr(
          "out/manifest.yaml: partitions: node type user: expected 3 offsets ascending from 0 to 3"
      )
  );
  EXPECT_THAT(
      open_with("negativeRatio: 1", "negativeRatio: 2").error().message,
      HasSubstr("out/manifest.yaml: partitions: linkSplit: expected validation of shape [1, 2]")
  );
  EXPECT_THAT(
      open_with("disjointTrain: half", "disjointTrain: 0.5").error().message,
      HasSubstr("disjointTrain")
  );
  EXPECT_NE(digest_of(*open_with("seed: 8", "seed: 9")), digest_of(*opened)) << "other options";

  // A split is one of its own links alone.
  MemoryStorage memory;
  SilentProgressBar silent;
  const auto with_links_of = [&](const EdgeTypeName& link) {
    return set_links(dealt_shop(), link, memory, silent).value().partitions->link_split;
  };
  EXPECT_TRUE(with_links_of({.source = "user", .relation = "buys", .destination = "item"}));
  EXPECT_FALSE(with_links_of({.source = "item", .relation = "like", .destination = "item"}));
}

TEST(Partitions, NameTheFirstProblem) {
  const auto error_after = [](const std::function<void(DatasetArrays&)>& change) {
    DatasetArrays dataset = dealt_shop();
    change(dataset);
    Status status = check_partitions_form(dataset, "d");
    if (status) status = check_partitions(dataset, "d");
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(error_after([](DatasetArrays&) {}), "");
  const auto with = [&](const std::function<void(Partitions&)>& change) {
    return error_after([&](DatasetArrays& dataset) { change(*dataset.partitions); });
  };
  const auto hot = [](Partitions& p) -> HotRows& { return p.hot[0][1]; };
  EXPECT_EQ(
      with([](Partitions& p) { p.book.offsets[0] = {0, 3}; }),
      "d: partitions: node type user: expected 3 offsets ascending from 0 to 3"
  );
  EXPECT_THAT(with([](Partitions& p) { p.book.offsets[1] = {0, 3, 2}; }), HasSubstr("ascending"));
  for (const int64_t parts : {int64_t{0}, kMostParts + 1, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(
        with([=](Partitions& p) { p.book.parts = parts; }),
        "d: partitions: expected 1 to 65534 parts, found " + std::to_string(parts)
    );
  }
  for (const char* method : {"", "<b>", "\x1b[31m"}) {
    EXPECT_EQ(
        with([=](Partitions& p) { p.book.method = method; }),
        "d: partitions: expected a method of lower-case letters"
    );
  }
  for (const double negatives : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(
        with([=](Partitions& p) { p.book.draws.negatives = negatives; }),
        HasSubstr("negatives that are not negative")
    );
  }
  EXPECT_THAT(with([](Partitions& p) { p.book.draws.batch_size = 0; }), HasSubstr("batch size"));
  EXPECT_THAT(
      with([](Partitions& p) { p.book.draws.fanouts.pop_back(); }),
      HasSubstr("expected fan-outs of 2 edge types, found those of 1")
  );
  EXPECT_THAT(
      with([](Partitions& p) { p.book.draws.fanouts[1] = {1}; }), HasSubstr("equally many fan-outs")
  );
  EXPECT_THAT(
      with([](Partitions& p) {
        p.only = 2;
        p.whole_digest = "xxh64:0";
      }),
      HasSubstr("expected a part below 2 in 'only', found 2")
  );
  EXPECT_THAT(with([](Partitions& p) { p.only = 1; }), HasSubstr("'only' and 'whole' together"));
  EXPECT_THAT(
      with([](Partitions& p) {
        p.only = 1;
        p.whole_digest = "xxh64:0";
      }),
      HasSubstr("node type user: expected 1 elements of original.user, found [3]")
  );
  EXPECT_THAT(
      with([](Partitions& p) { p.original_ids[1] = ids_array("original.item", {1, 1}); }),
      HasSubstr("original.item[1]: expected ids in [0, 2), each once, found 1 again")
  );
  EXPECT_THAT(
      with([&](Partitions& p) { hot(p).ids = ids_array("hot.1.user", {1, 2}); }),
      HasSubstr("hot.1.user[1]: expected a node in [0, 3) of another part than 1, found 2")
  );
  EXPECT_THAT(
      with([&](Partitions& p) { hot(p).ids = ids_array("hot.1.user", {1, 3}); }),
      HasSubstr("found 3")
  );
  EXPECT_THAT(
      with([&](Partitions& p) { hot(p).ids = ids_array("hot.1.user", {1, 1}); }),
      HasSubstr("hot.1.user[1]: node 1 occurs twice")
  );
  EXPECT_THAT(
      with([&](Partitions& p) { hot(p).ids = ids_array("hot.1.user", {1}); }),
      HasSubstr("expected 1 elements of hotness.1.user, found [2]")
  );
  for (const std::vector<double>& wrong :
       {std::vector<double>{0.1, 0.2},
        std::vector<double>{0.1, 0},
        std::vector<double>{std::numeric_limits<double>::quiet_NaN(), 0.1}}) {
    EXPECT_THAT(
        with([&](Partitions& p) { hot(p).hotness = doubles("hotness.1.user", wrong); }),
        HasSubstr("expected descending numbers above 0")
    );
  }
  EXPECT_THAT(with([&](Partitions& p) { hot(p).remote_reads = -1; }), HasSubstr("not negative"));
  EXPECT_THAT(
      with([&](Partitions& p) { hot(p).remote_reads = 0.8; }),
      HasSubstr("hotness.1.user: expected a sum of at most 0.8")
  );
  const auto split = [&](const std::function<void(StoredLinkSplit&)>& change) {
    return with([&](Partitions& p) { change(*p.link_split); });
  };
  EXPECT_THAT(
      error_after([](DatasetArrays& dataset) { dataset.links.reset(); }),
      HasSubstr("linkSplit: expected a data set with links")
  );
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(
        split([=](StoredLinkSplit& s) { s.options.validation = share; }),
        HasSubstr("expected shares from 0 to 1")
    );
  }
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.options.negative_ratio = 1e300; }),
      HasSubstr("expected a negativeRatio from 0 to 1000, found 1e+300")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.options.test = 0.75; }), HasSubstr("no link to train on")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.options.negative_ratio = 1; }),
      HasSubstr("expected validation of shape [1, 2], found [2, 2]")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.order = ids_array("order", {0, 1, 2}); }),
      HasSubstr("expected order of shape [4], found [3]")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.order = ids_array("order", {0, 1, 1, 2}); }),
      HasSubstr("order[2]: expected links in [0, 4), each once, found 1 again")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.order = ids_array("order", {0, 1, 4, 2}); }),
      HasSubstr("found 4")
  );
  EXPECT_THAT(
      split([](StoredLinkSplit& s) { s.test_negatives = pairs("test", {1, 1, 0, 2}); }),
      HasSubstr("test[1]: expected a node in [0, 2), found 2")
  );
}

}  // namespace
}  // namespace gnn::data
