#include "worker/data/readers/package_tags.h"

#include "tests/support/mutations.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/readers/reader_test.h"
#include "worker/data/readers/package_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::ReaderTest;
using testing::to_vector;

class PackageTags : public ReaderTest {
 protected:
  Result<DatasetArrays> read(const std::string& text, PackageTagsOptions options = {}) {
    options.num_features = 64;
    return read_package_tags(from_memory("index", text), options, memory_, silent_);
  }
  std::string error(const std::string& tags) {
    const auto dataset = read("Package: a\nTag: " + tags + "\nDescription: d\n");
    return dataset ? "" : dataset.error().message;
  }
  const std::string index_ =
      "Package: beta\nTag: role::program, interface::x11,\n implemented-in::{c,c++}\n"
      "Description: Fast mail\n reader\n\n"
      "Package: plain\nDescription: no tags\n\n"
      "Package: alpha\nTag: role::program, role::program\nDescription: shared library\n\n"
      "Package: alpha\nTag: role::plugin\nDescription: an older version\n";
};

TEST_F(PackageTags, LinksTaggedPackagesAndTags) {
  const auto dataset = read(index_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->node_tables.size(), 2U);
  EXPECT_EQ(dataset->node_tables[0].name, "package");
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 2);  // alpha, beta
  EXPECT_EQ(dataset->node_tables[1].name, "tag");
  // implemented-in::c, implemented-in::c++, interface::x11, role::program
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 4);
  EXPECT_FALSE(dataset->node_tables[1].features.defined());
  ASSERT_EQ(dataset->edge_tables.size(), 1U);
  const EdgeTable& edges = dataset->edge_tables[0];
  EXPECT_EQ(edges.source + " " + edges.relation + " " + edges.destination, "package has tag");
  EXPECT_THAT(to_vector<int64_t>(edges.indptr), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(to_vector<int32_t>(edges.indices), ElementsAre(1, 1, 1, 0, 1));
  EXPECT_THAT(to_vector<int64_t>(edges.edge_ids), ElementsAre(1, 2, 3, 0, 4));
  ASSERT_TRUE(dataset->links);
  EXPECT_THAT(to_vector<int64_t>(dataset->links->pairs), ElementsAre(0, 3, 1, 0, 1, 1, 1, 2, 1, 3));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("packages", "3")));
  EXPECT_THAT(dataset->origin.facts, Contains(Pair("duplicatePackages", "1")));
}

TEST_F(PackageTags, HashesDescriptionsAsThePackageIndexDoes) {
  const std::string index =
      "Package: a\nSection: net\nTag: role::program\nDescription: Fast mail\n reader\n\n"
      "Package: b\nSection: net\nTag: role::program\nDescription: shared library\n";
  const auto tags = read(index);
  ASSERT_TRUE(tags) << tags.error().message;
  PackageIndexOptions options;
  options.num_features = 64;
  const auto other = read_package_index(from_memory("index", index), options, memory_, silent_);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(
      to_vector<float>(tags->node_tables[0].features),
      to_vector<float>(other->node_tables[0].features)
  );
}

TEST_F(PackageTags, ReadsBracesAndBlanks) {
  EXPECT_EQ(error("a::{b, c} ,,d::e ,"), "");
  const auto dataset = read("Package: a\nTag: a::{b, c} ,,d::e,\n a::b\nDescription: d\n");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 3);
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 3);
}

TEST_F(PackageTags, NamesThePackageOfABadTag) {
  for (const std::string tag :
       {"program",
        "::program",
        "role::",
        "role::{",
        "role::{a",
        "role::{}",
        "role::{a,}",
        "role::a b",
        "role::{a{b}}",
        "role::}"}) {
    EXPECT_THAT(
        error("fine::tag, " + tag),
        HasSubstr("index: package a: Tag: expected facet::name or facet::{name,name}, found '")
    ) << tag;
  }
  EXPECT_THAT(error("role::{a"), HasSubstr("found 'role::{a'"));
  EXPECT_THAT(
      read("Package: a\nDescription: d\n").error().message,
      HasSubstr("index: expected packages with a field Tag, found none")
  );
  EXPECT_THAT(
      read("Package: a\nrubbish\n").error().message,
      HasSubstr("index: line 2: expected \"Field: value\", found 'rubbish'")
  );
  PackageTagsOptions options;
  options.num_features = 0;
  const auto none = read_package_tags(from_memory("index", index_), options, memory_, silent_);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("expected between 1 and 65536 columns, found 0"));
}

TEST_F(PackageTags, SurvivesMutations) {
  gnn::testing::Mutations mutations(25);
  for (int round = 0; round < gnn::testing::mutation_rounds(500); ++round) {
    const auto dataset = read(mutations.of(index_));
    EXPECT_TRUE(dataset || dataset.error().kind == ErrorKind::Data);
  }
}

}  // namespace
}  // namespace gnn::data
