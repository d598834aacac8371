#include "worker/data/readers/typed_edge_list.h"

#include "worker/data/csc_builder.h"
#include "worker/data/readers/edge_spool.h"
#include "worker/data/readers/npy_arrays.h"
#include "worker/data/readers/plain_files.h"
#include "worker/data/transforms.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSuffixes{".npy", ".csv.gz", ".csv"};
constexpr const char* kSeparator = "__";
constexpr int64_t kNodesAnyway = 1'000'000;
constexpr int64_t kNodesPerByte = 64;
constexpr const char* kFeaturesPrefix = "features.";

tl::unexpected<Error> bad_file(const std::string& path, const std::string& what) {
  return fail(ErrorKind::Data, path + ": " + what);
}

bool is_type_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_' || character == '-';
  });
}

// The entries of a folder that are not hidden, by name; none if there is no such folder.
Result<std::vector<fs::path>> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return entries;
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with('.')) {
      entries.push_back(entry.path());
    }
  }
  if (error) {
    return fail(ErrorKind::Io, folder + ": can't list the folder: " + error.message());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// The file's name without its suffix, or "" if it is no file of an edge list.
std::string stem_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view suffix : kSuffixes) {
    if (name.ends_with(suffix)) {
      return name.substr(0, name.size() - suffix.size());
    }
  }
  return "";
}

// The files of a node type's folder by their stems. A stem that is not known is a typing error.
Result<std::map<std::string, std::string>> node_files(const fs::path& folder) {
  constexpr std::array kStems{"num_nodes", "features", "labels", "train", "validation", "test"};
  std::map<std::string, std::string> files;
  GNN_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, entries_of(folder.string()));
  for (const fs::path& path : entries) {
    const std::string stem = stem_of(path);
    if (stem.empty()) {
      continue;
    }
    const bool further = stem.starts_with(kFeaturesPrefix) &&
                         is_type_name(stem.substr(std::string_view(kFeaturesPrefix).size()));
    if (!further && std::find(kStems.begin(), kStems.end(), stem) == kStems.end()) {
      return bad_file(
          path.string(),
          "expected num_nodes, features, features.NAME, labels, train, validation or test, NAME "
          "being letters, digits, '_' and '-'"
      );
    }
    if (const auto [other, added] = files.emplace(stem, path.string()); !added) {
      return bad_file(path.string(), stem + " is also in " + other->second + "; keep one of them");
    }
  }
  return files;
}

// A node type under construction.
struct NodeType {
  NodeTable table;
  std::string folder;
  std::map<std::string, std::string> files;
  std::string counted_in;  // the file that says how many nodes there are; empty: none does
};

// Each file that tells the number of nodes must tell the same.
Status set_count(NodeType& type, int64_t count, const std::string& file) {
  if (count < 1) {
    return bad_file(
        file,
        "expected at least one node of type '" + type.table.name + "', found " +
            std::to_string(count)
    );
  }
  if (!type.counted_in.empty() && type.table.num_nodes != count) {
    return bad_file(
        file,
        "is of " + std::to_string(count) + " nodes, " + type.counted_in + " of " +
            std::to_string(type.table.num_nodes)
    );
  }
  type.table.num_nodes = count;
  type.counted_in = file;
  return {};
}

// `edge_bytes`: the size of all edge files.
Status read_count(NodeType& type, int64_t edge_bytes, ArrayStorage& storage) {
  const auto file = type.files.find("num_nodes");
  if (file == type.files.end()) {
    return {};
  }
  GNN_ASSIGN_OR_RETURN(const Array column, read_column(file->second, storage));
  const auto numbers = column.view<int64_t>();
  if (numbers.size() != 1) {
    return bad_file(file->second, "expected one number, found " + std::to_string(numbers.size()));
  }
  // One damaged number must not exhaust memory, and few nodes have no edge at all.
  if (numbers.front() > kNodesAnyway + kNodesPerByte * edge_bytes) {
    return bad_file(
        file->second,
        std::to_string(numbers.front()) + " nodes are implausible for " +
            std::to_string(edge_bytes) + " bytes of edges"
    );
  }
  return set_count(type, numbers.front(), file->second);
}

