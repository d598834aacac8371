#include "common/log.h"
#include "tests/controller/app/simulation/world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

namespace gnn::simulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 100;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr uint64_t kSeeds = 100;
#else
constexpr uint64_t kSeeds = 1000;
#endif
#else
constexpr uint64_t kSeeds = 1000;
#endif
constexpr uint64_t kSeedsOfFullRun = 20'000;

// As many as somebody asks for, or as there is time for.
uint64_t seeds_to_play() {
  const char* const seeds = std::getenv("GNN_SIMULATION_SEEDS");
  if (seeds != nullptr) return std::strtoull(seeds, nullptr, 10);
  return std::getenv("GNN_FULL") != nullptr ? kSeedsOfFullRun : kSeeds;
}

// One seed, if somebody asks for it.
std::optional<uint64_t> asked_seed() {
  const char* const seed = std::getenv("GNN_SIMULATION_SEED");
  return seed == nullptr ? std::nullopt : std::optional(std::strtoull(seed, nullptr, 10));
}

std::string command_of(uint64_t seed) {
  return "GNN_SIMULATION_SEED=" + std::to_string(seed) + " " +
         ::testing::internal::GetArgvs().front() +
         " --gtest_filter=Simulation.NoHistoryBreaksARule";
}

TEST(Simulation, NoHistoryBreaksARule) {
  const ScopedLogOutput silent([](std::string_view) {});
  const auto asked = asked_seed();
  const uint64_t first = asked.value_or(1);
  const uint64_t last = asked.value_or(seeds_to_play());
  size_t passes = 0;
  size_t finished = 0;
  int failed = 0;
  for (uint64_t seed = first; seed <= last && failed < 5; ++seed) {
    World world({.seed = seed, .records = asked.has_value()});
    const auto violation = world.play();
    passes += world.passes();
    finished += world.finished();
    if (!violation) continue;
    ++failed;
    for (const std::string& line : world.history()) std::cout << line << '\n';
    ADD_FAILURE() << violation->rule << ": " << violation->what << "\n"
                  << "Repeat: " << command_of(seed);
  }
  std::cout << passes << " passes, " << finished << " jobs ended\n";
  // Else it is no history of jobs.
  if (!asked) {
    EXPECT_GT(finished, (last - first) / 2);
  }
}

TEST(Simulation, AHistoryIsAFunctionOfItsSeed) {
  const ScopedLogOutput silent([](std::string_view) {});
  const auto digest_of = [](uint64_t seed) {
    World world({.seed = seed});
    static_cast<void>(world.play());
    return world.digest();
  };
  for (uint64_t seed = 1; seed < 6; ++seed) EXPECT_EQ(digest_of(seed), digest_of(seed)) << seed;
  EXPECT_NE(digest_of(1), digest_of(2));
}

}  // namespace
}  // namespace gnn::simulation
