#include "worker/data/dataset_arrays.h"

#include <algorithm>

namespace gnn::data {

std::string text_of(const EdgeTypeName& name) {
  return "(" + name.source + ", " + name.relation + ", " + name.destination + ")";
}

std::string array_prefix(const EdgeTypeName& name) {
  return "edges." + name.source + "." + name.relation + "." + name.destination;
}

EdgeTypeName name_of(const EdgeTable& table) {
  return {.source = table.source, .relation = table.relation, .destination = table.destination};
}

std::optional<size_t> find_edge_table(const DatasetArrays& dataset, const EdgeTypeName& name) {
  for (size_t i = 0; i < dataset.edge_tables.size(); ++i) {
    if (name_of(dataset.edge_tables[i]) == name) {
      return i;
    }
  }
  return std::nullopt;
}

const NodeTable* find_node_table(const DatasetArrays& dataset, const std::string& name) {
  const auto found = std::find_if(
      dataset.node_tables.begin(),
      dataset.node_tables.end(),
      [&name](const NodeTable& table) { return table.name == name; }
  );
  return found == dataset.node_tables.end() ? nullptr : &*found;
}

}  // namespace gnn::data