// Matrices in the order of their names, but "features" first.
Status read_matrices(
    NodeType& type, const ReadOptions& options, ArrayStorage& storage, ProgressBar& progress
) {
  for (const auto& [stem, path] : type.files) {
    if (stem != kMainFeatures && !stem.starts_with(kFeaturesPrefix)) {
      continue;
    }
    const std::string name =
        stem == kMainFeatures ? stem : stem.substr(std::string_view(kFeaturesPrefix).size());
    const std::string array = "nodes." + type.table.name + "." + stem;
    GNN_ASSIGN_OR_RETURN(Array rows, storage.find(array));
    if (!rows.defined()) {
      ReadOptions reading = options;
      reading.normalize_rows = options.normalize_rows && stem == kMainFeatures;
      GNN_ASSIGN_OR_RETURN(rows, read_plain_features(path, array, reading, storage, progress));
    }
    GNN_RETURN_IF_ERROR(set_count(type, rows.size(0), path));
    if (type.table.features.defined()) {
      type.table.more_features.push_back({.name = name, .rows = std::move(rows)});
    } else {
      type.table.features_name = name;
      type.table.features = std::move(rows);
    }
  }
  return {};
}

Result<std::vector<NodeType>> list_node_types(const std::string& folder) {
  std::vector<NodeType> types;
  GNN_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, entries_of(folder + "/nodes"));
  for (const fs::path& path : entries) {
    std::error_code error;
    const std::string name = path.filename().string();
    if (!fs::is_directory(path, error) || !is_type_name(name)) {
      return bad_file(
          path.string(), "expected a folder named like a node type: letters, digits, '_' and '-'"
      );
    }
    NodeType type;
    type.table.name = name;
    type.folder = path.string();
    GNN_ASSIGN_OR_RETURN(type.files, node_files(path));
    types.push_back(std::move(type));
  }
  return types;
}

// An edge type under construction. Its edges are read only if they are needed.
struct EdgeType {
  EdgeTypeName name;
  std::string path;
  std::unique_ptr<EdgeSource> edges;
};

Result<EdgeTypeName> parse_edge_type(const fs::path& path) {
  std::vector<std::string> parts;
  std::string rest = stem_of(path);
  for (size_t at = rest.find(kSeparator); at != std::string::npos; at = rest.find(kSeparator)) {
    parts.push_back(rest.substr(0, at));
    rest = rest.substr(at + std::string_view(kSeparator).size());
  }
  parts.push_back(rest);
  if (parts.size() != 3 || !std::all_of(parts.begin(), parts.end(), is_type_name)) {
    return bad_file(
        path.string(),
        "expected SOURCE__RELATION__DESTINATION.npy, .csv.gz or .csv, of letters, digits, '_' and "
        "'-'"
    );
  }
  return EdgeTypeName{.source = parts[0], .relation = parts[1], .destination = parts[2]};
}

Result<std::vector<EdgeType>> list_edge_types(const std::string& folder) {
  std::vector<EdgeType> types;
  GNN_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, entries_of(folder + "/edges"));
  for (const fs::path& path : entries) {
    GNN_ASSIGN_OR_RETURN(EdgeTypeName name, parse_edge_type(path));
    const auto other = std::find_if(types.begin(), types.end(), [&name](const EdgeType& type) {
      return type.name == name;
    });
    if (other != types.end()) {
      return bad_file(
          path.string(),
          "edge type " + text_of(name) + " is also in " + other->path + "; keep one of them"
      );
    }
    types.push_back({.name = std::move(name), .path = path.string(), .edges = nullptr});
  }
  if (types.empty()) {
    return fail(
        ErrorKind::NotFound, folder + "/edges: expected SOURCE__RELATION__DESTINATION.csv or .npy"
    );
  }
  return types;
}

tl::unexpected<Error> missing_type(
    const std::string& path, const std::string& folder, const std::string& name
) {
  return bad_file(
      path, "no node type '" + name + "'; expected the folder " + folder + "/nodes/" + name
  );
}

// Reads one folder: its state, and the steps in their order.
class TypedEdgeList {
 public:
  TypedEdgeList(
      std::string folder, const ReadOptions& options, ArrayStorage& storage, ProgressBar& progress
  )
      : folder_(std::move(folder)), options_(options), storage_(storage), progress_(progress) {}

  Result<DatasetArrays> read();

 private:
  Status list_types();
  NodeType* find_type(const std::string& name);
  Status read_nodes();
  Status count_by_edges();
  Status open_edges(EdgeType& type);
  Result<CscArrays> sort_edges(EdgeType& type);
  Status read_labels(DatasetArrays& dataset);

  std::string folder_;
  const ReadOptions& options_;
  ArrayStorage& storage_;
  ProgressBar& progress_;
  std::vector<NodeType> nodes_;
  std::vector<EdgeType> edges_;
};

