#include "worker/servers/batch_request.h"

#include "tests/support/must.h"
#include "tests/support/mutations.h"
#include "worker/servers/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::servers {
namespace {

using ::testing::HasSubstr;
using testing::must;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// What is read of `message`, whole, cut or forged, is written as it was.
template <class Decode>
void expect_refused_or_read(const std::string& message, uint64_t seed, const Decode& decode) {
  for (size_t size = 0; size < message.size(); ++size) {
    const std::string cut = message.substr(0, size);
    const auto read = decode(cut);
    EXPECT_TRUE(!read || text_of(encode(*read)) == cut) << size;
  }
  testing::Mutations mutations(seed);
  for (int i = 0; i < testing::mutation_rounds(3000); ++i) {
    const std::string forged = mutations.of(message);
    const auto read = decode(forged);
    EXPECT_TRUE(!read || text_of(encode(*read)) == forged) << i;
  }
}

TEST(BatchRequest, AndHelloAreReadAsWrittenOrRefused) {
  const BatchRequest request{
      .use = Use::Evaluation,
      .of = api::Part::Test,
      .epoch = 3,
      .partition = 1,
      .first_position = int64_t{1} << 40,
      .count = 512,
      .rank = 7,
      .index = 9
  };
  EXPECT_EQ(must(decode_batch_request(encode(request))), request);
  EXPECT_EQ(must(decode_batch_request(encode(BatchRequest()))), BatchRequest());
  expect_refused_or_read(text_of(encode(request)), 1, [](const std::string& text) {
    return decode_batch_request(bytes_of(text));
  });

  BatchRequest large = request;
  large.count = kMostBatchItems + 1;
  EXPECT_THAT(
      decode_batch_request(encode(large)).error().message,
      HasSubstr("expected count from 0 to 16777216, found 16777217")
  );
  large.count = -1;
  EXPECT_FALSE(decode_batch_request(encode(large)));

  Hello hello{.server = 4, .restart = 1, .partitions = 3, .part = 1, .description = "{}"};
  const Hello read = must(decode_hello(encode(hello)));
  EXPECT_EQ(read.server, 4);
  EXPECT_EQ(read.restart, 1);
  EXPECT_EQ(read.partitions, 3);
  EXPECT_EQ(read.part, 1);
  EXPECT_EQ(read.description, "{}");
  expect_refused_or_read(text_of(encode(hello)), 2, [](const std::string& text) {
    return decode_hello(bytes_of(text));
  });
  hello.version = 9;
  const auto other = decode_hello(encode(hello));
  EXPECT_EQ(other.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(other.error().message, HasSubstr("all pods of the job must run the same image"));
}

}  // namespace
}  // namespace gnn::servers
