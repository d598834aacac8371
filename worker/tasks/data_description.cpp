#include "worker/tasks/data_description.h"

#include "common/api/codec.h"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace gnn::tasks {
namespace {

// No data set has more of anything, and sums of as many do not overflow.
constexpr int64_t kMostOfAnything = int64_t{1} << 48;

Error malformed(const std::string& what) {
  return {ErrorKind::Data, "description of a data set: expected " + what};
}

// Reads fields of an object, and keeps the first error.
class Reader {
 public:
  explicit Reader(const nlohmann::json& object) : object_(object) {}

  void text(const char* name, std::string& into) {
    if (const nlohmann::json* value = find(name); value != nullptr && value->is_string()) {
      into = value->get<std::string>();
    } else {
      refuse(name, "a text");
    }
  }
  void number(const char* name, int64_t least, int64_t& into) {
    const nlohmann::json* value = find(name);
    if (value != nullptr && value->is_number_integer()) {
      into = value->get<int64_t>();
      if (into >= least && into <= kMostOfAnything) return;
    }
    refuse(name, "a whole number of at least " + std::to_string(least));
  }
  // The elements of a list.
  [[nodiscard]] const nlohmann::json& list(const char* name) {
    static const nlohmann::json kNone = nlohmann::json::array();
    const nlohmann::json* value = find(name);
    if (value != nullptr && value->is_array()) return *value;
    refuse(name, "a list");
    return kNone;
  }
  void numbers(const char* name, std::vector<int64_t>& into) {
    int64_t sum = 0;
    for (const nlohmann::json& value : list(name)) {
      into.push_back(value.is_number_integer() ? value.get<int64_t>() : -1);
      if (into.back() < 0 || into.back() > kMostOfAnything - sum)
        return refuse(name, "whole numbers from 0");
      sum += into.back();
    }
  }
  void refuse(const char* name, const std::string& expected) {
    if (!error_) error_ = malformed(expected + " as " + name);
  }
  [[nodiscard]] Status status() const {
    if (error_) return tl::unexpected(*error_);
    return {};
  }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const nlohmann::json& object_;
  std::optional<Error> error_;
};

constexpr std::array<const char*, 3> kItems{"trainItems", "validationItems", "testItems"};

Result<DescribedNodes> decode_nodes(const nlohmann::json& object) {
  DescribedNodes nodes;
  Reader reader(object);
  reader.text("name", nodes.name);
  reader.number("nodes", 0, nodes.num_nodes);
  reader.number("width", -1, nodes.width);
  GNN_RETURN_IF_ERROR(reader.status());
  return nodes;
}

Result<DescribedEdges> decode_edges(const nlohmann::json& object, int64_t num_node_types) {
  DescribedEdges edges;
  Reader reader(object);
  reader.text("source", edges.source);
  reader.text("relation", edges.relation);
  reader.text("destination", edges.destination);
  reader.number("sourceIndex", 0, edges.source_index);
  reader.number("destinationIndex", 0, edges.destination_index);
  if (std::max(edges.source_index, edges.destination_index) >= num_node_types)
    reader.refuse("edges", "node types that are there");
  GNN_RETURN_IF_ERROR(reader.status());
  return edges;
}

}  // namespace

DataDescription describe_data(const graph::Dataset& dataset) {
  DataDescription data{
      .name = dataset.name,
      .digest = dataset.digest,
      .num_classes = dataset.num_classes,
      .nodes = {},
      .edges = {}
  };
  for (const graph::NodeTypeData& type : dataset.node_types) {
    data.nodes.push_back(
        {.name = type.name,
         .num_nodes = type.num_nodes,
         .width = type.features ? type.features->width() : -1}
    );
  }
  for (const graph::EdgeTypeData& type : dataset.edge_types) {
    data.edges.push_back(
        {.source = type.source,
         .relation = type.relation,
         .destination = type.destination,
         .source_index = type.source_index,
         .destination_index = type.destination_index}
    );
  }
  if (dataset.links) data.link = dataset.links->edge_type;
  return data;
}