NodeType* TypedEdgeList::find_type(const std::string& name) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&name](const NodeType& type) {
    return type.table.name == name;
  });
  return found == nodes_.end() ? nullptr : &*found;
}

// The types, and that the options make sense for them.
Status TypedEdgeList::list_types() {
  GNN_ASSIGN_OR_RETURN(edges_, list_edge_types(folder_));
  GNN_ASSIGN_OR_RETURN(nodes_, list_node_types(folder_));
  const bool listed = !nodes_.empty();
  DatasetArrays types;
  for (const EdgeType& edges : edges_) {
    for (const std::string& name : {edges.name.source, edges.name.destination}) {
      if (find_type(name) != nullptr) {
        continue;
      }
      if (listed) {
        return missing_type(edges.path, folder_, name);
      }
      NodeType type;
      type.table.name = name;
      nodes_.push_back(std::move(type));
    }
    EdgeTable table;
    table.source = edges.name.source;
    table.relation = edges.name.relation;
    table.destination = edges.name.destination;
    types.edge_tables.push_back(std::move(table));
  }
  for (const NodeType& type : nodes_) types.node_tables.push_back(type.table);
  return check_transforms(
      types, {.to_undirected = options_.to_undirected, .self_loops = options_.self_loops}
  );
}

Status TypedEdgeList::read_nodes() {
  int64_t edge_bytes = 0;
  for (const EdgeType& type : edges_) {
    std::error_code error;
    edge_bytes += static_cast<int64_t>(fs::file_size(type.path, error));
    if (error) {
      return bad_file(type.path, "expected a file: " + error.message());
    }
  }
  for (NodeType& type : nodes_) {
    GNN_RETURN_IF_ERROR(read_count(type, edge_bytes, storage_));
    if (const auto labels = type.files.find("labels"); labels != type.files.end()) {
      GNN_ASSIGN_OR_RETURN(const Array column, read_column(labels->second, storage_));
      GNN_RETURN_IF_ERROR(set_count(type, column.num_elements(), labels->second));
    }
    GNN_RETURN_IF_ERROR(read_matrices(type, options_, storage_, progress_));
  }
  return {};
}

Status TypedEdgeList::open_edges(EdgeType& type) {
  if (type.edges != nullptr) {
    return {};
  }
  if (!type.path.ends_with(".npy")) {
    EdgeSpool empty(storage_, type.path + ": edge ");
    GNN_ASSIGN_OR_RETURN(
        EdgeSpool text, read_text_edges(type.path, 0, std::move(empty), progress_)
    );
    type.edges = std::make_unique<EdgeSpool>(std::move(text));
    return {};
  }
  const NodeType* source = find_type(type.name.source);
  const NodeType* destination = find_type(type.name.destination);
  const bool counted = !source->counted_in.empty() && !destination->counted_in.empty();
  GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(type.path));
  GNN_ASSIGN_OR_RETURN(
      ArrayEdges edges,
      read_npy_ends(
          std::move(reader),
          counted ? std::max(source->table.num_nodes, destination->table.num_nodes)
                  : std::numeric_limits<int64_t>::max(),
          storage_,
          progress_
      )
  );
  type.edges = std::make_unique<ArrayEdges>(std::move(edges));
  return {};
}

// The nodes of types that no file counts.
Status TypedEdgeList::count_by_edges() {
  struct Count {
    int64_t largest_id = -1;
    int64_t num_edges = 0;
  };
  std::map<std::string, Count> counts;
  for (const NodeType& type : nodes_) {
    if (type.counted_in.empty()) counts.emplace(type.table.name, Count{});
  }
  for (EdgeType& type : edges_) {
    const auto source = counts.find(type.name.source);
    const auto destination = counts.find(type.name.destination);
    if (source == counts.end() && destination == counts.end()) {
      continue;
    }
    GNN_RETURN_IF_ERROR(open_edges(type));
    const auto look = [](Count& count, std::span<const int64_t> ids) {
      count.largest_id = std::max(count.largest_id, *std::max_element(ids.begin(), ids.end()));
      count.num_edges += static_cast<int64_t>(ids.size());
    };
    type.edges->for_each_chunk([&](std::span<const int64_t> sources,
                                   std::span<const int64_t> destinations) {
      if (source != counts.end()) look(source->second, sources);
      if (destination != counts.end()) look(destination->second, destinations);
    });
  }
  for (NodeType& type : nodes_) {
    if (!type.counted_in.empty()) {
      continue;
    }
    const Count& count = counts[type.table.name];
    const std::string folder = folder_ + "/nodes/" + type.table.name;
    if (count.largest_id < 0) {
      return bad_file(
          folder, "nothing says how many nodes there are, not even an edge; add num_nodes.csv"
      );
    }
    // Nothing else bounds the ids, and one damaged id must not exhaust memory.
    if (count.largest_id >= 64 * count.num_edges + 1024) {
      return bad_file(
          folder,
          "the largest id in the edges, " + std::to_string(count.largest_id) +
              ", is implausible for " + std::to_string(count.num_edges) +
              " edges; add num_nodes.csv"
      );
    }
    type.table.num_nodes = count.largest_id + 1;
    type.counted_in = folder;
  }
  return {};
}

