#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gnn {

/// Label names with their values. Values come from bounded sets only.
using MetricLabels = std::map<std::string, std::string>;

namespace internal {
struct CounterCell;
struct GaugeCell;
struct HistogramCell;
}  // namespace internal

/// Only goes up. Copies refer to the same series. A handle to a removed series still works, but
/// what it counts is not shown.
/// Threads: safe from any thread.
class Counter {
 public:
  void increment(double by = 1.0);
  [[nodiscard]] double value() const;

 private:
  friend class MetricsRegistry;
  explicit Counter(std::shared_ptr<internal::CounterCell> cell) : cell_(std::move(cell)) {}
  std::shared_ptr<internal::CounterCell> cell_;
};

/// A value that goes up and down. See Counter.
class Gauge {
 public:
  void set(double value);
  void add(double by);
  [[nodiscard]] double value() const;

 private:
  friend class MetricsRegistry;
  explicit Gauge(std::shared_ptr<internal::GaugeCell> cell) : cell_(std::move(cell)) {}
  std::shared_ptr<internal::GaugeCell> cell_;
};

/// Counts observations into buckets. See Counter.
class Histogram {
 public:
  void observe(double value);
  /// Observations that were counted elsewhere: how many more each bucket has, +Inf the last, and the
  /// sum of their values.
  void add(const std::vector<double>& increments, double sum);

 private:
  friend class MetricsRegistry;
  explicit Histogram(std::shared_ptr<internal::HistogramCell> cell) : cell_(std::move(cell)) {}
  std::shared_ptr<internal::HistogramCell> cell_;
};

/// Series of one name that their owner keeps, as they are now.
struct SeriesFamily {
  enum class Type { Counter, Gauge };
  struct Series {
    MetricLabels labels;
    double value = 0;
  };
  std::string name;
  std::string help;
  Type type = Type::Gauge;
  std::vector<Series> series;
};

/// Hands over families one after the other; a family may come in parts that follow each other, so
/// that the series of thousands of owners are never all there at once.
using SeriesSource = std::function<void(const std::function<void(SeriesFamily part)>& take)>;

/// What /metrics shows. Unlike prometheus-cpp's, which it wraps, its handles stay valid after their
/// series is removed; asking for the series again creates a fresh one.
/// Errors: throws std::invalid_argument for a programming error: a name or label that Prometheus
/// does not allow, or one name used for two types.
/// Threads: safe from any thread.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  /// The series of `name` with `labels`, created at zero if it does not exist.
  Counter counter(
      const std::string& name, const std::string& help, const MetricLabels& labels = {}
  );
  Gauge gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  /// `buckets`: upper bounds, ascending, without +Inf; fixed by the first call for a name.
  Histogram histogram(
      const std::string& name,
      const std::string& help,
      const std::vector<double>& buckets,
      const MetricLabels& labels = {}
  );

  /// Removes every series, of every name, whose labels contain all of `labels`. Returns how many.
  size_t remove_series(const MetricLabels& labels);
  /// The same for the series of one name.
  size_t remove_series(const std::string& name, const MetricLabels& labels);

  /// Also shows what `read` hands over, at each exposition: for series that come and go by the
  /// thousand, which their owner adds and removes at no cost here. No name may be that of another
  /// series. `read` must work for as long as expose() is called, from any thread.
  void add_source(SeriesSource read);

  /// Prometheus text format, version 0.0.4.
  [[nodiscard]] std::string expose() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn
