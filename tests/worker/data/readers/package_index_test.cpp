#include "worker/data/readers/package_index.h"

#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gnn::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::ReaderTest;
using testing::to_vector;

class PackageIndex : public ReaderTest {
 protected:
  Result<DatasetArrays> read(const std::string& text, PackageIndexOptions options = {}) {
    options.num_features = 64;
    return read_package_index(from_memory("index", text), options, memory_, silent_);
  }
  const std::string index_ =
      "Package: beta\nSection: net\nDepends: alpha (>= 1.0) | gamma, mail-agent, "
      "nowhere\nDescription: Fast mail\n reader\n\n"
      "Package: alpha\nSection: contrib/libs\nDescription: shared library\n\n"
      "Package: gamma\nSection: libs\nProvides: mail-agent (= 2), other\nRecommends: alpha:any "
      "[amd64]\nSuggests: gamma\n"
      "Description: MAIL mail x\n\n"
      "Package: alpha\nSection: games\nDescription: again\n\n"
      "Package: delta\nDescription: no section here\n";
};

TEST_F(PackageIndex, MakesNodesEdgesFeaturesAndLabels) {
  const auto dataset = read(index_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  // alpha 0, beta 1, delta 2, gamma 3
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 4);
  EXPECT_THAT(dataset->class_names, ElementsAre("libs", "net"));
  EXPECT_THAT(to_vector<int64_t>(dataset->node_tables[0].labels), ElementsAre(0, 1, -1, 0));
  // beta -> alpha, beta -> gamma (alternative and virtual package: once), gamma -> alpha; not gamma
  // -> gamma.
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[0].indptr), ElementsAre(0, 2, 2, 2, 3));
  EXPECT_THAT(to_vector<int32_t>(dataset->edge_tables[0].indices), ElementsAre(1, 3, 1));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("edgesDepends", "3")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("edgesRecommends", "1")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("namesNobodyProvides", "1")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("duplicatePackages", "1")));
  // printf '…' | sha256sum
  EXPECT_EQ(dataset->origin.facts.front().second.substr(0, 7), "sha256:");
  const auto features = to_vector<float>(dataset->node_tables[0].features);
  const auto row_sum = [&](size_t row) {
    float sum = 0;
    for (size_t i = 0; i < 64; ++i) {
      sum += features[row * 64 + i];
    }
    return sum;
  };
  EXPECT_FLOAT_EQ(row_sum(0), 1.0F);
  EXPECT_FLOAT_EQ(row_sum(1), 1.0F);
  // "MAIL mail x" is one word twice: a single column, the x is too short.
  EXPECT_EQ(std::count(features.begin() + 3 * 64, features.end(), 1.0F), 1);
}

// What would give the label away must not reach the features.
TEST_F(PackageIndex, KeepsSectionTagsAndNamesOutOfFeatures) {
  const auto plain = read(
      "Package: a\nSection: net\nDescription: same words\n\nPackage: b\nSection: "
      "libs\nDescription: w\n"
  );
  const auto other = read(
      "Package: aaa\nSection: games\nTag: role::program\nFilename: pool/main/a\nHomepage: "
      "http://x\nSource: s\n"
      "Description: same words\n\nPackage: bbb\nSection: libs\nDescription: w\n"
  );
  EXPECT_EQ(
      to_vector<float>(plain->node_tables[0].features),
      to_vector<float>(other->node_tables[0].features)
  );
}

TEST_F(PackageIndex, SplitsEveryLabelledPackageOnce) {
  std::string index;
  for (int i = 0; i < 100; ++i) {
    index += "Package: p" + std::to_string(i) + "\nSection: s" + std::to_string(i % 3) +
             "\nDescription: d\n\n";
  }
  const auto dataset = read(index);
  EXPECT_EQ(dataset->train.num_elements(), 60);
  EXPECT_EQ(dataset->validation.num_elements(), 20);
  EXPECT_EQ(dataset->test.num_elements(), 20);
  PackageIndexOptions other;
  other.seed = 1;
  EXPECT_NE(to_vector<int64_t>(dataset->train), to_vector<int64_t>(read(index, other)->train));
}

TEST_F(PackageIndex, NamesTheLineOfBadInput) {
  EXPECT_THAT(read("").error().message, HasSubstr("expected packages, found none"));
  EXPECT_THAT(
      read("Package: a\nrubbish\n").error().message,
      HasSubstr("index: line 2: expected \"Field: value\", found 'rubbish'")
  );
  EXPECT_THAT(read("Section: net\n\n").error().message, HasSubstr("has no field Package"));
  EXPECT_THAT(
      read(" goes on\n").error().message, HasSubstr("line 1: a continuation line without a field")
  );
  EXPECT_THAT(read("Package: a\n\n").error().message, HasSubstr("no package has a field Section"));
}

}  // namespace
}  // namespace gnn::data
