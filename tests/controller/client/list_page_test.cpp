#include "controller/client/list_page.h"

#include "controller/objects/json.h"
#include "tests/support/mutations.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::client {
namespace {

using objects::Json;

const std::string kList = R"( {"kind":"PodList", "apiVersion":"v1","items" : [
  {"a":"\"}]{[,\\","b":[1,{"c":[]}]} , {}, "text",-1.5e3,null
 ],"metadata":{"resourceVersion":"7","continue":"c\u0020d","items":[3]}} )";

TEST(ListPage, FindsMetadataAndObjects) {
  const ListPage page = split_list(kList).value();
  EXPECT_EQ(page.resource_version, "7");
  EXPECT_EQ(page.continuation, "c d");
  ASSERT_EQ(page.items.size(), 5U);
  for (size_t i = 0; i < page.items.size(); ++i) {
    EXPECT_EQ(Json::parse(page.items[i]), Json::parse(kList)["items"][i]) << i;
  }
}

TEST(ListPage, AListMayBeEmpty) {
  for (const char* items : {"[]", "[ ]", "null"}) {
    const auto page = split_list(R"({"metadata":{},"items":)" + std::string(items) + "}");
    ASSERT_TRUE(page) << items;
    EXPECT_TRUE(page->items.empty()) << items;
  }
}

// Whatever the parser takes for a list is split as it says; what it refuses fails or is left to the
// parsers of its parts.
TEST(ListPage, AgreesWithTheParserOnMutatedLists) {
  testing::Mutations mutations(11);
  for (int round = 0; round < testing::mutation_rounds(20'000); ++round) {
    const std::string body = mutations.of(kList);
    const auto page = split_list(body);
    const Json whole = Json::parse(body, nullptr, false);
    if (!whole.is_object() || !page) continue;
    ASSERT_TRUE(whole.contains("items")) << body;
    size_t count = 0;
    for (const Json& item : whole["items"]) {
      ASSERT_LT(count, page->items.size()) << body;
      ASSERT_EQ(Json::parse(page->items[count++]), item) << body;
    }
    ASSERT_EQ(count, page->items.size()) << body;
  }
}

}  // namespace
}  // namespace gnn::client
