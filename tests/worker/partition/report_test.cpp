#include "worker/partition/report.h"

#include "tests/worker/partition/sets.h"
#include "worker/partition/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gnn::partition {
namespace {

using testing::array_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ten nodes in two parts of six and four; node v reads v + 1, and node 9 reads 0: two edges are cut.
data::DatasetArrays chain() {
  data::DatasetArrays set;
  set.target_node_type = "node";
  set.node_tables.resize(1);
  set.node_tables[0].name = "node";
  set.node_tables[0].num_nodes = 10;
  set.train = array_of<int64_t>("train", {0, 1, 7});
  set.edge_tables.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .indptr = array_of<int64_t>("indptr", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
       .indices = array_of<int32_t>("indices", {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}),
       .edge_ids = {},
       .features = {}}
  );
  data::Partitions& parts = set.partitions.emplace();
  parts.book = {.parts = 2, .offsets = {{0, 6, 10}}, .method = "ldg", .draws = {.fanouts = {{1}}}};
  parts.hot = {
      {{.ids = array_of<int64_t>("h", {6}),
        .hotness = array_of<double>("g", {0.5}),
        .local_reads = 3,
        .remote_reads = 1},
       {.ids = array_of<int64_t>("h", {0}),
        .hotness = array_of<double>("g", {3.0}),
        .local_reads = 2,
        .remote_reads = 3}}
  };
  return set;
}

TEST(Report, CountsWhatPartsHaveAndRead) {
  const Report report = make_report(chain());
  EXPECT_THAT(report.parts[0].nodes, ElementsAre(6));
  EXPECT_EQ(report.parts[0].edges, 6);
  EXPECT_EQ(report.parts[0].local_edges, 5);
  EXPECT_EQ(report.parts[0].items, 2);
  EXPECT_DOUBLE_EQ(report.parts[0].local_share(), 0.75);
  EXPECT_DOUBLE_EQ(report.cut(), 0.2);
  EXPECT_DOUBLE_EQ(report.local_share(), 5.0 / 9);
  // A tenth of ten rows is one; two are not kept, unless one has all reads.
  EXPECT_DOUBLE_EQ(report.parts[0].hit_rates[2], 0.5);
  EXPECT_EQ(report.parts[0].hit_rates[3], -1);
  EXPECT_EQ(report.parts[1].hit_rates[3], 1);
  EXPECT_DOUBLE_EQ(report.hit_rate(2), 0.875);
  EXPECT_EQ(report.hit_rate(3), -1);
  EXPECT_DOUBLE_EQ(imbalance({6, 4}), 0.2);

  EXPECT_THAT(
      report_text(report), HasSubstr("  all           10             10           3   20.0 %")
  );
  EXPECT_THAT(report_text(report), HasSubstr("node 20.0 %, edges 20.0 %, seeds 33.3 %"));
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["parts"][0]["hitRates"][2]["hitRate"], 0.5);
  EXPECT_TRUE(json["hitRates"][3]["hitRate"].is_null());
  EXPECT_EQ(json["imbalance"]["nodes"]["node"], imbalance({6, 4}));

  const std::string picture = report_picture(report);
  EXPECT_THAT(
      picture, HasSubstr("2 parts by ldg: 20.0 % of edges cut, 55.6 % of a batch's rows local")
  );
  // The first part has 1.2 times the mean of nodes, and the highest bar is 1.333 times the mean.
  EXPECT_THAT(picture, HasSubstr("height=\"162.0\" fill=\"#4477aa\""));
}

}  // namespace
}  // namespace gnn::partition
