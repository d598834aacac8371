#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>

namespace gnn::testing {

struct UserBehavior {
  int64_t users = 0;
  int64_t items = 0;
  int64_t views = 0;        ///< by the users in turn
  int64_t communities = 1;  ///< of users and items: those of equal remainders
  double loyalty = 0;  ///< share of the views that stay in the user's community; others are of any
};

/// Writes a UserBehavior.csv like Taobao's into a folder: views of items, no two at one time.
inline void write_user_behavior(const std::filesystem::path& folder, const UserBehavior& shape) {
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / "UserBehavior.csv");
  std::mt19937 random(7);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  const auto per_thousand = static_cast<int64_t>(shape.loyalty * 1000);
  for (int64_t view = 0; view < shape.views; ++view) {
    const int64_t user = view % shape.users;
    int64_t item = below(shape.items);
    if (below(1000) < per_thousand)
      item = below(shape.items / shape.communities) * shape.communities + user % shape.communities;
    file << user << ',' << item << ",1,pv," << 1'511'600'000 + view << '\n';
  }
}

}  // namespace gnn::testing
