#include "worker/app/inspect_data.h"

#include "worker/data/native.h"
#include "worker/graph/load.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

std::string array_text(const data::Array& array) {
  return array.defined()
             ? std::string(data::dtype_name(array.dtype())) + " " + data::shape_text(array.shape())
             : "none";
}

nlohmann::ordered_json array_json(const data::Array& array) {
  if (!array.defined()) {
    return nullptr;
  }
  return {
      {"array", array.name()},
      {"dtype", data::dtype_name(array.dtype())},
      {"shape", array.shape()},
      {"bytes", array.num_bytes()}
  };
}

// All feature matrices of a node type by their names, the main one first.
std::vector<data::NamedFeatures> matrices_of(const data::NodeTable& table) {
  std::vector<data::NamedFeatures> matrices = table.more_features;
  if (table.features.defined()) {
    matrices.insert(matrices.begin(), {.name = table.features_name, .rows = table.features});
  }
  return matrices;
}

std::string features_text(const data::NodeTable& table) {
  std::string text;
  for (const data::NamedFeatures& matrix : matrices_of(table)) {
    text += ", " + matrix.name + " " + array_text(matrix.rows);
  }
  return text.empty() ? ", features none" : text;
}

nlohmann::ordered_json features_json(const data::NodeTable& table) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const data::NamedFeatures& matrix : matrices_of(table)) {
    nlohmann::ordered_json entry{{"name", matrix.name}};
    entry.update(array_json(matrix.rows));
    json.push_back(std::move(entry));
  }
  return json;
}

std::string edge_type_text(const data::EdgeTable& table) {
  return table.source + " -" + table.relation + "-> " + table.destination;
}

nlohmann::ordered_json edge_type_json(const data::EdgeTable& table) {
  return {
      {"source", table.source}, {"relation", table.relation}, {"destination", table.destination}
  };
}

nlohmann::ordered_json links_json(const data::DatasetArrays& arrays) {
  const data::LinkTable& links = *arrays.links;
  nlohmann::ordered_json json{
      {"edgeType", edge_type_json(arrays.edge_tables[links.edge_table])},
      {"reverse", nullptr},
      {"count", links.pairs.size(0)},
      {"pairs", array_json(links.pairs)}
  };
  if (links.reverse_edge_table) {
    json["reverse"] = edge_type_json(arrays.edge_tables[*links.reverse_edge_table]);
  }
  return json;
}

void print_links(const data::DatasetArrays& arrays, std::ostream& out) {
  const data::LinkTable& links = *arrays.links;
  out << "links           " << edge_type_text(arrays.edge_tables[links.edge_table]) << ": "
      << links.pairs.size(0) << " links, ";
  if (!links.reverse_edge_table) {
    out << "no reverse edge type\n";
  } else if (*links.reverse_edge_table == links.edge_table) {
    out << "undirected\n";
  } else {
    out << "reverse " << edge_type_text(arrays.edge_tables[*links.reverse_edge_table]) << "\n";
  }
}

nlohmann::ordered_json draws_json(const data::BatchDraws& draws) {
  return {
      {"fanouts", draws.fanouts},
      {"batchSize", draws.batch_size},
      {"replace", draws.replace},
      {"rule", draws.rule == data::HopRule::AllSeen ? "AllSeen" : "NewNodes"},
      {"negatives", draws.negatives}
  };
}

