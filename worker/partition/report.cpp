#include "worker/partition/report.h"

#include "common/result.h"
#include "worker/partition/seeds.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <span>

namespace gnn::partition {
namespace {

template <class Index>
int64_t count_local(std::span<const Index> indices, data::IdRange entries, data::IdRange nodes) {
  const auto begin = indices.begin() + entries.begin;
  return std::count_if(begin, begin + entries.size(), [nodes](Index index) {
    return nodes.contains(index);
  });
}

void add_edges(const data::DatasetArrays& dataset, int64_t part, PartReport& report) {
  for (const HotnessEdges& edges : hotness_input(dataset, dataset.partitions->book.draws).edges) {
    const data::PartitionBook& book = dataset.partitions->book;
    const data::IdRange destinations = book.range_of(edges.destination, part);
    const data::IdRange entries{
        edges.indptr[static_cast<size_t>(destinations.begin)],
        edges.indptr[static_cast<size_t>(destinations.end)]
    };
    const data::IdRange sources = book.range_of(edges.source, part);
    report.edges += entries.size();
    report.local_edges += std::visit(
        [&](auto indices) { return count_local(indices, entries, sources); }, edges.indices
    );
  }
}

// The expected hits of a cache that keeps `share` of the rows of each type; -1 if fewer are kept.
double hits_of(const data::DatasetArrays& dataset, int64_t part, double share) {
  double hits = 0;
  for (size_t table = 0; table < dataset.node_tables.size(); ++table) {
    const data::HotRows& hot = dataset.partitions->hot[table][static_cast<size_t>(part)];
    const auto rows =
        static_cast<int64_t>(share * static_cast<double>(dataset.node_tables[table].num_nodes));
    const int64_t kept = hot.ids.defined() ? hot.ids.num_elements() : 0;
    const double rate = hot.hit_rate(rows);
    // All rows with reads may be fewer than the cache has room for.
    if (kept < rows && rate < 1 - 1e-9) return -1;
    hits += rate * hot.remote_reads;
  }
  return hits;
}

double share_of(double part, double all) {
  return all > 0 ? part / all : 1;
}

std::string percent(double share) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return share < 0 ? "-" : text.data();
}

std::string padded(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

int64_t all_nodes(const PartReport& part) {
  return std::accumulate(part.nodes.begin(), part.nodes.end(), int64_t{0});
}

std::vector<int64_t> by_part(const Report& report, int64_t (*number)(const PartReport&)) {
  std::vector<int64_t> numbers;
  std::transform(report.parts.begin(), report.parts.end(), std::back_inserter(numbers), number);
  return numbers;
}
std::vector<int64_t> edges_by_part(const Report& report) {
  return by_part(report, [](const PartReport& part) { return part.edges; });
}
std::vector<int64_t> items_by_part(const Report& report) {
  return by_part(report, [](const PartReport& part) { return part.items; });
}
std::vector<int64_t> nodes_by_part(const Report& report, size_t table) {
  std::vector<int64_t> numbers;
  for (const PartReport& part : report.parts) numbers.push_back(part.nodes[table]);
  return numbers;
}

std::string line_of(const std::string& name, const PartReport& part) {
  std::string line =
      padded(name, 5) + padded(std::to_string(all_nodes(part)), 13) +
      padded(std::to_string(part.edges), 15) + padded(std::to_string(part.items), 12) +
      padded(
          percent(
              1 - share_of(static_cast<double>(part.local_edges), static_cast<double>(part.edges))
          ),
          9
      ) +
      padded(percent(part.local_share()), 12);
  for (const double rate : part.hit_rates) line += padded(percent(rate), 9);
  return line + "\n";
}

}  // namespace

double PartReport::local_share() const {
  return share_of(local_reads, local_reads + remote_reads);
}

double Report::cut() const {
  double local = 0;
  double all = 0;
  for (const PartReport& part : parts) {
    local += static_cast<double>(part.local_edges);
    all += static_cast<double>(part.edges);
  }
  return 1 - share_of(local, all);
}

double Report::local_share() const {
  double local = 0;
  double all = 0;
  for (const PartReport& part : parts) {
    local += part.local_reads;
    all += part.local_reads + part.remote_reads;
  }
  return share_of(local, all);
}

double Report::hit_rate(size_t size) const {
  double hits = 0;
  double all = 0;
  for (const PartReport& part : parts) {
    if (part.hit_rates.at(size) < 0) return -1;
    hits += part.hit_rates.at(size) * part.remote_reads;
    all += part.remote_reads;
  }
  return share_of(hits, all);
}

double imbalance(const std::vector<int64_t>& by_part) {
  const auto sum = std::accumulate(by_part.begin(), by_part.end(), int64_t{0});
  if (sum == 0) {
    return 0;
  }
  const auto most = static_cast<double>(*std::max_element(by_part.begin(), by_part.end()));
  return most * static_cast<double>(by_part.size()) / static_cast<double>(sum) - 1;
}

Report make_report(const data::DatasetArrays& dataset) {
  GNN_ASSERT(
      dataset.partitions && !dataset.partitions->only, "callers have partitioned the data set"
  );
  const data::PartitionBook& book = dataset.partitions->book;
  const Seeds seeds = seeds_of(dataset);
  Report report;
  report.method = book.method;
  for (const data::NodeTable& table : dataset.node_tables) report.node_types.push_back(table.name);
  for (int64_t index = 0; index < book.parts; ++index) {
    PartReport& part = report.parts.emplace_back();
    for (size_t table = 0; table < dataset.node_tables.size(); ++table) {
      part.nodes.push_back(book.range_of(table, index).size());
      const data::HotRows& hot = dataset.partitions->hot[table][static_cast<size_t>(index)];
      part.local_reads += hot.local_reads;
      part.remote_reads += hot.remote_reads;
    }
    add_edges(dataset, index, part);
    const data::IdRange owners = book.range_of(seeds.table, index);
    part.items = std::accumulate(
        seeds.items.begin() + owners.begin, seeds.items.begin() + owners.end, int64_t{0}
    );
    for (size_t size = 0; size < kCacheShares.size(); ++size) {
      const double hits = hits_of(dataset, index, kCacheShares.at(size));
      part.hit_rates.at(size) = hits < 0 ? -1 : share_of(hits, part.remote_reads);
    }
  }
  return report;
}

std::string report_text(const Report& report) {
  std::string text = padded("part", 5) + padded("nodes", 13) + padded("edges", 15) +
                     padded("seeds", 12) + padded("cut", 9) + padded("local rows", 12);
  for (const double share : kCacheShares) {
    text += padded("hit " + std::to_string(std::lround(100 * share)) + " %", 9);
  }
  text += "\n";
  PartReport all;
  all.nodes.push_back(0);
  for (size_t index = 0; index < report.parts.size(); ++index) {
    const PartReport& part = report.parts[index];
    text += line_of(std::to_string(index), part);
    all.nodes[0] += all_nodes(part);
    all.edges += part.edges;
    all.local_edges += part.local_edges;
    all.items += part.items;
    all.local_reads += part.local_reads;
    all.remote_reads += part.remote_reads;
  }
  for (size_t size = 0; size < kCacheShares.size(); ++size) {
    all.hit_rates.at(size) = report.hit_rate(size);
  }
  text += line_of("all", all) + "most above the mean:";
  for (size_t table = 0; table < report.node_types.size(); ++table) {
    text += " " + report.node_types[table] + " " +
            percent(imbalance(nodes_by_part(report, table))) + ",";
  }
  return text + " edges " + percent(imbalance(edges_by_part(report))) + ", seeds " +
         percent(imbalance(items_by_part(report))) + "\n";
}

std::string report_json(const Report& report) {
  const auto rates = [](const auto& rate_of) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (size_t size = 0; size < kCacheShares.size(); ++size) {
      const double rate = rate_of(size);
      nlohmann::ordered_json entry{{"rows", kCacheShares.at(size)}, {"hitRate", nullptr}};
      if (rate >= 0) entry["hitRate"] = rate;
      json.push_back(std::move(entry));
    }
    return json;
  };
  nlohmann::ordered_json json{
      {"method", report.method},
      {"cut", report.cut()},
      {"localShare", report.local_share()},
      {"hitRates", rates([&](size_t size) { return report.hit_rate(size); })},
      {"imbalance",
       {{"edges", imbalance(edges_by_part(report))}, {"seeds", imbalance(items_by_part(report))}}},
      {"parts", nlohmann::ordered_json::array()}
  };
  for (size_t table = 0; table < report.node_types.size(); ++table) {
    json["imbalance"]["nodes"][report.node_types[table]] = imbalance(nodes_by_part(report, table));
  }
  for (const PartReport& part : report.parts) {
    nlohmann::ordered_json entry{
        {"nodes", nlohmann::ordered_json::object()},
        {"edges", part.edges},
        {"localEdges", part.local_edges},
        {"seeds", part.items},
        {"localReads", part.local_reads},
        {"remoteReads", part.remote_reads},
        {"localShare", part.local_share()},
        {"hitRates", rates([&](size_t size) { return part.hit_rates.at(size); })}
    };
    for (size_t table = 0; table < report.node_types.size(); ++table) {
      entry["nodes"][report.node_types[table]] = part.nodes[table];
    }
    json["parts"].push_back(std::move(entry));
  }
  return json.dump(2);
}

}  // namespace gnn::partition
