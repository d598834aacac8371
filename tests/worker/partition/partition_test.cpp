#include "worker/partition/partition.h"

#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/data/storage_fake.h"
#include "tests/worker/partition/same_graph.h"
#include "tests/worker/partition/sets.h"
#include "worker/data/generate.h"
#include "worker/data/items.h"
#include "worker/data/native.h"
#include "worker/partition/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::partition {
namespace {

using data::testing::StorageFake;
using testing::Array;
using testing::community_set;
using testing::DType;
using testing::expect_same_graph;
using ::testing::HasSubstr;
using testing::link_set;
using ::testing::Not;
using testing::SetOptions;
using testing::undirected_link_set;

constexpr std::array kMethods{Method::Random, Method::Hotness, Method::Ldg, Method::Metis};

PartitionOptions options_of(Method method, int64_t parts, uint64_t seed = 1) {
  return {
      .parts = parts,
      .method = method,
      .fanout = {4, 3},
      .batch_size = 8,
      .hot_rows = 0.2,
      .seed = static_cast<int64_t>(seed)
  };
}

Result<data::DatasetArrays> run(
    const data::DatasetArrays& set, const PartitionOptions& options, data::ArrayStorage& storage
) {
  SilentProgressBar silent;
  ThreadPool others(1);
  return partition(set, options, storage, others, silent);
}
Result<data::DatasetArrays> run(const data::DatasetArrays& set, const PartitionOptions& options) {
  data::MemoryStorage memory;
  return run(set, options, memory);
}

// Nodes of each part by hotness, ties by their ids before; hot rows as the nodes of other parts that
// are hottest, ties by their new ids.
void expect_order(const data::DatasetArrays& set, const data::DatasetArrays& made) {
  ASSERT_TRUE(data::check_partitions_form(made, "made")) << "form";
  const Status checked = data::check_partitions(made, "made");
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_TRUE(data::check_items(made, "made"));
  const data::Partitions& partitions = *made.partitions;
  const Seeds seeds = seeds_of(set);
  const auto originals = testing::original_ids(made);
  Assignment owners;
  for (size_t table = 0; table < originals.size(); ++table) {
    owners.emplace_back(originals[table].size());
    for (size_t id = 0; id < originals[table].size(); ++id) {
      owners.back()[static_cast<size_t>(originals[table][id])] =
          static_cast<uint16_t>(partitions.book.part_of(table, static_cast<int64_t>(id)));
    }
  }
  ThreadPool none(0);
  for (int64_t part = 0; part < partitions.book.parts; ++part) {
    const auto found = hotness(
        hotness_input(set, partitions.book.draws),
        seed_probabilities(set, partitions.book.draws, seeds, owners, part),
        none
    );
    for (size_t table = 0; table < found.size(); ++table) {
      const data::IdRange own = partitions.book.range_of(table, part);
      // By new id: the hottest first, then the lowest id before.
      std::vector<std::pair<double, int64_t>> order;
      std::vector<double> remote;
      for (int64_t id = 0; id < static_cast<int64_t>(found[table].size()); ++id) {
        const int64_t original = originals[table][static_cast<size_t>(id)];
        order.emplace_back(-found[table][static_cast<size_t>(original)], original);
        if (!own.contains(id)) remote.push_back(-order.back().first);
      }
      ASSERT_TRUE(std::is_sorted(order.begin() + own.begin, order.begin() + own.end));
      const data::HotRows& hot = partitions.hot[table][static_cast<size_t>(part)];
      std::sort(remote.begin(), remote.end(), std::greater<>());
      const auto values = hot.hotness.view<double>();
      const auto ids = hot.ids.view<int64_t>();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], remote[i]);
        ASSERT_EQ(-order[static_cast<size_t>(ids[i])].first, values[i]);
        ASSERT_TRUE(i == 0 || values[i] < values[i - 1] || ids[i] > ids[i - 1]);
      }
      EXPECT_NEAR(hot.remote_reads, std::accumulate(remote.begin(), remote.end(), 0.0), 1e-9);
    }
  }
}

void expect_balance(const data::DatasetArrays& made, double most) {
  const Report report = make_report(made);
  std::vector<int64_t> items;
  for (size_t table = 0; table < made.node_tables.size(); ++table) {
    std::vector<int64_t> nodes;
    for (const PartReport& part : report.parts) nodes.push_back(part.nodes[table]);
    EXPECT_LE(
        *std::max_element(nodes.begin(), nodes.end()),
        most * static_cast<double>(made.node_tables[table].num_nodes) /
                static_cast<double>(report.parts.size()) +
            1
    );
  }
  for (const PartReport& part : report.parts) items.push_back(part.items);
  EXPECT_LE(imbalance(items), most - 1 + 0.15) << report_text(report);
}