Result<CscArrays> TypedEdgeList::sort_edges(EdgeType& type) {
  const bool within = type.name.source == type.name.destination;
  CscOptions csc{
      .num_sources = find_type(type.name.source)->table.num_nodes,
      .num_destinations = find_type(type.name.destination)->table.num_nodes,
      .to_undirected = options_.to_undirected && within,
      .coalesce = options_.coalesce,
      .self_loops = options_.self_loops
  };
  const bool linked = options_.link == type.name;
  if (linked) {
    csc.link_ids = within ? LinkIds::WithinType : LinkIds::BetweenTypes;
  }
  GNN_ASSIGN_OR_RETURN(CscArrays done, find_csc(storage_, array_prefix(type.name), linked));
  if (done.indptr.defined()) {
    return done;
  }
  GNN_RETURN_IF_ERROR(open_edges(type));
  return build_csc(*type.edges, csc, storage_, array_prefix(type.name), progress_);
}

// Labels and split, which make their type the target.
Status TypedEdgeList::read_labels(DatasetArrays& dataset) {
  const NodeType* target = nullptr;
  for (const NodeType& type : nodes_) {
    if (!type.files.contains("labels") && !type.files.contains("train")) {
      continue;
    }
    if (target != nullptr) {
      return bad_file(
          type.folder,
          "has labels or a split, as " + target->folder + " has; one node type can be classified"
      );
    }
    target = &type;
  }
  dataset.target_node_type = (target == nullptr ? nodes_.front() : *target).table.name;
  if (target == nullptr) {
    return {};
  }
  const auto place = static_cast<size_t>(target - nodes_.data());
  if (const auto file = target->files.find("labels"); file != target->files.end()) {
    GNN_ASSIGN_OR_RETURN(const Array column, read_column(file->second, storage_));
    const auto labels = column.view<int64_t>();
    GNN_ASSIGN_OR_RETURN(
        dataset.num_classes, count_classes(labels, options_, file->second + ": label ")
    );
    const std::string array = "nodes." + target->table.name + ".labels";
    GNN_ASSIGN_OR_RETURN(dataset.node_tables[place].labels, store_ids(storage_, array, labels));
    dataset.read_from[array] = file->second;
  }
  GNN_ASSIGN_OR_RETURN(
      SplitArrays split,
      read_plain_split(target->folder, options_, target->table.num_nodes, storage_)
  );
  take_split(dataset, std::move(split));
  return {};
}

Result<DatasetArrays> TypedEdgeList::read() {
  GNN_RETURN_IF_ERROR(list_types());
  GNN_RETURN_IF_ERROR(read_nodes());
  GNN_RETURN_IF_ERROR(count_by_edges());
  DatasetArrays dataset;
  dataset.name = fs::path(folder_ + "/").lexically_normal().parent_path().filename().string();
  for (const NodeType& type : nodes_) dataset.node_tables.push_back(type.table);
  GNN_RETURN_IF_ERROR(read_labels(dataset));
  for (EdgeType& type : edges_) {
    GNN_ASSIGN_OR_RETURN(CscArrays csc, sort_edges(type));
    type.edges.reset();
    dataset.edge_tables.push_back(
        {.source = type.name.source,
         .relation = type.name.relation,
         .destination = type.name.destination,
         .indptr = std::move(csc.indptr),
         .indices = std::move(csc.indices),
         .edge_ids = std::move(csc.edge_ids),
         .features = {}}
    );
  }
  dataset.origin.source = "EdgeList";
  dataset.origin.path = folder_;
  dataset.origin.options = describe(options_);
  return dataset;
}

}  // namespace

bool is_typed_edge_list(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder + "/nodes", error) || fs::is_directory(folder + "/edges", error);
}

Result<DatasetArrays> read_typed_edge_list(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  return TypedEdgeList(folder, options, storage, progress).read();
}

}  // namespace gnn::data