nlohmann::ordered_json partitions_json(const data::DatasetArrays& arrays) {
  const data::Partitions& partitions = *arrays.partitions;
  nlohmann::ordered_json json{
      {"parts", partitions.book.parts},
      {"only", nullptr},
      {"method", partitions.book.method},
      {"seed", partitions.book.seed},
      {"draws", draws_json(partitions.book.draws)},
      {"nodeTypes", nlohmann::ordered_json::array()}
  };
  if (partitions.only) {
    json["only"] = *partitions.only;
    json["whole"] = partitions.whole_digest;
  }
  if (const auto& split = partitions.link_split) {
    json["linkSplit"] = {
        {"seed", split->options.seed},
        {"validation", split->options.validation},
        {"test", split->options.test},
        {"disjointTrain", split->options.disjoint_train},
        {"negativeRatio", split->options.negative_ratio}
    };
  }
  for (size_t table = 0; table < arrays.node_tables.size(); ++table) {
    nlohmann::ordered_json hot = nlohmann::ordered_json::array();
    for (const data::HotRows& rows : partitions.hot[table]) {
      hot.push_back(
          {{"localReads", rows.local_reads},
           {"remoteReads", rows.remote_reads},
           {"ids", array_json(rows.ids)}}
      );
    }
    json["nodeTypes"].push_back(
        {{"name", arrays.node_tables[table].name},
         {"offsets", partitions.book.offsets[table]},
         {"hot", std::move(hot)}}
    );
  }
  return json;
}

void print_partitions(const data::DatasetArrays& arrays, std::ostream& out) {
  const data::Partitions& partitions = *arrays.partitions;
  out << "partitions      " << partitions.book.parts << " by " << partitions.book.method;
  if (partitions.only) {
    out << ", of which part " << *partitions.only << " alone is here";
  }
  out << "\n";
  if (partitions.link_split) {
    out << "link split      " << data::describe(partitions.link_split->options) << "\n";
  }
  for (int64_t part = 0; part < partitions.book.parts; ++part) {
    out << "part            " << part << ":";
    for (size_t table = 0; table < arrays.node_tables.size(); ++table) {
      const data::IdRange range = partitions.book.range_of(table, part);
      const data::HotRows& hot = partitions.hot[table][static_cast<size_t>(part)];
      out << (table > 0 ? ";" : "") << " " << arrays.node_tables[table].name << " [" << range.begin
          << ", " << range.end << "), reads " << hot.local_reads << " local and "
          << hot.remote_reads << " remote rows a batch";
      if (hot.ids.defined()) {
        out << ", " << hot.ids.num_elements() << " hot ids";
      }
    }
    out << "\n";
  }
}

struct Degrees {
  int64_t largest = 0;
  int64_t isolated = 0;  // nodes without an in-edge
};

Degrees degrees_of(const data::EdgeTable& table) {
  Degrees degrees;
  const auto indptr = table.indptr.view<int64_t>();
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    const int64_t degree = indptr[node + 1] - indptr[node];
    degrees.largest = std::max(degrees.largest, degree);
    degrees.isolated += degree == 0 ? 1 : 0;
  }
  return degrees;
}

nlohmann::ordered_json to_json(const data::NativeDataset& dataset) {
  const data::DatasetArrays& arrays = dataset.arrays;
  nlohmann::ordered_json json{
      {"name", arrays.name},
      {"key", dataset.key},
      {"manifestDigest", dataset.manifest_digest},
      {"numClasses", arrays.num_classes},
      {"targetNodeType", arrays.target_node_type},
      {"nodeTypes", nlohmann::ordered_json::array()},
      {"edgeTypes", nlohmann::ordered_json::array()},
  };
  for (const data::NodeTable& table : arrays.node_tables) {
    json["nodeTypes"].push_back(
        {{"name", table.name},
         {"count", table.num_nodes},
         {"features", features_json(table)},
         {"labels", array_json(table.labels)}}
    );
  }
  for (const data::EdgeTable& table : arrays.edge_tables) {
    const Degrees degrees = degrees_of(table);
    json["edgeTypes"].push_back(
        {{"source", table.source},
         {"relation", table.relation},
         {"destination", table.destination},
         {"count", table.indices.num_elements()},
         {"largestInDegree", degrees.largest},
         {"nodesWithoutInEdge", degrees.isolated},
         {"indptr", array_json(table.indptr)},
         {"indices", array_json(table.indices)},
         {"edgeIds", array_json(table.edge_ids)},
         {"features", array_json(table.features)}}
    );
  }
  if (arrays.links) {
    json["links"] = links_json(arrays);
  }
  if (arrays.partitions) {
    json["partitions"] = partitions_json(arrays);
  }
  if (arrays.train.defined()) {
    json["split"] = {
        {"train", arrays.train.num_elements()},
        {"validation", arrays.validation.num_elements()},
        {"test", arrays.test.num_elements()}
    };
  }
  if (arrays.graph_labels.defined()) {
    json["numGraphs"] = arrays.graph_labels.num_elements();
  }
  json["origin"] = {
      {"source", arrays.origin.source},
      {"path", arrays.origin.path},
      {"options", arrays.origin.options}
  };
  for (const auto& [name, value] : arrays.origin.facts) {
    json["origin"]["facts"][name] = value;
  }
  return json;
}