TEST(Partition, GivesTheSameGraphWithEachNodeInOnePartAndLinksWithTheirIds) {
  for (const Method method : kMethods) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      for (const bool undirected : {false, true}) {
        const data::DatasetArrays set = community_set(
            {.nodes = 200 + 37 * static_cast<int64_t>(seed), .seed = seed, .undirected = undirected}
        );
        const auto made = run(set, options_of(method, 2 + static_cast<int64_t>(seed), seed));
        ASSERT_TRUE(made) << made.error().message;
        SCOPED_TRACE(std::string(method_name(method)) + " " + std::to_string(seed));
        expect_same_graph(set, *made);
        expect_order(set, *made);
        expect_balance(*made, method == Method::Metis ? 1.25 : 1.01);
      }
    }
    SCOPED_TRACE(method_name(method));
    for (const bool link_ids : {false, true}) {
      const data::DatasetArrays set = link_set({.nodes = 240, .degree = 6, .link_ids = link_ids});
      PartitionOptions options = options_of(method, 3);
      options.fanout_by_edge_type = {
          {.edge_type = {.source = "item", .relation = "like", .destination = "item"},
           .fanout = {2, 2}}
      };
      const auto made = run(set, options);
      ASSERT_TRUE(made) << made.error().message;
      expect_same_graph(set, *made);
      expect_order(set, *made);
      expect_balance(*made, method == Method::Metis ? 1.25 : 1.01);
      EXPECT_EQ(made->partitions->book.draws.fanouts[1], (std::vector<int64_t>{2, 2}));
      EXPECT_EQ(made->partitions->book.draws.negatives, 1);
    }
    const data::DatasetArrays undirected = undirected_link_set({.nodes = 150});
    const auto made = run(undirected, options_of(method, 3));
    ASSERT_TRUE(made) << made.error().message;
    expect_same_graph(undirected, *made);
    expect_order(undirected, *made);
  }
}

// Ldg gives a node without lists to the part that more than half of its readers are in, unless that is
// full.
void expect_owners_of_readers(const data::DatasetArrays& set) {
  const auto made = run(set, options_of(Method::Ldg, 4));
  ASSERT_TRUE(made) << made.error().message;
  const data::PartitionBook& book = made->partitions->book;
  std::vector<std::array<int64_t, 4>> readers(static_cast<size_t>(made->node_tables[0].num_nodes));
  const data::EdgeTable& lists = made->edge_tables[0];
  data::CscEdges(lists.indptr, lists.indices)
      .for_each_chunk([&](std::span<const int64_t> read, std::span<const int64_t> by) {
        for (size_t i = 0; i < read.size(); ++i)
          ++readers[static_cast<size_t>(read[i])][static_cast<size_t>(book.part_of(1, by[i]))];
      });
  int64_t decided = 0;
  int64_t followed = 0;
  for (size_t node = 0; node < readers.size(); ++node) {
    const auto most = std::max_element(readers[node].begin(), readers[node].end());
    if (2 * *most <= std::accumulate(readers[node].begin(), readers[node].end(), int64_t{0}))
      continue;
    ++decided;
    if (book.part_of(0, static_cast<int64_t>(node)) == most - readers[node].begin()) ++followed;
  }
  EXPECT_GT(decided, static_cast<int64_t>(readers.size()) / 2);
  EXPECT_GT(followed, decided * 9 / 10);
}

TEST(Partition, CutsFewerEdgesThanRandomParts) {
  const data::DatasetArrays set =
      community_set({.nodes = 1200, .communities = 12, .undirected = true});
  std::map<Method, Report> reports;
  for (const Method method : kMethods) {
    const auto made = run(set, options_of(method, 4));
    ASSERT_TRUE(made) << made.error().message;
    reports[method] = make_report(*made);
  }
  EXPECT_NEAR(reports[Method::Random].cut(), 0.75, 0.02);
  EXPECT_LT(reports[Method::Metis].cut(), 0.3);
  EXPECT_LT(reports[Method::Ldg].cut(), 0.5);
  EXPECT_GT(reports[Method::Hotness].local_share(), reports[Method::Random].local_share() + 0.02);
  // Hot nodes, which have long lists, go to all parts alike.
  data::MemoryStorage memory;
  SilentProgressBar silent;
  const auto skewed =
      data::generate({.shape = data::Shape::Products, .scale = 0.002}, memory, silent);
  ASSERT_TRUE(skewed);
  const auto dealt = run(*skewed, options_of(Method::Hotness, 4));
  ASSERT_TRUE(dealt) << dealt.error().message;
  std::vector<int64_t> edges;
  for (const PartReport& part : make_report(*dealt).parts) edges.push_back(part.edges);
  EXPECT_LT(imbalance(edges), 0.1);

  // Users that are read, but read nobody: dealt by their readers.
  const auto items_that_read_users = [](int64_t communities, double within) {
    data::DatasetArrays links =
        link_set({.nodes = 400, .communities = communities, .within = within});
    links.links.reset();
    links.edge_tables.resize(1);
    links.target_node_type = "item";
    return links;
  };
  const data::DatasetArrays users = items_that_read_users(4, 1);
  const auto made = run(users, options_of(Method::Ldg, 4));
  ASSERT_TRUE(made) << made.error().message;
  expect_same_graph(users, *made);
  EXPECT_LT(make_report(*made).cut(), 0.2) << "random parts cut 0.75";
  expect_owners_of_readers(items_that_read_users(7, 0.8));  // not dealt rightly in turn
  // Their readers' lists hold them together by METIS, too, which wants to see edges from either end.
  const auto by_metis = run(users, options_of(Method::Metis, 4));
  ASSERT_TRUE(by_metis) << by_metis.error().message;
  EXPECT_LT(make_report(*by_metis).cut(), 0.02);
  // Edges of one direction hold nodes together, too.
  const auto directed =
      run(community_set({.nodes = 1200, .communities = 12}), options_of(Method::Metis, 4));
  ASSERT_TRUE(directed) << directed.error().message;
  EXPECT_LT(make_report(*directed).cut(), 0.15);
}

