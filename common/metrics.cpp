#include "common/metrics.h"

#include "common/guarded.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace gnn {
namespace internal {

// When a series is removed, its cell loses the prometheus object and ignores further writes, so
// that handles to it stay harmless.
template <class Metric>
struct Cell {
  Guarded<Metric*> metric{nullptr};

  template <class F>
  void with(F use) {
    auto held = metric.lock();
    if (*held != nullptr) use(**held);
  }
};

struct CounterCell : Cell<prometheus::Counter> {};
struct GaugeCell : Cell<prometheus::Gauge> {};
struct HistogramCell : Cell<prometheus::Histogram> {};

}  // namespace internal

namespace {

enum class MetricType { Counter, Gauge, Histogram };

template <class Metric, class CellType>
class Families {
 public:
  using Labels = MetricLabels;

  template <class Build, class... Arguments>
  std::shared_ptr<CellType> get(
      const std::string& name,
      const Labels& labels,
      Build build_family,
      const Arguments&... arguments
  ) {
    auto found = families_.find(name);
    if (found == families_.end()) {
      found = families_.emplace(name, Entry{&build_family(), {}}).first;
    }
    auto& cell = found->second.cells[labels];
    if (!cell) {
      cell = std::make_shared<CellType>();
      *cell->metric.lock() = &found->second.family->Add(labels, arguments...);
    }
    return cell;
  }

  [[nodiscard]] bool contains(const std::string& name) const { return families_.contains(name); }

  // `only` empty: series of any name.
  size_t remove(const std::string& only, const Labels& wanted) {
    size_t removed = 0;
    for (auto& [name, entry] : families_) {
      if (!only.empty() && name != only) continue;
      removed += std::erase_if(entry.cells, [&](auto& item) {
        const Labels& labels = item.first;
        const bool matches = std::all_of(wanted.begin(), wanted.end(), [&](const auto& want) {
          const auto at = labels.find(want.first);
          return at != labels.end() && at->second == want.second;
        });
        if (!matches) return false;
        auto metric = item.second->metric.lock();
        entry.family->Remove(std::exchange(*metric, nullptr));
        return true;
      });
    }
    return removed;
  }

 private:
  struct Entry {
    prometheus::Family<Metric>* family;
    std::map<Labels, std::shared_ptr<CellType>> cells;
  };
  std::map<std::string, Entry> families_;
};

struct Series {
  Families<prometheus::Counter, internal::CounterCell> counters;
  Families<prometheus::Gauge, internal::GaugeCell> gauges;
  Families<prometheus::Histogram, internal::HistogramCell> histograms;

  // To be called before a series of `type` is made or found.
  void check_type(const std::string& name, MetricType type) const {
    if ((type != MetricType::Counter && counters.contains(name)) ||
        (type != MetricType::Gauge && gauges.contains(name)) ||
        (type != MetricType::Histogram && histograms.contains(name))) {
      throw std::invalid_argument("metric '" + name + "' is already registered with another type");
    }
  }
};

// Of a page's series so many at a time: prometheus-cpp's form of one takes several hundred bytes.
constexpr size_t kSeriesAtOnce = 1024;

// The series from `from` on; their labels are moved away.
prometheus::MetricFamily exposed(SeriesFamily& family, size_t from) {
  prometheus::MetricFamily shown;
  const bool counts = family.type == SeriesFamily::Type::Counter;
  shown.name = family.name;
  shown.help = family.help;
  shown.type = counts ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  const size_t to = std::min(from + kSeriesAtOnce, family.series.size());
  shown.metric.reserve(to - from);
  for (size_t i = from; i < to; ++i) {
    SeriesFamily::Series& each = family.series[i];
    prometheus::ClientMetric& metric = shown.metric.emplace_back();
    for (auto& [name, value] : each.labels) metric.label.push_back({name, std::move(value)});
    (counts ? metric.counter.value : metric.gauge.value) = each.value;
  }
  return shown;
}

// `goes_on`: the page ends with series of this family.
void append(std::string& page, SeriesFamily family, bool goes_on) {
  for (size_t from = 0; from < family.series.size(); from += kSeriesAtOnce) {
    const std::string text = prometheus::TextSerializer().Serialize({exposed(family, from)});
    // A page may say a family's help and type only once.
    const bool named = goes_on || from > 0;
    page.append(text, named ? text.find('\n', text.find("\n# TYPE ") + 1) + 1 : 0);
  }
}

}  // namespace

struct MetricsRegistry::Impl {
  // Throws for a name that is registered with two types, instead of merging them. It has a lock of
  // its own.
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Throw};
  Guarded<Series> series;
  Guarded<std::vector<SeriesSource>> sources;
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::counter(
    const std::string& name, const std::string& help, const MetricLabels& labels
) {
  auto series = impl_->series.lock();
  series->check_type(name, MetricType::Counter);
  return Counter(series->counters.get(name, labels, [&]() -> auto& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
  }));
}

Gauge MetricsRegistry::gauge(
    const std::string& name, const std::string& help, const MetricLabels& labels
) {
  auto series = impl_->series.lock();
  series->check_type(name, MetricType::Gauge);
  return Gauge(series->gauges.get(name, labels, [&]() -> auto& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
  }));
}

Histogram MetricsRegistry::histogram(
    const std::string& name,
    const std::string& help,
    const std::vector<double>& buckets,
    const MetricLabels& labels
) {
  auto series = impl_->series.lock();
  series->check_type(name, MetricType::Histogram);
  return Histogram(series->histograms.get(
      name,
      labels,
      [&]() -> auto& {
        return prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
      },
      buckets
  ));
}

size_t MetricsRegistry::remove_series(const MetricLabels& labels) {
  return remove_series("", labels);
}

size_t MetricsRegistry::remove_series(const std::string& name, const MetricLabels& labels) {
  auto series = impl_->series.lock();
  return series->counters.remove(name, labels) + series->gauges.remove(name, labels) +
         series->histograms.remove(name, labels);
}

void MetricsRegistry::add_source(SeriesSource read) {
  impl_->sources.lock()->push_back(std::move(read));
}

std::string MetricsRegistry::expose() const {
  std::string page = prometheus::TextSerializer().Serialize(impl_->registry.Collect());
  const auto sources = *impl_->sources.lock();
  std::string last;
  for (const SeriesSource& read : sources) {
    read([&](SeriesFamily part) {
      if (part.series.empty()) return;
      const bool goes_on = part.name == last;
      last = part.name;
      append(page, std::move(part), goes_on);
    });
  }
  return page;
}

void Counter::increment(double by) {
  cell_->with([&](auto& metric) { metric.Increment(by); });
}

double Counter::value() const {
  double value = 0;
  cell_->with([&](auto& metric) { value = metric.Value(); });
  return value;
}

void Gauge::set(double value) {
  cell_->with([&](auto& metric) { metric.Set(value); });
}

void Gauge::add(double by) {
  cell_->with([&](auto& metric) { metric.Increment(by); });
}

double Gauge::value() const {
  double value = 0;
  cell_->with([&](auto& metric) { value = metric.Value(); });
  return value;
}

void Histogram::observe(double value) {
  cell_->with([&](auto& metric) { metric.Observe(value); });
}

void Histogram::add(const std::vector<double>& increments, double sum) {
  cell_->with([&](auto& metric) { metric.ObserveMultiple(increments, sum); });
}

}  // namespace gnn