void print_text(const data::NativeDataset& dataset, std::ostream& out) {
  const data::DatasetArrays& arrays = dataset.arrays;
  out << "name            " << arrays.name << "\n";
  for (const data::NodeTable& table : arrays.node_tables) {
    out << "node type       " << table.name << ": " << table.num_nodes << " nodes"
        << features_text(table) << ", labels " << array_text(table.labels) << "\n";
  }
  for (const data::EdgeTable& table : arrays.edge_tables) {
    const Degrees degrees = degrees_of(table);
    out << "edge type       " << edge_type_text(table) << ": " << table.indices.num_elements()
        << " edges (" << data::dtype_name(table.indices.dtype()) << " ids), largest in-degree "
        << degrees.largest << ", " << degrees.isolated << " nodes without in-edge\n";
  }
  if (arrays.links) {
    print_links(arrays, out);
  }
  if (arrays.partitions) {
    print_partitions(arrays, out);
  }
  out << "classes         " << arrays.num_classes << " of " << arrays.target_node_type << "\n";
  if (arrays.graph_labels.defined()) {
    out << "graphs          " << arrays.graph_labels.num_elements() << "\n";
  }
  if (arrays.train.defined()) {
    out << "split           " << arrays.train.num_elements() << " train, "
        << arrays.validation.num_elements() << " validation, " << arrays.test.num_elements()
        << " test\n";
  } else {
    out << "split           none\n";
  }
  out << "made from       " << arrays.origin.source << (arrays.origin.path.empty() ? "" : " ")
      << arrays.origin.path << "\n";
  out << "options         " << arrays.origin.options << "\n";
  for (const auto& [name, value] : arrays.origin.facts) {
    out << "fact            " << name << " = " << value << "\n";
  }
  int64_t bytes = 0;
  for (const data::ManifestArray& file : dataset.files) {
    bytes += file.file_bytes;
    out << "array           " << file.name << ": " << data::dtype_name(file.dtype) << " "
        << data::shape_text(file.shape) << "\n";
  }
  out << "on disk         " << dataset.files.size() << " arrays, "
      << short_count(static_cast<double>(bytes)) << "B\n";
  out << "manifest        " << dataset.manifest_digest << "\n";
}

}  // namespace

Status inspect_data(const std::string& folder, InspectFormat format, const DataConsole& console) {
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset dataset, data::open_native(folder));
  if (format == InspectFormat::Json) {
    console.out << to_json(dataset).dump(2) << "\n";
  } else {
    print_text(dataset, console.out);
  }
  return {};
}

Status verify_data(const std::string& folder, const DataConsole& console) {
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset dataset, data::open_native(folder));
  GNN_RETURN_IF_ERROR(data::verify_digests(folder, dataset, console.progress));
  GNN_RETURN_IF_ERROR(graph::make_dataset(dataset.arrays, folder));
  console.out << folder << ": intact (" << summary(dataset.arrays) << ")\n";
  return {};
}

}  // namespace gnn::app