// Where a step may take so many bytes.
std::unique_ptr<data::NativeWriter> small_memory(
    const gnn::testing::TemporaryFolder& folder, int64_t bytes
) {
  return data::NativeWriter::open(
             folder.path("of-" + std::to_string(bytes)), "key", {.step_bytes = bytes}
  )
      .value();
}

std::vector<const data::Array*> arrays_of(const data::DatasetArrays& set) {
  std::vector<const data::Array*> arrays{&set.train, &set.validation, &set.test};
  for (const data::NodeTable& table : set.node_tables) {
    arrays.insert(arrays.end(), {&table.features, &table.labels});
    for (const data::NamedFeatures& more : table.more_features) arrays.push_back(&more.rows);
  }
  for (const data::EdgeTable& table : set.edge_tables) {
    arrays.insert(arrays.end(), {&table.indptr, &table.indices, &table.edge_ids, &table.features});
  }
  for (const auto& parts : set.partitions->hot) {
    for (const data::HotRows& hot : parts) arrays.insert(arrays.end(), {&hot.ids, &hot.hotness});
  }
  return arrays;
}

TEST(Partition, GivesTheSameBytesInManyPassesAsInOne) {
  const data::DatasetArrays set = community_set({.nodes = 2000, .degree = 20});
  const auto once = run(set, options_of(Method::Hotness, 4));
  ASSERT_TRUE(once);
  const gnn::testing::TemporaryFolder folder;
  // 480,000 bytes of edges with their ids.
  const auto small = small_memory(folder, 160'000);
  const auto often = run(set, options_of(Method::Hotness, 4), *small);
  ASSERT_TRUE(often) << often.error().message;
  const auto wanted = arrays_of(*once);
  const auto found = arrays_of(*often);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(wanted[i]->num_bytes(), found[i]->num_bytes());
    if (wanted[i]->num_bytes() == 0) continue;
    EXPECT_EQ(
        std::memcmp(
            wanted[i]->bytes(), found[i]->bytes(), static_cast<size_t>(wanted[i]->num_bytes())
        ),
        0
    ) << wanted[i]->name();
  }
  const auto too_small = small_memory(folder, 100'000);
  const auto refused = run(set, options_of(Method::Hotness, 4), *too_small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("--memory: partitioning 2000 nodes takes"));
}

// Commits so many arrays before the disk is full.
class FillingDisk : public StorageFake {
 public:
  using StorageFake::commit;
  FillingDisk(data::ArrayStorage& disk, int room) : disk_(disk), room_(room) {}
  Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override {
    if (room_-- == 0) return fail(ErrorKind::Io, "no space left on device");
    return disk_.create(std::move(name), dtype, std::move(shape));
  }
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
    return disk_.scratch(dtype, std::move(shape));
  }
  Result<Array> commit(Array array, int64_t length) override {
    return disk_.commit(std::move(array), length);
  }
  Result<Array> find(const std::string& name) override { return disk_.find(name); }

 private:
  data::ArrayStorage& disk_;
  int room_;
};

// The manifest of a set that is published after `failures` runs, each of which fills the disk a few
// arrays further on.
std::string manifest_after(
    const data::DatasetArrays& set, const std::string& folder, int failures
) {
  for (int failure = 0; failure < failures; ++failure) {
    const auto writer = *data::NativeWriter::open(folder, "key");
    FillingDisk disk(*writer, 4);
    const auto made = run(set, options_of(Method::Ldg, 2), disk);
    EXPECT_FALSE(made);
    EXPECT_FALSE(data::open_native(folder)) << "nothing half done is taken for whole";
  }
  const auto writer = *data::NativeWriter::open(folder, "key");
  EXPECT_GE(writer->num_resumed(), 2 * failures);
  const auto made = run(set, options_of(Method::Ldg, 2), *writer);
  EXPECT_TRUE(made);
  EXPECT_TRUE(writer->publish(*made, false));
  return gnn::testing::read_file(folder + "/" + data::kManifestFile);
}

TEST(Partition, ResumesWithTheSameBytesAfterAFullDisk) {
  const data::DatasetArrays set = community_set({});
  const gnn::testing::TemporaryFolder folder;
  const std::string wanted = manifest_after(set, folder.path("whole"), 0);
  EXPECT_EQ(manifest_after(set, folder.path("resumed"), 4), wanted);
  EXPECT_THAT(wanted, Not(HasSubstr(data::kWorkPrefix)));
  EXPECT_FALSE(std::filesystem::exists(folder.path("resumed/work.reads.npy")));
  const auto opened = data::open_native(folder.path("resumed"));
  ASSERT_TRUE(opened) << opened.error().message;
  expect_same_graph(set, opened->arrays);
}

TEST(Partition, NamesTheOptionThatIsWrong) {
  const data::DatasetArrays set = community_set({});
  const auto error_with = [&](const std::function<void(PartitionOptions&)>& change) {
    PartitionOptions options = options_of(Method::Random, 2);
    change(options);
    const auto made = run(set, options);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(
      error_with([](PartitionOptions& o) { o.parts = 61; }),
      HasSubstr("--parts: 61 are more than the 60 nodes of type node that batches start from")
  );
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.parts = 0; }), HasSubstr("--parts: expected"));
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.fanout = {}; }), HasSubstr("--fanout"));
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.fanout = {-2}; }), HasSubstr("--fanout"));
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.batch_size = 0; }), HasSubstr("--batch-size"));
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.hot_rows = 1.5; }), HasSubstr("--hot-rows"));
  EXPECT_THAT(
      error_with([](PartitionOptions& o) {
        o.fanout_by_edge_type = {{.edge_type = {"a", "b", "c"}, .fanout = {1, 1}}};
      }),
      HasSubstr("no edge type (a, b, c)")
  );
  EXPECT_THAT(
      error_with([](PartitionOptions& o) {
        o.fanout_by_edge_type = {{.edge_type = {"node", "to", "node"}, .fanout = {1, -2}}};
      }),
      HasSubstr("--fanout-by-edge-type: expected numbers for (node, to, node), each -1 or more")
  );
  // A manifest with them would not be read back.
  EXPECT_THAT(error_with([](PartitionOptions& o) { o.seed = -1; }), HasSubstr("--seed"));
  EXPECT_THAT(
      error_with([](PartitionOptions& o) { o.negatives = std::numeric_limits<double>::infinity(); }
      ),
      HasSubstr("--negatives")
  );
  const auto made = run(set, options_of(Method::Random, 2));
  EXPECT_THAT(
      run(*made, options_of(Method::Random, 2)).error().message, HasSubstr("partitioned already")
  );
  const gnn::testing::TemporaryFolder folder;
  EXPECT_THAT(
      run(set, options_of(Method::Metis, 2), *small_memory(folder, 100'000)).error().message,
      HasSubstr("--method metis: METIS needs about")
  );
}

// Lets this process, and those that it starts, take no more than so much private memory beyond what it has.
class LittlePrivateMemory {
 public:
  explicit LittlePrivateMemory(rlim_t bytes) {
    getrlimit(RLIMIT_DATA, &before_);
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    for (int field = 0; field < 6; ++field) statm >> pages;  // the sixth: data and stack
    const rlimit little{
        .rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes,
        .rlim_max = before_.rlim_max
    };
    setrlimit(RLIMIT_DATA, &little);
  }
  ~LittlePrivateMemory() { setrlimit(RLIMIT_DATA, &before_); }
  LittlePrivateMemory(const LittlePrivateMemory&) = delete;
  LittlePrivateMemory& operator=(const LittlePrivateMemory&) = delete;

 private:
  rlimit before_{};
};

#ifndef GNN_SANITIZED  // a sanitizer takes memory of its own for each thread
TEST(Partition, EndsWithAnErrorWhereMetisGetsNoMemory) {
  const data::DatasetArrays set = community_set({.nodes = 20'000, .degree = 10});
  Result<data::DatasetArrays> made = fail(ErrorKind::Internal, "not run");
  {
    // Enough for our graph, not for METIS' copies of it.
    const LittlePrivateMemory little(8'000'000);
    made = run(set, options_of(Method::Metis, 4));
  }
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, ::testing::StartsWith("METIS: "));
  EXPECT_NE(made.error().message, "METIS: its process ran out of memory") << "not our own code";
}
#endif

}  // namespace
}  // namespace gnn::partition
