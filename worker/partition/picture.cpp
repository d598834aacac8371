#include "worker/partition/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

namespace gnn::partition {
namespace {

// In pixels. Both panels are equally high.
constexpr double kTop = 78;
constexpr double kBottom = 258;
constexpr double kLeftPanel = 52;
constexpr double kRightPanel = 424;
constexpr double kPanelWidth = 280;

constexpr std::array<const char*, 3> kColours{"#4477aa", "#ddaa33", "#bb5566"};
constexpr std::array<const char*, 3> kKinds{"nodes", "edges", "seeds"};

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}
std::string share_text(double share, int decimals = 0) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %%", decimals, 100 * share);
  return text.data();
}

enum class Anchor { Start, Middle, End };

std::string text_at(double x, double y, Anchor anchor, const std::string& words) {
  const char* name = anchor == Anchor::Start    ? "start"
                     : anchor == Anchor::Middle ? "middle"
                                                : "end";
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + name + "\">" +
         words + "</text>\n";
}
std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" stroke=\"" + colour + "\"/>\n";
}
std::string bar(double x, double y, double width, double height, const char* colour) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\" fill=\"" + colour + "\"/>\n";
}

// A horizontal axis line with its value, for shares of the panel's height.
std::string mark(double left, double at, const std::string& words) {
  const double y = kBottom - at * (kBottom - kTop);
  return line(left, y, left + kPanelWidth, y, "#dddddd") +
         text_at(left - 5, y + 4, Anchor::End, words);
}

// By kind and part, as multiples of the mean.
std::array<std::vector<double>, 3> beside_mean(const Report& report) {
  std::array<std::vector<double>, 3> kinds;
  for (const PartReport& part : report.parts) {
    const auto nodes = std::accumulate(part.nodes.begin(), part.nodes.end(), int64_t{0});
    kinds[0].push_back(static_cast<double>(nodes));
    kinds[1].push_back(static_cast<double>(part.edges));
    kinds[2].push_back(static_cast<double>(part.items));
  }
  for (std::vector<double>& values : kinds) {
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    for (double& value : values) value = mean > 0 ? value / mean : 0;
  }
  return kinds;
}

std::string balance_panel(const Report& report) {
  const auto kinds = beside_mean(report);
  double most = 1.25;
  for (const std::vector<double>& values : kinds) {
    most = std::max(most, *std::max_element(values.begin(), values.end()));
  }
  std::string svg =
      text_at(kLeftPanel, kTop - 24, Anchor::Start, "what parts have, beside the mean");
  for (const double value : {0.0, 0.5, 1.0}) {
    svg += mark(kLeftPanel, value / most, share_text(value));
  }
  if (most > 1.5) svg += mark(kLeftPanel, 1, share_text(most));
  const double group = kPanelWidth / static_cast<double>(report.parts.size());
  const double width = std::min(group * 0.25, 24.0);
  // Names of parts need about 22 pixels.
  const auto step = static_cast<size_t>(std::ceil(22 / group));
  for (size_t part = 0; part < report.parts.size(); ++part) {
    const double middle = kLeftPanel + group * (static_cast<double>(part) + 0.5);
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      const double height = kinds.at(kind)[part] / most * (kBottom - kTop);
      svg +=
          bar(middle + width * (static_cast<double>(kind) - 1.5),
              kBottom - height,
              width,
              height,
              kColours.at(kind));
    }
    if (part % step == 0) {
      svg += text_at(middle, kBottom + 16, Anchor::Middle, std::to_string(part));
    }
  }
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    const double x = kLeftPanel + 70 * static_cast<double>(kind);
    svg += bar(x, kBottom + 28, 10, 10, kColours.at(kind));
    svg += text_at(x + 14, kBottom + 37, Anchor::Start, kKinds.at(kind));
  }
  return svg;
}

// The points of a curve of hit rates, as far as hot rows are kept.
std::string curve(const std::array<double, kCacheShares.size()>& rates, const char* style) {
  std::string points = number(kRightPanel) + "," + number(kBottom);
  for (size_t size = 0; size < rates.size() && rates.at(size) >= 0; ++size) {
    const double x = kRightPanel + kCacheShares.at(size) / kCacheShares.back() * kPanelWidth;
    const double y = kBottom - rates.at(size) * (kBottom - kTop);
    points += " " + number(x) + "," + number(y);
  }
  return "<polyline points=\"" + points + "\" fill=\"none\" " + style + "/>\n";
}

std::string cache_panel(const Report& report) {
  std::string svg = text_at(
      kRightPanel, kTop - 24, Anchor::Start, "expected hit rate, by rows in the cache (of all)"
  );
  for (const double value : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    svg += mark(kRightPanel, value, share_text(value));
  }
  for (const double share : kCacheShares) {
    const double x = kRightPanel + share / kCacheShares.back() * kPanelWidth;
    svg += line(x, kBottom, x, kBottom + 4, "#888888");
    svg += text_at(x, kBottom + 16, Anchor::Middle, share_text(share));
  }
  for (const PartReport& part : report.parts) {
    svg += curve(part.hit_rates, "stroke=\"#88bbdd\"");
  }
  std::array<double, kCacheShares.size()> all{};
  for (size_t size = 0; size < all.size(); ++size) all.at(size) = report.hit_rate(size);
  svg += curve(all, "stroke=\"#4477aa\" stroke-width=\"2.5\"");
  return svg +
         text_at(kRightPanel, kBottom + 37, Anchor::Start, "thin: each part; thick: all together");
}

}  // namespace

std::string report_picture(const Report& report) {
  const std::string title = std::to_string(report.parts.size()) + " parts by " + report.method +
                            ": " + share_text(report.cut(), 1) + " of edges cut, " +
                            share_text(report.local_share(), 1) + " of a batch's rows local";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"308\" "
         "viewBox=\"0 0 720 308\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
         "<rect width=\"720\" height=\"308\" fill=\"#ffffff\"/>\n"
         "<g font-size=\"15\">" +
         text_at(20, 28, Anchor::Start, title) + "</g>\n" + balance_panel(report) +
         cache_panel(report) + "</svg>\n";
}

}  // namespace gnn::partition
