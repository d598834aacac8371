#include "worker/report/record_json.h"

#include "common/api/codec.h"
#include "tests/support/mutations.h"
#include "tests/worker/report/records.h"
#include "worker/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <string>

namespace gnn::report {
namespace {

using testing::full_record;
using ::testing::HasSubstr;

TEST(RecordJson, ComesBackAsItWasWithShortPrintableTexts) {
  RunRecord record = full_record(3);
  record.epochs[1].loss = 0.1 + 0.2;
  record.epochs[2].validation->value = std::numeric_limits<double>::quiet_NaN();
  record.attempts[0].reason = "Data: edge 7 leaves the graph";
  const std::string text = to_text(record);
  const auto read = parse_record(text);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(read->epochs[1].loss, 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(read->epochs[2].validation->value));
  EXPECT_EQ(read->attempts[0].began, record.attempts[0].began);

  nlohmann::json json = nlohmann::json::parse(text);
  json["facts"]["job"] = "\x1b[2J" + std::string(100'000, 'x');
  const auto shortened = parse_record(json.dump());
  ASSERT_TRUE(shortened.has_value());
  EXPECT_LE(shortened->facts.job.size(), kMaxTextBytes);
  EXPECT_EQ(shortened->facts.job.find('\x1b'), std::string::npos);
}

// What parse_record() says of a record of which `pointer` names another value.
std::string error_with(const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json json = to_json(full_record(3));
  json[nlohmann::json::json_pointer(pointer)] = value;
  const auto read = parse_record(json.dump());
  if (read) return "none";
  EXPECT_EQ(read.error().kind, ErrorKind::Data);
  return read.error().message;
}

TEST(RecordJson, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(
      error_with("/epochs/1/loss", "low"),
      "epochs[1].loss: expected a number or null, found \"low\""
  );
  EXPECT_EQ(error_with("/epochs/2/epoch", 1), "epochs[2].epoch: expected more than 1, found 1");
  EXPECT_THAT(error_with("/epochs/0/epoch", -1), HasSubstr("epochs[0].epoch: expected a whole"));
  EXPECT_THAT(error_with("/epochs/0/steps", 1e300), HasSubstr("epochs[0].steps: expected a whole"));
  EXPECT_THAT(error_with("/epochs/0", 3), HasSubstr("epochs[0]: expected an object, found 3"));
  EXPECT_THAT(error_with("/attempts/0/end", "Won"), HasSubstr("attempts[0].end: expected Unknown"));
  EXPECT_THAT(
      error_with("/attempts/0/began", "now"), HasSubstr("attempts[0].began: expected a time")
  );
  EXPECT_THAT(error_with("/confusion/counts", {1, 2}), HasSubstr("confusion.counts: expected one"));
  EXPECT_THAT(
      error_with("/facts/job", nullptr), HasSubstr("facts.job: expected a text, found null")
  );
  EXPECT_THAT(
      error_with("/epochStride", 0), HasSubstr("epochStride: expected a whole number from 1")
  );
  EXPECT_THAT(error_with("/format", 2), HasSubstr("format: expected 1, which this version"));
  const std::string many = error_with("/epochs", std::vector<int>(3000, 0));
  EXPECT_EQ(many, "epochs: expected a list of at most 2000, found array of 3000");

  const auto error_of = [](const std::string& text) { return parse_record(text).error().message; };
  EXPECT_THAT(error_of("{}"), HasSubstr("format: required field is missing"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("{\"format\": 1e999}"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("deeper than"));
  EXPECT_THAT(error_of(std::string(api::kMaxDocumentBytes + 1, ' ')), HasSubstr("larger than"));
}

TEST(RecordJson, IsRefusedOrAPageWhateverItsBytes) {
  gnn::testing::Mutations mutations(3);
  const std::string good = to_text(full_record(2));
  int refused = 0;
  for (int round = 0; round < gnn::testing::mutation_rounds(2000); ++round) {
    const auto record = parse_record(mutations.of(good));
    if (!record) {
      EXPECT_EQ(record.error().kind, ErrorKind::Data);
      ++refused;
      continue;
    }
    EXPECT_TRUE(parse_record(to_text(*record)).has_value());
    EXPECT_GT(page_of(*record).size(), size_t{10'000});
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gnn::report
