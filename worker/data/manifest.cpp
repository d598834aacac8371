#include "worker/data/manifest.h"

#include "worker/data/digest.h"
#include "worker/data/io/byte_source.h"
#include "worker/data/number_text.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::data {
namespace {

constexpr std::string_view kFormat = "gnn-native";
constexpr std::string_view kDigestField = "digest: ";
constexpr int64_t kMaxManifestBytes = int64_t{1} << 24U;

void emit_array(YAML::Emitter& out, const ManifestArray& array) {
  out << YAML::Flow << YAML::BeginMap;
  out << YAML::Key << "name" << YAML::Value << array.name;
  out << YAML::Key << "file" << YAML::Value << array.file;
  out << YAML::Key << "dtype" << YAML::Value << std::string(dtype_name(array.dtype));
  out << YAML::Key << "shape" << YAML::Value << YAML::Flow << array.shape;
  out << YAML::Key << "bytes" << YAML::Value << array.file_bytes;
  out << YAML::Key << "digest" << YAML::Value << array.digest;
  out << YAML::EndMap;
}

void emit_reference(YAML::Emitter& out, const char* key, const Array& array) {
  if (array.defined()) {
    out << YAML::Key << key << YAML::Value << array.name();
  }
}

void emit_named(YAML::Emitter& out, const std::string& name, const Array& array) {
  out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << name << YAML::Key
      << "array" << YAML::Value << array.name() << YAML::EndMap;
}

// The main matrix is the first.
void emit_features(YAML::Emitter& out, const NodeTable& table) {
  if (!table.features.defined()) {
    return;
  }
  out << YAML::Key << "features" << YAML::Value << YAML::BeginSeq;
  emit_named(out, table.features_name, table.features);
  for (const NamedFeatures& more : table.more_features) {
    emit_named(out, more.name, more.rows);
  }
  out << YAML::EndSeq;
}

void emit_links(YAML::Emitter& out, const DatasetArrays& dataset) {
  if (!dataset.links) {
    return;
  }
  const auto emit_type = [&](const char* key, size_t index) {
    const EdgeTable& table = dataset.edge_tables[index];
    out << YAML::Key << key << YAML::Value << YAML::Flow
        << std::vector<std::string>{table.source, table.relation, table.destination};
  };
  out << YAML::Key << "links" << YAML::Value << YAML::BeginMap;
  emit_type("edgeType", dataset.links->edge_table);
  if (dataset.links->reverse_edge_table) {
    emit_type("reverse", *dataset.links->reverse_edge_table);
  }
  emit_reference(out, "pairs", dataset.links->pairs);
  out << YAML::EndMap;
}

void emit_types(YAML::Emitter& out, const DatasetArrays& dataset) {
  out << YAML::Key << "nodeTypes" << YAML::Value << YAML::BeginSeq;
  for (const NodeTable& table : dataset.node_tables) {
    out << YAML::BeginMap;
    out << YAML::Key << "name" << YAML::Value << table.name;
    out << YAML::Key << "count" << YAML::Value << table.num_nodes;
    emit_features(out, table);
    emit_reference(out, "labels", table.labels);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "edgeTypes" << YAML::Value << YAML::BeginSeq;
  for (const EdgeTable& table : dataset.edge_tables) {
    out << YAML::BeginMap;
    out << YAML::Key << "source" << YAML::Value << table.source;
    out << YAML::Key << "relation" << YAML::Value << table.relation;
    out << YAML::Key << "destination" << YAML::Value << table.destination;
    emit_reference(out, "indptr", table.indptr);
    emit_reference(out, "indices", table.indices);
    emit_reference(out, "edgeIds", table.edge_ids);
    emit_reference(out, "features", table.features);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

constexpr std::array<std::pair<HopRule, std::string_view>, 2> kHopRules{
    {{HopRule::NewNodes, "NewNodes"}, {HopRule::AllSeen, "AllSeen"}}
};

void emit_draws(YAML::Emitter& out, const BatchDraws& draws) {
  out << YAML::Key << "draws" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "fanouts" << YAML::Value << YAML::Flow << draws.fanouts;
  out << YAML::Key << "batchSize" << YAML::Value << draws.batch_size;
  out << YAML::Key << "replace" << YAML::Value << draws.replace;
  for (const auto& [rule, name] : kHopRules) {
    if (draws.rule == rule) out << YAML::Key << "rule" << YAML::Value << std::string(name);
  }
  out << YAML::Key << "negatives" << YAML::Value << number_text(draws.negatives) << YAML::EndMap;
}

void emit_hot(YAML::Emitter& out, const std::vector<HotRows>& parts) {
  out << YAML::Key << "hot" << YAML::Value << YAML::BeginSeq;
  for (const HotRows& hot : parts) {
    out << YAML::Flow << YAML::BeginMap;
    emit_reference(out, "ids", hot.ids);
    emit_reference(out, "hotness", hot.hotness);
    out << YAML::Key << "localReads" << YAML::Value << number_text(hot.local_reads);
    out << YAML::Key << "remoteReads" << YAML::Value << number_text(hot.remote_reads);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void emit_link_split(YAML::Emitter& out, const StoredLinkSplit& split) {
  const LinkSplitOptions& options = split.options;
  out << YAML::Key << "linkSplit" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "seed" << YAML::Value << options.seed;
  out << YAML::Key << "validation" << YAML::Value << number_text(options.validation);
  out << YAML::Key << "test" << YAML::Value << number_text(options.test);
  out << YAML::Key << "disjointTrain" << YAML::Value << number_text(options.disjoint_train);
  out << YAML::Key << "negativeRatio" << YAML::Value << number_text(options.negative_ratio);
  emit_reference(out, "order", split.order);
  emit_reference(out, "validationNegatives", split.validation_negatives);
  emit_reference(out, "testNegatives", split.test_negatives);
  out << YAML::EndMap;
}

void emit_partitions(YAML::Emitter& out, const DatasetArrays& dataset) {
  if (!dataset.partitions) {
    return;
  }
  const Partitions& partitions = *dataset.partitions;
  const PartitionBook& book = partitions.book;
  out << YAML::Key << "partitions" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "parts" << YAML::Value << book.parts;
  if (partitions.only) {
    out << YAML::Key << "only" << YAML::Value << *partitions.only;
    out << YAML::Key << "whole" << YAML::Value << partitions.whole_digest;
  }
  out << YAML::Key << "method" << YAML::Value << book.method;
  out << YAML::Key << "seed" << YAML::Value << book.seed;
  emit_draws(out, book.draws);
  out << YAML::Key << "nodeTypes" << YAML::Value << YAML::BeginSeq;
  for (size_t table = 0; table < dataset.node_tables.size(); ++table) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << dataset.node_tables[table].name;
    out << YAML::Key << "offsets" << YAML::Value << YAML::Flow << book.offsets[table];
    emit_reference(out, "originalIds", partitions.original_ids[table]);
    emit_hot(out, partitions.hot[table]);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
  if (partitions.link_split) emit_link_split(out, *partitions.link_split);
  out << YAML::EndMap;
}

void emit_origin(YAML::Emitter& out, const Origin& origin) {
  out << YAML::Key << "origin" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "source" << YAML::Value << origin.source;
  out << YAML::Key << "path" << YAML::Value << YAML::DoubleQuoted << origin.path;
  out << YAML::Key << "options" << YAML::Value << YAML::DoubleQuoted << origin.options;
  out << YAML::Key << "inputs" << YAML::Value << YAML::BeginSeq;
  for (const InputFile& input : origin.inputs) {
    out << YAML::Flow << YAML::BeginMap << YAML::Key << "path" << YAML::Value << YAML::DoubleQuoted
        << input.path;
    out << YAML::Key << "bytes" << YAML::Value << input.bytes;
    out << YAML::Key << "digest" << YAML::Value << input.digest << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "facts" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, value] : origin.facts) {
    out << YAML::Key << name << YAML::Value << YAML::DoubleQuoted << value;
  }
  out << YAML::EndMap << YAML::EndMap;
}

enum class Presence { Required, Optional };

// Reads the fields of a YAML map and records the first error with its line.
class FieldReader {
 public:
  explicit FieldReader(std::string where) : where_(std::move(where)) {}

  [[nodiscard]] Status status() const { return status_; }

  void complain(const YAML::Node& node, const std::string& what) {
    if (!status_) {
      return;
    }
    const int line = node.IsDefined() ? node.Mark().line + 1 : 0;
    status_ = fail(
        ErrorKind::Data, where_ + (line > 0 ? ": line " + std::to_string(line) : "") + ": " + what
    );
  }
  // Records an error if `node` has a key that is not in `known`.
  void only(const YAML::Node& node, std::initializer_list<std::string_view> known) {
    if (!node.IsMap()) {
      complain(node, "expected a map");
      return;
    }
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        complain(entry.first, "unknown field '" + key + "'");
      }
    }
  }
  std::string text(const YAML::Node& node, const char* key) {
    const YAML::Node value = get(node, key, Presence::Required);
    return value.IsDefined() && value.IsScalar() ? value.Scalar()
                                                 : wrong<std::string>(value, key, "a string");
  }
  int64_t number(const YAML::Node& node, const char* key) {
    const YAML::Node value = get(node, key, Presence::Required);
    int64_t number = -1;
    if (!value.IsDefined() || !YAML::convert<int64_t>::decode(value, number) || number < 0) {
      return wrong<int64_t>(value, key, "a number that is not negative");
    }
    return number;
  }
  double real(const YAML::Node& node, const char* key) {
    const std::string value = text(node, key);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) {
      return wrong<double>(get(node, key, Presence::Required), key, "a number");
    }
    return number;
  }
  bool truth(const YAML::Node& node, const char* key) {
    const std::string value = text(node, key);
    if (value != "true" && value != "false") {
      return wrong<bool>(get(node, key, Presence::Required), key, "true or false");
    }
    return value == "true";
  }
  // The whole numbers of a list.
  std::vector<int64_t> numbers(const YAML::Node& list) {
    std::vector<int64_t> values;
    if (!list.IsSequence()) {
      complain(list, "expected a list of whole numbers");
      return values;
    }
    for (const auto& item : list) {
      int64_t value = 0;
      if (!YAML::convert<int64_t>::decode(item, value)) {
        complain(item, "expected a whole number");
      }
      values.push_back(value);
    }
    return values;
  }
  // A list; an absent one is empty.
  YAML::Node list(const YAML::Node& node, const char* key) {
    const YAML::Node value = get(node, key, Presence::Optional);
    if (value.IsDefined() && !value.IsSequence()) {
      complain(value, std::string(key) + ": expected a list");
      return {};
    }
    return value;
  }
  YAML::Node get(const YAML::Node& node, const char* key, Presence presence) {
    const YAML::Node value = node.IsMap() ? node[key] : YAML::Node(YAML::NodeType::Undefined);
    if (presence == Presence::Required && !value.IsDefined()) {
      complain(node, std::string("field '") + key + "' is missing");
    }
    return value;
  }

 private:
  template <class T>
  T wrong(const YAML::Node& value, const char* key, const char* expected) {
    if (value.IsDefined()) {
      complain(value, std::string(key) + ": expected " + expected);
    }
    return T{};
  }

  std::string where_;
  Status status_;
};

// A name in a manifest must not lead outside its directory, and messages must not write to a terminal
// what a file says.
void check_file_name(FieldReader& fields, const YAML::Node& node, const std::string& file) {
  const auto is_control = [](char character) {
    const auto code = static_cast<unsigned char>(character);
    return code < 0x20 || code == 0x7F;
  };
  if (std::any_of(file.begin(), file.end(), is_control)) {
    fields.complain(
        node, "file: expected the plain name of a file, found control characters in it"
    );
  } else if (file.empty() || file.find('/') != std::string::npos || file.starts_with('.')) {
    fields.complain(node, "file: expected the plain name of a file, found '" + file + "'");
  }
}

ManifestArray read_array(FieldReader& fields, const YAML::Node& node) {
  ManifestArray array;
  fields.only(node, {"name", "file", "dtype", "shape", "bytes", "digest"});
  array.name = fields.text(node, "name");
  array.file = fields.text(node, "file");
  array.digest = fields.text(node, "digest");
  array.file_bytes = fields.number(node, "bytes");
  const auto dtype = parse_dtype_name(fields.text(node, "dtype"));
  if (dtype) {
    array.dtype = *dtype;
  } else {
    fields.complain(node, dtype.error().message);
  }
  for (const auto& size : fields.list(node, "shape")) {
    int64_t value = -1;
    if (!YAML::convert<int64_t>::decode(size, value) || value < 0) {
      fields.complain(size, "shape: expected sizes that are not negative");
    }
    array.shape.push_back(value);
  }
  check_file_name(fields, node, array.file);
  return array;
}

// An Array that has only its name until the files are mapped.
Array reference(FieldReader& fields, const YAML::Node& node, const char* key, Presence presence) {
  const YAML::Node value = fields.get(node, key, presence);
  if (!value.IsDefined()) {
    return {};
  }
  static const auto kNoData = std::make_shared<int>(0);
  return Array(fields.text(node, key), DType::UInt8, {0}, kNoData, nullptr);
}

// The feature matrices of a node type; version 1 has at most one, without a name.
void read_features(FieldReader& fields, const YAML::Node& node, int64_t version, NodeTable& table) {
  if (version == 1) {
    table.features = reference(fields, node, "features", Presence::Optional);
    return;
  }
  for (const auto& matrix : fields.list(node, "features")) {
    fields.only(matrix, {"name", "array"});
    NamedFeatures named{
        .name = fields.text(matrix, "name"),
        .rows = reference(fields, matrix, "array", Presence::Required)
    };
    if (table.features.defined()) {
      table.more_features.push_back(std::move(named));
    } else {
      table.features_name = std::move(named.name);
      table.features = std::move(named.rows);
    }
  }
}

// The index of the edge type that a list of source, relation and destination names.
std::optional<size_t> read_edge_type(
    FieldReader& fields,
    const YAML::Node& node,
    const char* key,
    Presence presence,
    const DatasetArrays& dataset
) {
  const YAML::Node names = fields.get(node, key, presence);
  if (!names.IsDefined()) {
    return std::nullopt;
  }
  if (!names.IsSequence() || names.size() != 3 || !names[0].IsScalar() || !names[1].IsScalar() ||
      !names[2].IsScalar()) {
    fields.complain(names, std::string(key) + ": expected [source, relation, destination]");
    return std::nullopt;
  }
  const EdgeTypeName name{
      .source = names[0].Scalar(), .relation = names[1].Scalar(), .destination = names[2].Scalar()
  };
  const auto index = find_edge_table(dataset, name);
  if (!index) {
    fields.complain(names, std::string(key) + ": no edge type " + text_of(name));
  }
  return index;
}

void read_links(FieldReader& fields, const YAML::Node& node, DatasetArrays& dataset) {
  fields.only(node, {"edgeType", "reverse", "pairs"});
  LinkTable links;
  links.edge_table =
      read_edge_type(fields, node, "edgeType", Presence::Required, dataset).value_or(0);
  links.reverse_edge_table = read_edge_type(fields, node, "reverse", Presence::Optional, dataset);
  links.pairs = reference(fields, node, "pairs", Presence::Required);
  dataset.links = std::move(links);
}

void read_types(
    FieldReader& fields, const YAML::Node& root, int64_t version, DatasetArrays& dataset
) {
  for (const auto& node : fields.list(root, "nodeTypes")) {
    fields.only(node, {"name", "count", "features", "labels"});
    NodeTable table;
    table.name = fields.text(node, "name");
    table.num_nodes = fields.number(node, "count");
    read_features(fields, node, version, table);
    table.labels = reference(fields, node, "labels", Presence::Optional);
    dataset.node_tables.push_back(std::move(table));
  }
  for (const auto& node : fields.list(root, "edgeTypes")) {
    fields.only(
        node, {"source", "relation", "destination", "indptr", "indices", "edgeIds", "features"}
    );
    EdgeTable table;
    table.source = fields.text(node, "source");
    table.relation = fields.text(node, "relation");
    table.destination = fields.text(node, "destination");
    table.indptr = reference(fields, node, "indptr", Presence::Required);
    table.indices = reference(fields, node, "indices", Presence::Required);
    table.edge_ids = reference(fields, node, "edgeIds", Presence::Optional);
    table.features = reference(fields, node, "features", Presence::Optional);
    dataset.edge_tables.push_back(std::move(table));
  }
}

void read_origin(FieldReader& fields, const YAML::Node& node, Origin& origin) {
  fields.only(node, {"source", "path", "options", "inputs", "facts"});
  origin.source = fields.text(node, "source");
  origin.path = fields.text(node, "path");
  origin.options = fields.text(node, "options");
  for (const auto& input : fields.list(node, "inputs")) {
    fields.only(input, {"path", "bytes", "digest"});
    origin.inputs.push_back(
        {.path = fields.text(input, "path"),
         .bytes = fields.number(input, "bytes"),
         .digest = fields.text(input, "digest")}
    );
  }
  const YAML::Node facts = fields.get(node, "facts", Presence::Optional);
  if (facts.IsDefined() && facts.IsMap()) {
    for (const auto& fact : facts) {
      const auto name = fact.first.as<std::string>();
      origin.facts.emplace_back(name, fields.text(facts, name.c_str()));
    }
  }
}

BatchDraws read_draws(FieldReader& fields, const YAML::Node& node) {
  fields.only(node, {"fanouts", "batchSize", "replace", "rule", "negatives"});
  BatchDraws draws;
  for (const auto& fanout : fields.list(node, "fanouts")) {
    draws.fanouts.push_back(fields.numbers(fanout));
  }
  draws.batch_size = fields.number(node, "batchSize");
  draws.replace = fields.truth(node, "replace");
  draws.negatives = fields.real(node, "negatives");
  const std::string rule = fields.text(node, "rule");
  const auto known = std::find_if(kHopRules.begin(), kHopRules.end(), [&rule](const auto& entry) {
    return entry.second == rule;
  });
  if (known == kHopRules.end()) {
    fields.complain(node, "rule: expected NewNodes or AllSeen, found '" + rule + "'");
  } else {
    draws.rule = known->first;
  }
  return draws;
}

std::vector<HotRows> read_hot(FieldReader& fields, const YAML::Node& node) {
  std::vector<HotRows> parts;
  for (const auto& part : fields.list(node, "hot")) {
    fields.only(part, {"ids", "hotness", "localReads", "remoteReads"});
    parts.push_back(
        {.ids = reference(fields, part, "ids", Presence::Optional),
         .hotness = reference(fields, part, "hotness", Presence::Optional),
         .local_reads = fields.real(part, "localReads"),
         .remote_reads = fields.real(part, "remoteReads")}
    );
  }
  return parts;
}

StoredLinkSplit read_link_split(FieldReader& fields, const YAML::Node& node) {
  fields.only(
      node,
      {"seed",
       "validation",
       "test",
       "disjointTrain",
       "negativeRatio",
       "order",
       "validationNegatives",
       "testNegatives"}
  );
  StoredLinkSplit split;
  split.options = {
      .validation = fields.real(node, "validation"),
      .test = fields.real(node, "test"),
      .disjoint_train = fields.real(node, "disjointTrain"),
      .negative_ratio = fields.real(node, "negativeRatio"),
      .seed = static_cast<uint64_t>(fields.number(node, "seed"))
  };
  split.order = reference(fields, node, "order", Presence::Required);
  split.validation_negatives = reference(fields, node, "validationNegatives", Presence::Required);
  split.test_negatives = reference(fields, node, "testNegatives", Presence::Required);
  return split;
}

void read_partitions(FieldReader& fields, const YAML::Node& node, DatasetArrays& dataset) {
  fields.only(
      node, {"parts", "only", "whole", "method", "seed", "draws", "nodeTypes", "linkSplit"}
  );
  Partitions partitions;
  PartitionBook& book = partitions.book;
  book.parts = fields.number(node, "parts");
  book.method = fields.text(node, "method");
  book.seed = fields.number(node, "seed");
  book.draws = read_draws(fields, fields.get(node, "draws", Presence::Required));
  if (fields.get(node, "only", Presence::Optional).IsDefined()) {
    partitions.only = fields.number(node, "only");
    partitions.whole_digest = fields.text(node, "whole");
  }
  size_t table = 0;
  for (const auto& type : fields.list(node, "nodeTypes")) {
    fields.only(type, {"name", "offsets", "originalIds", "hot"});
    const std::string name = fields.text(type, "name");
    if (table >= dataset.node_tables.size() || dataset.node_tables[table].name != name) {
      fields.complain(type, "expected the node types of the data set, in their order");
    }
    book.offsets.push_back(fields.numbers(fields.get(type, "offsets", Presence::Required)));
    partitions.original_ids.push_back(reference(fields, type, "originalIds", Presence::Required));
    partitions.hot.push_back(read_hot(fields, type));
    ++table;
  }
  if (const YAML::Node split = fields.get(node, "linkSplit", Presence::Optional);
      split.IsDefined()) {
    partitions.link_split = read_link_split(fields, split);
  }
  dataset.partitions = std::move(partitions);
}

void read_root(FieldReader& fields, const YAML::Node& root, int64_t version, Manifest& manifest) {
  fields.only(
      root,
      {"format",
       "version",
       "key",
       "name",
       "task",
       "nodeTypes",
       "edgeTypes",
       "links",
       "split",
       "graphs",
       "partitions",
       "origin",
       "arrays"}
  );
  DatasetArrays& dataset = manifest.dataset;
  manifest.key = fields.text(root, "key");
  dataset.name = fields.text(root, "name");
  const YAML::Node task = fields.get(root, "task", Presence::Required);
  fields.only(task, {"targetNodeType", "numClasses", "classNames"});
  dataset.target_node_type = fields.text(task, "targetNodeType");
  dataset.num_classes = fields.number(task, "numClasses");
  for (const auto& name : fields.list(task, "classNames")) {
    dataset.class_names.push_back(name.as<std::string>());
  }
  read_types(fields, root, version, dataset);
  if (const YAML::Node links = fields.get(root, "links", Presence::Optional); links.IsDefined()) {
    read_links(fields, links, dataset);
  }
  if (const YAML::Node split = fields.get(root, "split", Presence::Optional); split.IsDefined()) {
    fields.only(split, {"train", "validation", "test"});
    dataset.train = reference(fields, split, "train", Presence::Required);
    dataset.validation = reference(fields, split, "validation", Presence::Required);
    dataset.test = reference(fields, split, "test", Presence::Required);
  }
  if (const YAML::Node graphs = fields.get(root, "graphs", Presence::Optional);
      graphs.IsDefined()) {
    fields.only(graphs, {"offsets", "labels"});
    dataset.graph_offsets = reference(fields, graphs, "offsets", Presence::Required);
    dataset.graph_labels = reference(fields, graphs, "labels", Presence::Required);
  }
  if (const YAML::Node partitions = fields.get(root, "partitions", Presence::Optional);
      partitions.IsDefined()) {
    read_partitions(fields, partitions, dataset);
  }
  read_origin(fields, fields.get(root, "origin", Presence::Required), dataset.origin);
  for (const auto& node : fields.list(root, "arrays")) {
    manifest.files.push_back(read_array(fields, node));
  }
}

Result<std::string> read_text(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(const auto source, open_file(path));
  if (source->bytes_left() > kMaxManifestBytes) {
    return fail(ErrorKind::Data, path + ": larger than a manifest can be");
  }
  std::string text(static_cast<size_t>(source->bytes_left()), '\0');
  GNN_RETURN_IF_ERROR(source->read_exactly(std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Result<std::string> encode_manifest(
    const DatasetArrays& dataset, const std::vector<ManifestArray>& files, const std::string& key
) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "format" << YAML::Value << std::string(kFormat);
  out << YAML::Key << "version" << YAML::Value << kNativeVersion;
  out << YAML::Key << "key" << YAML::Value << key;
  out << YAML::Key << "name" << YAML::Value << dataset.name;
  out << YAML::Key << "task" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "targetNodeType" << YAML::Value << dataset.target_node_type;
  out << YAML::Key << "numClasses" << YAML::Value << dataset.num_classes;
  if (!dataset.class_names.empty()) {
    out << YAML::Key << "classNames" << YAML::Value << YAML::Flow << dataset.class_names;
  }
  out << YAML::EndMap;
  emit_types(out, dataset);
  emit_links(out, dataset);
  if (dataset.train.defined()) {
    out << YAML::Key << "split" << YAML::Value << YAML::BeginMap;
    emit_reference(out, "train", dataset.train);
    emit_reference(out, "validation", dataset.validation);
    emit_reference(out, "test", dataset.test);
    out << YAML::EndMap;
  }
  if (dataset.graph_labels.defined()) {
    out << YAML::Key << "graphs" << YAML::Value << YAML::BeginMap;
    emit_reference(out, "offsets", dataset.graph_offsets);
    emit_reference(out, "labels", dataset.graph_labels);
    out << YAML::EndMap;
  }
  emit_partitions(out, dataset);
  emit_origin(out, dataset.origin);
  out << YAML::Key << "arrays" << YAML::Value << YAML::BeginSeq;
  for (const ManifestArray& array : files) {
    emit_array(out, array);
  }
  out << YAML::EndSeq << YAML::EndMap;
  if (!out.good()) {
    return fail(ErrorKind::Internal, "can't write the manifest: " + out.GetLastError());
  }
  std::string text = std::string(out.c_str()) + "\n";
  text += std::string(kDigestField) + digest_of(DigestKind::Xxh64, std::as_bytes(std::span(text))) +
          "\n";
  return text;
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& where) {
  // 1. The digest line, on which trust in the rest depends.
  const size_t at = text.rfind(std::string("\n").append(kDigestField));
  if (at == std::string::npos || !text.ends_with('\n')) {
    return fail(ErrorKind::Data, where + ": expected a last line 'digest: …' (cut short?)");
  }
  const std::string body = text.substr(0, at + 1);
  const std::string found =
      text.substr(at + 1 + kDigestField.size(), text.size() - at - 2 - kDigestField.size());
  Manifest manifest;
  manifest.digest = digest_of(DigestKind::Xxh64, std::as_bytes(std::span(body)));
  try {
    const YAML::Node root = YAML::Load(body);
    FieldReader fields(where);
    // 2. The version before anything that may differ between versions.
    if (fields.text(root, "format") != kFormat) {
      return fail(ErrorKind::Data, where + ": expected 'format: " + std::string(kFormat) + "'");
    }
    const int64_t version = fields.number(root, "version");
    GNN_RETURN_IF_ERROR(fields.status());
    if (version < kOldestNativeVersion || version > kNativeVersion) {
      return fail(
          ErrorKind::Configuration,
          where + ": version " + std::to_string(version) +
              " of the on-disk form, this program knows " + std::to_string(kOldestNativeVersion) +
              " to " + std::to_string(kNativeVersion)
      );
    }
    if (found != manifest.digest) {
      return fail(
          ErrorKind::Data,
          where + ": damaged: its digest is " + manifest.digest + ", it says " + found
      );
    }
    // 3. The fields.
    read_root(fields, root, version, manifest);
    GNN_RETURN_IF_ERROR(fields.status());
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::Data, where + ": not a manifest: " + error.what());
  }
  return manifest;
}

Result<Manifest> read_manifest(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  return parse_manifest(text, path);
}

std::string journal_head(const std::string& key) {
  YAML::Emitter out;
  out << YAML::BeginSeq << YAML::Flow << YAML::BeginMap << YAML::Key << "key" << YAML::Value << key
      << YAML::EndMap << YAML::EndSeq;
  return std::string(out.c_str()) + "\n";
}

Status append_journal(const std::string& path, const ManifestArray& entry) {
  YAML::Emitter out;
  out << YAML::BeginSeq;
  emit_array(out, entry);
  out << YAML::EndSeq;
  const std::string line = std::string(out.c_str()) + "\n";
  const int descriptor = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const bool written =
      descriptor >= 0 &&
      write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      fsync(descriptor) == 0;
  const int code = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (!written) {
    return fail(ErrorKind::Io, path + ": can't write: " + std::strerror(code));
  }
  return {};
}

Result<std::vector<ManifestArray>> read_journal(const std::string& path, const std::string& key) {
  GNN_ASSIGN_OR_RETURN(std::string text, read_text(path));
  const size_t whole = text.rfind('\n') + 1;  // npos + 1 = 0
  if (whole < text.size()) {
    // The last line was never finished. Left in the file, it would corrupt the next entry.
    std::error_code error;
    std::filesystem::resize_file(path, whole, error);
    if (error) {
      return fail(ErrorKind::Io, path + ": can't cut its last line: " + error.message());
    }
    text.resize(whole);
  }
  try {
    const YAML::Node root = YAML::Load(text);
    FieldReader fields(path);
    if (!root.IsSequence() || root.size() == 0 || fields.text(root[0], "key") != key) {
      return fail(ErrorKind::Conflict, path + ": the journal of another import");
    }
    std::vector<ManifestArray> entries;
    for (size_t i = 1; i < root.size(); ++i) {
      entries.push_back(read_array(fields, root[i]));
    }
    GNN_RETURN_IF_ERROR(fields.status());
    return entries;
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::Data, path + ": not a journal: " + error.what());
  }
}

}  // namespace gnn::data
