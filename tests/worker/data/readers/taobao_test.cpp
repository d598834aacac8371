#include "worker/data/readers/taobao.h"

#include "common/thread_pool.h"
#include "tests/support/mutations.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gnn::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::gzip;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::ReaderTest;
using testing::TemporaryFolder;
using testing::to_vector;

class Taobao : public ReaderTest {
 protected:
  Result<DatasetArrays> read(const std::string& text) {
    return read_taobao(folder_.write("taobao/UserBehavior.csv", text), pool_, memory_, silent_);
  }
  std::string error(const std::string& text) {
    const auto dataset = read(text);
    return dataset ? "" : dataset.error().message;
  }
  // Both ends of the week and one second beyond them; a row twice; one that differs in behavior alone,
  // one in category alone; ids that are not in order.
  const std::string rows_ =
      "900,30,7,pv,1511539200\n"
      "5,40,7,buy,1512316799\n"
      "900,20,8,cart,1511600000\n"
      "1,20,8,pv,1511539199\n"
      "900,30,7,pv,1511539200\n"
      "900,30,7,fav,1511539200\n"
      "2,50,8,pv,1512316800\n"
      "5,30,7,pv,1511700000\n"
      "5,30,9,pv,1511700000\n"
      "5,30,7,pv,-2134949234\n";
  ThreadPool pool_{1};
};

TEST_F(Taobao, KeepsTheWeekWithoutRepeatedRows) {
  const auto dataset = read(rows_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->node_tables.size(), 2U);
  EXPECT_EQ(dataset->node_tables[0].name, "user");
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 2);  // 5, 900
  EXPECT_EQ(dataset->node_tables[1].name, "item");
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 3);  // 20, 30, 40
  ASSERT_EQ(dataset->edge_tables.size(), 1U);
  const EdgeTable& edges = dataset->edge_tables[0];
  EXPECT_EQ(edges.source + " " + edges.relation + " " + edges.destination, "user to item");
  // Links: 0 900-30, 1 5-40, 2 900-20, 3 900-30, 4 5-30, 5 5-30
  EXPECT_THAT(to_vector<int64_t>(edges.indptr), ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(to_vector<int32_t>(edges.indices), ElementsAre(1, 0, 0, 1, 1, 0));
  EXPECT_THAT(to_vector<int64_t>(edges.edge_ids), ElementsAre(2, 4, 5, 0, 3, 1));
  ASSERT_TRUE(dataset->links);
  EXPECT_EQ(dataset->links->edge_table, 0U);
  EXPECT_FALSE(dataset->links->reverse_edge_table);
  EXPECT_THAT(
      to_vector<int64_t>(dataset->links->pairs), ElementsAre(1, 1, 0, 2, 1, 0, 1, 1, 0, 1, 0, 1)
  );
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("rowsOutsideOfTheWeek", "3")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("rowsRepeated", "1")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("categories", "3")));
}

TEST_F(Taobao, ReadsFolderAndGzipAndOtherLineEnds) {
  const auto plain = read(rows_);
  std::string windows = rows_;
  for (size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) {
    windows.replace(at, 1, "\r\n");
  }
  windows.resize(windows.size() - 2);  // no end of the last line
  const TemporaryFolder packed;
  packed.write("taobao/UserBehavior.csv.gz", gzip(windows));
  const auto other = read_taobao(packed.path("taobao"), pool_, memory_, silent_);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(
      to_vector<int32_t>(plain->edge_tables[0].indices),
      to_vector<int32_t>(other->edge_tables[0].indices)
  );
  EXPECT_EQ(
      to_vector<int64_t>(plain->edge_tables[0].edge_ids),
      to_vector<int64_t>(other->edge_tables[0].edge_ids)
  );
  const auto missing = read_taobao(folder_.path("nowhere"), pool_, memory_, silent_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::NotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("nowhere"));
  packed.write("empty/README", "");
  const auto empty = read_taobao(packed.path("empty"), pool_, memory_, silent_);
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("expected UserBehavior.csv.gz or UserBehavior.csv"));
}

