#include "worker/data/link_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<int64_t>;

// The numbers of the edges, or none where they can't be numbered.
Ids numbered(const Ids& indptr, const std::vector<int32_t>& indices, Ids ids, LinkIds kind) {
  return number_links(indptr, indices, ids, kind) ? ids : Ids{};
}

std::string error_of(const Ids& indptr, const std::vector<int32_t>& indices, Ids ids) {
  const Status status = number_links(indptr, indices, ids, LinkIds::WithinType);
  return status ? "" : status.error().message;
}

TEST(LinkIds, CloseGapsInTheOrderOfTheIds) {
  EXPECT_THAT(
      numbered({0, 2, 3}, {0, 1, 0}, {7, 130, 2}, LinkIds::BetweenTypes), ElementsAre(1, 2, 0)
  );
}

TEST(LinkIds, AreSharedByBothDirectionsOfUndirectedEdges) {
  // Edges {0, 1} and {1, 2}.
  const Ids indptr{0, 1, 3, 4};
  const std::vector<int32_t> indices{1, 0, 2, 1};
  EXPECT_THAT(
      numbered(indptr, indices, {3, 1, 0, 2}, LinkIds::WithinType), ElementsAre(1, 1, 0, 0)
  );
  // The same numbers are other nodes there.
  EXPECT_THAT(
      numbered(indptr, indices, {3, 1, 0, 2}, LinkIds::BetweenTypes), ElementsAre(3, 1, 0, 2)
  );
}

TEST(LinkIds, OfSelfLoopsAndRepeatedUndirectedEdgesAreTheirOwn) {
  // 0-0 twice, 0-1 twice.
  EXPECT_THAT(
      numbered({0, 4, 6}, {0, 0, 1, 1, 0, 0}, {0, 1, 2, 3, 4, 5}, LinkIds::WithinType),
      ElementsAre(0, 1, 2, 3, 2, 3)
  );
}

TEST(LinkIds, StayApartUnlessAllEdgesHaveTheirReverse) {
  EXPECT_THAT(
      numbered({0, 1, 3, 3}, {1, 0, 2}, {0, 1, 2}, LinkIds::WithinType), ElementsAre(0, 1, 2)
  );
}

TEST(LinkIds, AreOnePerEdgeAndPlausible) {
  EXPECT_THAT(
      error_of({0, 0, 2}, {0, 0}, {4, 4}),
      HasSubstr("expected 2 different edge ids, one for each edge, found 1")
  );
  // Undirected edges that share one id.
  EXPECT_THAT(
      error_of({0, 1, 3, 4}, {1, 0, 2, 1}, {0, 0, 0, 0}),
      HasSubstr("expected 2 different edge ids, one for each edge, found 1")
  );
  EXPECT_THAT(error_of({0, 0, 1}, {0}, {-1}), HasSubstr("found -1"));
  EXPECT_THAT(error_of({0, 0, 1}, {0}, {INT64_MAX}), HasSubstr("found 9223372036854775807"));
}

}  // namespace
}  // namespace gnn::data
