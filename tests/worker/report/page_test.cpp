#include "worker/report/page.h"

#include "tests/worker/report/records.h"
#include "worker/data/digest.h"
#include "worker/report/record_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace gnn::report {
namespace {

using testing::full_record;
using ::testing::HasSubstr;
using ::testing::Not;

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const size_t begin = text.find(open) + open.size();
  return text.substr(begin, text.find(close, begin) - begin);
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Page, HoldsTheTextsOfARunAsDataAlone) {
  const std::string hostile = "</script><img src=x onerror=alert(1)><!--\u2028\u2029&quot;";
  RunRecord record = full_record(2);
  const std::string plain = page_of(record);
  record.facts.job = hostile;
  record.attempts[0].reason = hostile;
  record.outcome->metrics[hostile] = 1;
  const std::string page = page_of(record);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\u2028")));
  EXPECT_EQ(count_of(page, "<"), count_of(plain, "<"));
  const std::string data = between(page, "id=\"record\">", "</script>");
  EXPECT_THAT(nlohmann::json::parse(data).at("facts").at("job"), HasSubstr("</script><img src=x"));
  EXPECT_EQ(escape_for_script("\"a<\u2028b\u2029\""), "\"a\\u003c\\u2028b\\u2029\"");
}

// "'sha256-…'" by the digests of the data sets and a base64 of its own.
std::string hash_of(const std::string& text) {
  const std::string digest =
      data::digest_of(data::DigestKind::Sha256, std::as_bytes(std::span(text)));
  const std::string hex = digest.substr(digest.find(':') + 1) + "0000";
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string base64;
  for (size_t at = 0; at < 66; at += 6) {
    const unsigned long bits = std::stoul(hex.substr(at, 6), nullptr, 16);
    for (const int shift : {18, 12, 6, 0}) base64 += kDigits[(bits >> shift) & 63U];
  }
  base64.back() = '=';
  return "'sha256-" + base64 + "'";
}

TEST(Page, LetsNoScriptOrStyleRunButItsOwn) {
  const std::string page = page_of(full_record(2));
  const std::string policy = between(page, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_EQ(
      policy,
      "default-src 'none'; script-src " + hash_of(between(page, "<script>", "</script>")) +
          "; style-src " + hash_of(between(page, "<style>", "</style>")) +
          "; base-uri 'none'; form-action 'none'"
  );
}

TEST(Page, OfAHundredEpochsOnManyRanksIsBelowAMegabyte) {
  EXPECT_LT(page_of(full_record(100, kMaxRanks)).size(), size_t{1'000'000});
  EXPECT_LT(page_of(full_record(100)).size(), size_t{150'000});
}

}  // namespace
}  // namespace gnn::report
