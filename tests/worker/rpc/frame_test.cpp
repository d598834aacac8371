#include "worker/rpc/frame.h"

#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>

namespace gnn::rpc {
namespace {

using testing::must;

TEST(Frame, IsReadAsWrittenOrRefused) {
  const FrameHeader header{
      .type = FrameType::Reply, .method = 0x1234, .call = 0x123456789abcdef0, .length = 1U << 31U
  };
  const auto bytes = encode_header(header);
  const auto read = must(decode_header(bytes));
  EXPECT_EQ(read.type, header.type);
  EXPECT_EQ(read.method, header.method);
  EXPECT_EQ(read.call, header.call);
  EXPECT_EQ(read.length, header.length);

  // Each wrong bit of the mark, the zero and, where no type comes of it, the type.
  for (size_t i = 0; i < 6; ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto forged = bytes;
      forged[i] ^= std::byte{1} << bit;
      const auto type = std::to_integer<unsigned>(forged[4]);
      EXPECT_EQ(decode_header(forged).has_value(), i == 4 && type >= 1 && type <= 4)
          << i << " " << bit;
    }
  }

  const Error error{.kind = ErrorKind::Data, .message = "ids[3] is 9, expected less than 7"};
  const auto text = std::as_bytes(std::span(error.message));
  EXPECT_EQ(decode_failure(failure_kind(error), text), error);
  // A peer's text and kind are hostile input.
  const std::string wild = "a\x1b[2J\n" + std::string(10'000, 'b');
  const Error shown = decode_failure(999, std::as_bytes(std::span(wild)));
  EXPECT_EQ(shown.kind, ErrorKind::Internal);
  EXPECT_LE(shown.message.size(), kMostFailureBytes);
  EXPECT_EQ(shown.message.find_first_of("\x1b\n"), std::string::npos);
}

}  // namespace
}  // namespace gnn::rpc
