#include "worker/shards/service.h"

#include "tests/support/mutations.h"
#include "tests/worker/shards/parts.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace gnn::shards {
namespace {

ShopSampling two_hops() {
  ShopSampling sampling;
  sampling.options.fanout = {4, -1};
  return sampling;
}

std::vector<std::byte> hop_request(
    const HopRequest& request, uint32_t relation, const std::vector<int64_t>& ids
) {
  const std::vector<HopList> lists{{.relation = relation, .ids = ids, .id_bytes = 4}};
  return encode(request, lists);
}

std::string refusal(const Service& service, Method method, const std::vector<std::byte>& request) {
  const auto reply = service.answer(static_cast<uint16_t>(method), request);
  EXPECT_FALSE(reply);
  if (reply) return {};
  EXPECT_EQ(reply.error().kind, ErrorKind::Data);
  return reply.error().message;
}

TEST(Service, RefusesWhatIsNotItsPartsOrNoRequest) {
  const Shop shop(2);  // users [0, 233) and [233, 700), items [0, 100) and [100, 300)
  const Job job(shop, two_hops(), /*extracted=*/true);
  const Service& service = job.service(1);
  ASSERT_TRUE(service.answer(1, hop_request({}, 1, {233, 699})));
  const auto refused = [&](const std::vector<std::byte>& request) {
    return refusal(service, Method::Hop, request);
  };
  EXPECT_EQ(
      refused(hop_request({}, 1, {400, 232})),
      "id 1 of a list: expected one in [233, 700), found 232"
  );
  EXPECT_EQ(
      refused(hop_request({}, 0, {300})), "id 0 of a list: expected one in [100, 300), found 300"
  );
  EXPECT_EQ(
      refused(hop_request({.sampler = 1}, 1, {400})), "request: expected a sampler below 1, found 1"
  );
  EXPECT_EQ(refused(hop_request({.hop = 2}, 1, {400})), "request: expected a hop below 2, found 2");
  EXPECT_EQ(refused(hop_request({}, 3, {400})), "request: expected a relation below 3, found 3");
  std::vector<std::byte> huge = hop_request({}, 1, {400});
  std::memset(huge.data() + 48, 0xFF, 8);  // the number of ids
  EXPECT_EQ(refused(huge), "request: expected at most 1048576 ids, found 18446744073709551615");
  // Of all lists together.
  const std::vector<int64_t> one{400};
  const std::vector<HopList> twice(2, {.relation = 1, .ids = one, .id_bytes = 4});
  huge = encode(HopRequest{}, twice);
  std::memcpy(huge.data() + 64, &kMostIds, 8);
  EXPECT_EQ(refused(huge), "request: expected at most 1048576 ids, found 1048577");
  std::vector<std::byte> cut = hop_request({}, 1, {400, 401});
  cut.resize(cut.size() - 1);
  EXPECT_EQ(refused(cut), "request: its ids are cut off");
  EXPECT_EQ(refusal(service, Method{7}, {}), "request: unknown method 7");

  const auto rows = [&](const RowsRequest& request,
                        const std::vector<int64_t>& ids,
                        Method method = Method::Features) {
    return refusal(service, method, encode(request, ids));
  };
  EXPECT_EQ(rows({.index = 1}, {99}), "id 0 of a list: expected one in [100, 300), found 99");
  EXPECT_EQ(rows({.index = 1}, {-1}), "id 0 of a list: expected one in [100, 300), found -1");
  const int64_t most = rows_of_message(20);
  EXPECT_EQ(
      rows({.index = 0}, std::vector<int64_t>(static_cast<size_t>(most) + 1, 400)),
      "request: expected at most " + std::to_string(most) + " ids, found " +
          std::to_string(most + 1)
  );
  EXPECT_EQ(rows({.index = 2}, {100}), "request: expected a node type below 2, found 2");
  EXPECT_EQ(rows({.index = 4}, {400}, Method::Hidden), "request: there are no hidden rows 4 now");

  // A reply holds whole lists up to its bound, and one at least.
  std::vector<int64_t> users(467);
  std::iota(users.begin(), users.end(), 233);
  constexpr size_t kLongestList = 240 * 4;
  const Job bounded(shop, two_hops(), /*extracted=*/true, /*most_reply_bytes=*/300);
  const auto size_of_reply = [&](const Job& of, size_t lists = 1) {
    const std::vector<HopList> asked(lists, {.relation = 1, .ids = users, .id_bytes = 4});
    const auto reply = of.service(1).answer(1, encode(HopRequest{.hop = 1}, asked)).value();
    return reply.segments.front().size();
  };
  const size_t whole_size = size_of_reply(job);
  EXPECT_GT(whole_size, 2 * (300 + kLongestList + 4 * users.size()));
  EXPECT_LE(size_of_reply(bounded), 300 + kLongestList + 4 * users.size());
  // It holds no list more where there is no room.
  const Job full(shop, two_hops(), /*extracted=*/true, static_cast<int64_t>(whole_size));
  EXPECT_EQ(size_of_reply(full, 2), whole_size);

  // Nor has it more to give where it reads all labels itself.
  const Job whole(shop, two_hops(), /*extracted=*/false);
  EXPECT_EQ(
      refusal(
          whole.service(1),
          Method::Labels,
          encode(RowsRequest{.index = 1}, std::vector<int64_t>{99})
      ),
      "id 0 of a list: expected one in [100, 300), found 99"
  );
}

TEST(Service, SurvivesAnyBytes) {
  const Shop shop(2);
  const Job job(shop, two_hops(), /*extracted=*/true);
  const std::vector<int64_t> ids{100, 250, 299};
  const std::vector<std::vector<std::byte>> good{
      hop_request({.hop = 1}, 2, ids), encode(RowsRequest{.index = 1}, ids)
  };
  testing::Mutations mutations(20);
  int answered = 0;
  for (int round = 0; round < testing::mutation_rounds(4000); ++round) {
    const std::vector<std::byte>& request = good[static_cast<size_t>(round) % 2];
    std::string text(request.size(), '\0');
    std::memcpy(text.data(), request.data(), request.size());
    const std::string mutated = mutations.of(text);
    const auto reply = job.service(1).answer(
        static_cast<uint16_t>(round % 2 + 1), std::as_bytes(std::span(mutated))
    );
    answered += reply ? 1 : 0;
    EXPECT_TRUE(reply || reply.error().kind == ErrorKind::Data);
  }
  EXPECT_GT(answered, 0);
}

}  // namespace
}  // namespace gnn::shards