// Several blocks of text: links keep the order of the file, whoever parses them.
TEST_F(Taobao, NumbersLinksAcrossBlocks) {
  constexpr int64_t kRows = 400'000;
  std::string text;
  for (int64_t row = 0; row < kRows; ++row) {
    text += std::to_string(row % 1000) + "," + std::to_string(1'000'000'000 + row) +
            ",1,pv,151153" + std::to_string(9200 + row % 100) + "\n";
  }
  ASSERT_GT(text.size(), size_t{1} << 23U);
  const auto dataset = read(text);
  ASSERT_TRUE(dataset) << dataset.error().message;
  // Each row has an item of its own, in the order of the rows.
  const auto users = dataset->edge_tables[0].indices.view<int32_t>();
  const auto links = dataset->edge_tables[0].edge_ids.view<int64_t>();
  ASSERT_EQ(links.size(), static_cast<size_t>(kRows));
  for (size_t row = 0; row < links.size(); ++row) {
    ASSERT_EQ(links[row], static_cast<int64_t>(row));
    ASSERT_EQ(users[row], static_cast<int32_t>(row % 1000));
  }
  text += "1,2,3,pv\n";
  EXPECT_THAT(error(text), HasSubstr("UserBehavior.csv: line 400001: expected 5 columns"));
}

TEST_F(Taobao, TakesIdsOf64Bits) {
  const auto dataset = read(
      "9223372036854775807,1,1,pv,1511600000\n0,9223372036854775806,1,pv,1511600000\n"
      "7,9223372036854775807,1,pv,1511600000\n"
  );
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(2, 0, 1));
}

TEST_F(Taobao, NamesFileLineAndColumnOfBadInput) {
  const std::string good = "1,2,3,pv,1511600000\n\n";
  EXPECT_THAT(
      error(good + "1,2,3,pv\n"),
      HasSubstr(
          "UserBehavior.csv: line 3: expected 5 columns, user,item,category,behavior,timestamp, "
          "found 4"
      )
  );
  EXPECT_THAT(error(good + "1,2,3,pv,1511600000,\n"), HasSubstr("line 3: expected 5 columns"));
  EXPECT_THAT(
      error("user,item,category,behavior,timestamp\n" + good),
      HasSubstr("line 1: user: expected an integer, found 'user'")
  );
  EXPECT_THAT(
      error(good + "1,2,3,pv,soon\n"),
      HasSubstr("line 3: timestamp: expected an integer, found 'soon'")
  );
  EXPECT_THAT(
      error(good + "1,2,3,pv,1511600000.5\n"),
      HasSubstr("timestamp: expected an integer, found '1511600000.5'")
  );
  EXPECT_THAT(
      error(good + "1,9223372036854775808,3,pv,1511600000\n"),
      HasSubstr("line 3: item: expected an integer of 64 bits, found '9223372036854775808'")
  );
  EXPECT_THAT(
      error(good + "-1,2,3,pv,1511600000\n"),
      HasSubstr("line 3: user: expected an id from 0 on, found '-1'")
  );
  EXPECT_THAT(
      error(good + "1,2,3,look,1511600000\n"),
      HasSubstr("line 3: behavior: expected pv, cart, buy or fav, found 'look'")
  );
  EXPECT_THAT(
      error("1,2,3,pv,1511539199\n"),
      HasSubstr(
          "UserBehavior.csv: expected rows with timestamps from 1511539200 to 1512316799, found "
          "none among 1 rows"
      )
  );
  EXPECT_THAT(error(""), HasSubstr("found none among 0 rows"));
  EXPECT_THAT(error(std::string(100'000, '1')), HasSubstr("line 1: longer than 65536 bytes"));
}

TEST_F(Taobao, SurvivesMutations) {
  gnn::testing::Mutations mutations(23);
  int read_well = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(400); ++round) {
    const auto dataset = read(mutations.of(rows_));
    if (!dataset) {
      EXPECT_EQ(dataset.error().kind, ErrorKind::Data) << dataset.error().message;
      continue;
    }
    ++read_well;
    EXPECT_LE(dataset->edge_tables[0].indices.num_elements(), 12);
  }
  EXPECT_GT(read_well, 0);
}

TEST_F(Taobao, SurvivesMutatedGzip) {
  const std::string whole = gzip(rows_);
  gnn::testing::Mutations mutations(24);
  for (int round = 0; round < gnn::testing::mutation_rounds(200); ++round) {
    const std::string file = folder_.write("packed/UserBehavior.csv.gz", mutations.of(whole));
    const auto dataset = read_taobao(file, pool_, memory_, silent_);
    EXPECT_TRUE(dataset || dataset.error().kind == ErrorKind::Data);
  }
}

}  // namespace
}  // namespace gnn::data
