#include "common/api/yaml.h"

#include "common/api/codec.h"
#include "tests/support/mutations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "LINE: VALUE" of each document, or "LINE: ERROR".
std::vector<std::string> documents_of(std::string_view text) {
  std::vector<std::string> found;
  for_each_yaml_document(
      text,
      [&](int64_t line, const Result<nlohmann::json>& document, const std::vector<std::string>&) {
        found.push_back(
            std::to_string(line) + ": " + (document ? document->dump() : document.error().message)
        );
      }
  );
  return found;
}

TEST(YamlKeys, AreReadAsKubectlReadsThem) {
  EXPECT_THAT(
      documents_of("{y: 1, 010: 2, 'on': 3}"), ElementsAre(R"(1: {"8":2,"on":3,"true":1})")
  );
  EXPECT_THAT(documents_of("{y: .inf}"), ElementsAre(HasSubstr("JSON does not have")));
}

TEST(YamlScalars, ThatYamlsVersionsReadDifferentlyAreNamedWithTheirLines) {
  EXPECT_THAT(
      yaml_warnings("a: 010\n---\nb: [on, 7]\nn: 'off'\n"),
      ElementsAre(
          "010 is 8 for kubectl, which reads YAML 1.1, and 10 in YAML 1.2: write 8, or \"010\" for "
          "the "
          "text (line 1, column 4)",
          "on is true for kubectl, which reads YAML 1.1, and \"on\" in YAML 1.2: write true, or "
          "\"on\" for "
          "the text (line 3, column 5)",
          HasSubstr("n is false for kubectl")
      )
  );
  EXPECT_THAT(
      yaml_warnings("[007, 08, 0x10, 1e2, 3.0, .5, ~, 1:30, true, 2026-01-31, 1.5, \"y\", yEs]"),
      ElementsAre()
  );
  // Once, however often an alias repeats it.
  EXPECT_EQ(yaml_warnings("a: &a [y]\nb: [*a, *a]\n").size(), 1U);
}

TEST(YamlMaps, TakeWhatIsMergedBelowTheirOwnKeys) {
  EXPECT_THAT(
      documents_of(
          "a: &a {x: 1, y1: 2}\nb: &b {x: 3, z: 4}\nc: {<<: *a, x: 5}\nd: {<<: [*a, *b], w: 6}\n"
      ),
      ElementsAre(
          R"(1: {"a":{"x":1,"y1":2},"b":{"x":3,"z":4},"c":{"x":5,"y1":2},"d":{"w":6,"x":1,"y1":2,"z":4}})"
      )
  );
  EXPECT_THAT(
      documents_of("a: &a {x: 1}\nb: {x: 2, <<: *a}\n"),
      ElementsAre(HasSubstr("<< must be the first key of its map (line 2, column 11)"))
  );
  EXPECT_THAT(documents_of("{<<: 1}"), ElementsAre(HasSubstr("<< expects maps")));
  for (const char* key : {"~", "1.5", "null"}) {
    EXPECT_THAT(
        documents_of("{" + std::string(key) + ": 1}"), ElementsAre(HasSubstr("put it in quotes"))
    );
  }
}

TEST(YamlDocuments, AreReadOneByOneWithTheirLines) {
  EXPECT_THAT(
      documents_of(
          "# first\na: 1\n---\n\n# second\n--- [2]\n---\n---   \n\n{b: 3}\n...\n%YAML 1.2\n---\n4\n"
      ),
      ElementsAre("2: {\"a\":1}", "6: [2]", "8: {\"b\":3}", "13: 4")
  );
  EXPECT_THAT(documents_of("a: 1\r\n---\r\nb: 2\r\n"), ElementsAre("1: {\"a\":1}", "2: {\"b\":2}"));
  EXPECT_THAT(documents_of("a: 1"), ElementsAre("1: {\"a\":1}"));
  EXPECT_THAT(documents_of("\n# nothing\n---\n"), ElementsAre());
}

TEST(YamlDocuments, AreNotCutInsideAScalar) {
  EXPECT_THAT(
      documents_of("a: |\n  ---\n  b\n---x: 1\n"), ElementsAre(HasSubstr("\"---\\nb\\n\""))
  );
}

TEST(YamlDocuments, AreNotHiddenByABrokenOne) {
  EXPECT_THAT(
      documents_of("a: 1\n---\nb: [1\n---\nc: 3\nc: 4\n---\nd: 5\n"),
      ElementsAre(
          "1: {\"a\":1}",
          HasSubstr("not YAML: end of sequence flow not found (line "),
          "4: YAML key \"c\" appears twice (line 6, column 1)",
          "7: {\"d\":5}"
      )
  );
}

TEST(YamlDocuments, EndWithTheLimitOfAllTogether) {
  std::string bomb =
      "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
      "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n---\n";
  std::string text;
  while (text.size() + bomb.size() < kMaxDocumentBytes) text += bomb;
  const std::vector<std::string> found = documents_of(text);
  EXPECT_LT(found.size(), 20U);
  EXPECT_THAT(found.back(), HasSubstr("or has more than 200000 values"));
  std::string many = "[";
  while (many.size() < kMaxDocumentBytes - 2) many += "[],";
  EXPECT_THAT(documents_of(many), ElementsAre(HasSubstr("more than 400000 keys and values")));
  EXPECT_THAT(
      documents_of(std::string(kMaxDocumentBytes + 1, ' ')),
      ElementsAre(HasSubstr("larger than the limit"))
  );
}

TEST(YamlDocuments, ThatNestTooDeepAreRefused) {
  for (const char* const opening : {"[", "{a: ", "- ", "? "}) {
    std::string deep;
    while (deep.size() < 100000) deep += opening;
    const std::vector<std::string> found = documents_of(deep);
    ASSERT_EQ(found.size(), 1U) << opening;
    EXPECT_THAT(found.front(), HasSubstr("deeper than 64 levels")) << opening;
  }
}

TEST(YamlText, HasNoControlCharactersAndIsUtf8) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {"a: 1\nb: \0\n"sv,
        "a: 1\nb: \x04\nc: 2\n"sv,
        "a: 1\nb: \x1B[2J\n"sv,
        "a: 1\nb: \xFF\n"sv,
        "a: 1\n\xC0\x80: 2\n"sv}) {
    EXPECT_THAT(documents_of(text), ElementsAre(HasSubstr("(line 2) is no text in UTF-8")));
    EXPECT_FALSE(parse_yaml(text));
  }
  EXPECT_THAT(
      documents_of("\xEF\xBB\xBF"
                   "a:\t\"\xC3\xA4\x7F\"\n"sv),
      ElementsAre("1: {\"a\":\"\xC3\xA4\x7F\"}")
  );
}

TEST(YamlDocumentsMutations, AreThoseOfTheWholeText) {
  const std::string whole =
      "a: &x [1, two, \"three\"]\n---\n# b\nb: {c: *x, d: |\n  text\n}\n...\n---\nc: d\n";
  testing::Mutations mutations(1);
  for (int round = testing::mutation_rounds(2000); round > 0; --round) {
    const std::string text = mutations.of(whole);
    const auto all = parse_yaml(text);
    if (!all) continue;  // a part of it may be well by itself
    std::vector<nlohmann::json> each;
    for_each_yaml_document(
        text,
        [&](int64_t, const Result<nlohmann::json>& document, const std::vector<std::string>&) {
          if (document) each.push_back(*document);
        }
    );
    EXPECT_EQ(each, *all) << text;
  }
}

}  // namespace
}  // namespace gnn::api
