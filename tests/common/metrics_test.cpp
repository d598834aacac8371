#include "common/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace gnn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsRegistry, ExposesEachTypeAsText) {
  MetricsRegistry registry;
  registry.counter("a_total", "A", {{"job", "x"}}).increment(2);
  registry.gauge("b", "B").set(1.5);
  Histogram histogram = registry.histogram("c_seconds", "C", {0.1, 1.0});
  histogram.observe(0.5);
  histogram.add({2, 0, 1}, 7.5);
  const std::string text = registry.expose();
  EXPECT_THAT(text, HasSubstr("# TYPE a_total counter"));
  EXPECT_THAT(text, HasSubstr("a_total{job=\"x\"} 2"));
  EXPECT_THAT(text, HasSubstr("b 1.5"));
  EXPECT_THAT(text, HasSubstr("c_seconds_bucket{le=\"0.1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_bucket{le=\"1\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_count 4\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_sum 8\n"));
}

TEST(MetricsRegistry, TheSameNameAndLabelsAreTheSameSeries) {
  MetricsRegistry registry;
  registry.counter("a_total", "A", {{"job", "x"}}).increment();
  registry.counter("a_total", "A", {{"job", "x"}}).increment();
  EXPECT_EQ(registry.counter("a_total", "A", {{"job", "x"}}).value(), 2);
}

TEST(MetricsRegistry, RemovingAJobTakesItsSeriesOfEveryNameAndNoOther) {
  MetricsRegistry registry;
  Counter kept_handle = registry.counter("a_total", "A", {{"job", "x"}, {"rank", "0"}});
  registry.gauge("b", "B", {{"job", "x"}}).set(1);
  registry.gauge("b", "B", {{"job", "y"}}).set(2);
  EXPECT_EQ(registry.remove_series({{"job", "x"}}), 2U);
  kept_handle.increment();  // Unseen, and harmless.
  const std::string text = registry.expose();
  EXPECT_THAT(text, Not(HasSubstr("job=\"x\"")));
  EXPECT_THAT(text, HasSubstr("b{job=\"y\"} 2"));
  EXPECT_EQ(registry.remove_series({{"job", "x"}}), 0U);
}

TEST(MetricsRegistry, ASeriesAskedForAgainStartsAtZero) {
  MetricsRegistry registry;
  registry.counter("a_total", "A", {{"job", "x"}}).increment(5);
  registry.remove_series({{"job", "x"}});
  EXPECT_EQ(registry.counter("a_total", "A", {{"job", "x"}}).value(), 0);
}

TEST(MetricsRegistry, ShowsWhatItsSourcesKeepNow) {
  MetricsRegistry registry;
  std::vector<SeriesFamily::Series> kept = {{{{"job", "x"}}, 1.5}};
  registry.add_source([&](const auto& take) {
    take({"s", "S", SeriesFamily::Type::Gauge, kept});
    take({"t_total", "T", SeriesFamily::Type::Counter, {{{}, 2}}});
    take({"none", "N", SeriesFamily::Type::Gauge, {}});
  });
  registry.counter("a_total", "A").increment();
  const std::string text = registry.expose();
  EXPECT_THAT(text, HasSubstr("# TYPE s gauge\ns{job=\"x\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE t_total counter\nt_total 2\n"));
  EXPECT_THAT(text, HasSubstr("a_total 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("none")));
  kept.clear();
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"x\"")));
}

TEST(MetricsRegistry, ShowsALargeFamilyAsOne) {
  MetricsRegistry registry;
  registry.add_source([](const auto& take) {
    SeriesFamily large{"s", "Help # TYPE.", SeriesFamily::Type::Gauge, {}};
    for (int i = 0; i < 2500; ++i) {
      large.series.push_back({{{"job", std::to_string(i)}}, 1.0 * i});
      if (i == 2000) take(large);
      if (i == 2000) large.series.clear();
    }
    take({large.name, large.help, large.type, {}});
    take(large);
  });
  std::string expected = "# HELP s Help # TYPE.\n# TYPE s gauge\n";
  for (int i = 0; i < 2500; ++i) {
    expected += "s{job=\"" + std::to_string(i) + "\"} " + std::to_string(i) + "\n";
  }
  EXPECT_EQ(registry.expose(), expected);
}

TEST(MetricsRegistry, OneNameCannotHaveTwoTypes) {
  MetricsRegistry registry;
  (void)registry.counter("a_total", "A");
  EXPECT_THROW((void)registry.gauge("a_total", "A"), std::invalid_argument);
}

TEST(MetricsRegistry, RemovalBesideUseIsSafe) {
  MetricsRegistry registry;
  Counter handle = registry.counter("a_total", "A", {{"job", "x"}});
  constexpr int kRounds = 1000;
  std::thread user([&] {
    for (int i = 0; i < kRounds; ++i) handle.increment();
  });
  for (int i = 0; i < kRounds; ++i) {
    (void)registry.counter("a_total", "A", {{"job", "x"}});
    registry.remove_series({{"job", "x"}});
  }
  user.join();
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"x\"")));
}

TEST(MetricsRegistry, RemovesOneNameOnly) {
  MetricsRegistry registry;
  registry.gauge("a", "A.", {{"job", "x"}}).set(1);
  registry.gauge("b", "B.", {{"job", "x"}}).set(1);
  EXPECT_EQ(registry.remove_series("a", {{"job", "x"}}), 1U);
  EXPECT_EQ(registry.expose().find("a{"), std::string::npos);
  EXPECT_NE(registry.expose().find("b{job=\"x\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace gnn