graph::Dataset types_of(const DataDescription& data) {
  graph::Dataset dataset;
  dataset.name = data.name;
  dataset.digest = data.digest;
  dataset.num_classes = data.num_classes;
  for (const DescribedNodes& nodes : data.nodes) {
    graph::NodeTypeData& type = dataset.node_types.emplace_back();
    type.name = nodes.name;
    type.num_nodes = nodes.num_nodes;
  }
  const graph::CscGraph none =
      graph::CscGraph::create(at::zeros({1}, at::kLong), at::empty({0}, at::kLong), 0).value();
  for (const DescribedEdges& edges : data.edges) {
    dataset.edge_types.push_back(
        {.source = edges.source,
         .relation = edges.relation,
         .destination = edges.destination,
         .source_index = edges.source_index,
         .destination_index = edges.destination_index,
         .graph = none,
         .features = {}}
    );
  }
  return dataset;
}

std::string encode(const DataDescription& data) {
  nlohmann::json object{
      {"text", data.text},
      {"name", data.name},
      {"digest", data.digest},
      {"configHash", data.config_hash},
      {"classes", data.num_classes},
      {"link", data.link.value_or(-1)},
      {"nodes", nlohmann::json::array()},
      {"edges", nlohmann::json::array()},
  };
  for (const DescribedNodes& nodes : data.nodes) {
    object["nodes"].push_back(
        {{"name", nodes.name}, {"nodes", nodes.num_nodes}, {"width", nodes.width}}
    );
  }
  for (const DescribedEdges& edges : data.edges) {
    object["edges"].push_back(
        {{"source", edges.source},
         {"relation", edges.relation},
         {"destination", edges.destination},
         {"sourceIndex", edges.source_index},
         {"destinationIndex", edges.destination_index}}
    );
  }
  for (size_t part = 0; part < kItems.size(); ++part) object[kItems.at(part)] = data.items.at(part);
  // Names that are no UTF-8 are for people alone.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<DataDescription> decode_description(std::string_view text) {
  const auto parsed = api::parse_json(text);
  if (!parsed) return tl::unexpected(malformed("JSON: " + parsed.error().message));
  DataDescription data;
  Reader reader(*parsed);
  reader.text("text", data.text);
  reader.text("name", data.name);
  reader.text("digest", data.digest);
  reader.text("configHash", data.config_hash);
  reader.number("classes", 0, data.num_classes);
  for (const nlohmann::json& object : reader.list("nodes")) {
    GNN_ASSIGN_OR_RETURN(auto nodes, decode_nodes(object));
    data.nodes.push_back(std::move(nodes));
  }
  for (const nlohmann::json& object : reader.list("edges")) {
    GNN_ASSIGN_OR_RETURN(auto edges, decode_edges(object, static_cast<int64_t>(data.nodes.size())));
    data.edges.push_back(std::move(edges));
  }
  int64_t link = -1;
  reader.number("link", -1, link);
  if (link >= static_cast<int64_t>(data.edges.size()))
    reader.refuse("link", "an edge type that is there");
  if (link >= 0) data.link = link;
  if (data.nodes.empty()) reader.refuse("nodes", "a node type");
  for (size_t part = 0; part < kItems.size(); ++part)
    reader.numbers(kItems.at(part), data.items.at(part));
  GNN_RETURN_IF_ERROR(reader.status());
  return data;
}

std::vector<int64_t> counts_of(const sampling::core::ItemSamplerOptions& options) {
  if (options.parts == nullptr) return {options.num_items};
  std::vector<int64_t> counts;
  for (int64_t part = 0; part < options.parts->count(); ++part)
    counts.push_back(options.parts->size_of(part));
  return counts;
}

Result<sampling::core::ItemSamplerOptions> with_counts(
    sampling::core::ItemSamplerOptions options,
    const std::vector<int64_t>& counts,
    api::Sharding sharding,
    int64_t partitions,
    const Ranks& ranks
) {
  const bool by_owner = sharding == api::Sharding::Owner;
  const int64_t expected = by_owner ? partitions : 1;
  if (static_cast<int64_t>(counts.size()) != expected) {
    return fail(
        ErrorKind::Data,
        "the servers' data set: expected items of " + std::to_string(expected) +
            " partitions (spec.placement.partitions), found " + std::to_string(counts.size())
    );
  }
  sampling::core::ItemParts parts{.items = {}, .offsets = {0}};
  for (const int64_t count : counts) parts.offsets.push_back(parts.offsets.back() + count);
  options.num_items = parts.offsets.back();
  if (!by_owner) return options;
  options.split = sampling::core::SplitRule::Owner;
  options.parts = std::make_shared<const sampling::core::ItemParts>(std::move(parts));
  options.ranks_per_node = ranks.per_node;
  return options;
}

}  // namespace gnn::tasks
