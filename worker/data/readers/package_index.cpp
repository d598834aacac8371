#include "worker/data/readers/package_index.h"

#include "worker/data/readers/package_list.h"
#include "worker/data/split.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

// Calls `visit` with the name in each clause of "a (>= 1) | b:any [amd64] <!nocheck>, c".
template <class Visit>
void for_each_name(std::string_view relation, const Visit& visit) {
  while (!relation.empty()) {
    const size_t end = std::min(relation.find_first_of(",|"), relation.size());
    std::string_view clause = trim_blanks(relation.substr(0, end));
    clause = clause.substr(0, clause.find_first_of(" \t(:[<"));
    if (!clause.empty()) {
      visit(clause);
    }
    relation.remove_prefix(std::min(end + 1, relation.size()));
  }
}

using NodeIds = std::unordered_map<std::string_view, int64_t>;

struct Edges {
  std::vector<EdgePair> pairs;
  std::array<int64_t, kPackageRelations.size()> counts{};
  int64_t unresolved = 0;  // names that are neither packages nor provided
};

Edges make_edges(const PackageList& index, const NodeIds& ids) {
  std::unordered_map<std::string_view, std::vector<int64_t>> providers;
  for (const auto& [name, package] : index.packages) {
    for_each_name(package.provides, [&, id = ids.at(name)](std::string_view provided) {
      providers[provided].push_back(id);
    });
  }
  Edges edges;
  for (const auto& [name, package] : index.packages) {
    const int64_t from = ids.at(name);
    for (size_t kind = 0; kind < kPackageRelations.size(); ++kind) {
      const auto add = [&](int64_t to) {
        if (to != from) {
          edges.pairs.push_back({.source = from, .destination = to});
          ++edges.counts.at(kind);
        }
      };
      for_each_name(package.relations.at(kind), [&](std::string_view wanted) {
        if (const auto package_id = ids.find(wanted); package_id != ids.end()) {
          add(package_id->second);
        } else if (const auto virtual_name = providers.find(wanted);
                   virtual_name != providers.end()) {
          std::for_each(virtual_name->second.begin(), virtual_name->second.end(), add);
        } else {
          ++edges.unresolved;
        }
      });
    }
  }
  return edges;
}

struct Labels {
  std::vector<int64_t> of_node;
  std::vector<std::string> names;
};

Labels make_labels(const PackageList& index) {
  const auto section_of = [](const Package& package) {
    const size_t slash = package.section.rfind('/');
    return package.section.substr(slash == std::string::npos ? 0 : slash + 1);
  };
  std::map<std::string, int64_t> classes;
  for (const auto& [name, package] : index.packages) {
    if (!package.section.empty()) {
      classes.try_emplace(section_of(package), 0);
    }
  }
  Labels labels;
  for (auto& [section, number] : classes) {
    number = static_cast<int64_t>(labels.names.size());
    labels.names.push_back(section);
  }
  for (const auto& [name, package] : index.packages) {
    labels.of_node.push_back(package.section.empty() ? -1 : classes.at(section_of(package)));
  }
  return labels;
}

}  // namespace

Result<DatasetArrays> read_package_index(
    std::unique_ptr<ByteSource> source,
    const PackageIndexOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const PackageList index, read_packages(std::move(source), progress));
  NodeIds ids;
  for (const auto& [name, package] : index.packages) {
    ids.emplace(name, static_cast<int64_t>(ids.size()));
  }
  const Edges edges = make_edges(index, ids);
  ReadOptions reading;
  reading.to_undirected = options.to_undirected;
  reading.coalesce = true;
  const auto num_nodes = static_cast<int64_t>(ids.size());
  GNN_ASSIGN_OR_RETURN(
      const CscArrays csc,
      build_csc_of(edges.pairs, num_nodes, reading, storage, progress, "package index: edge ")
  );
  std::vector<std::string_view> descriptions;
  for (const auto& [name, package] : index.packages) {
    descriptions.emplace_back(package.description);
  }
  GNN_ASSIGN_OR_RETURN(
      Array features,
      store_word_features(
          descriptions,
          {.name = kFeaturesName,
           .num_features = options.num_features,
           .dtype = options.feature_dtype},
          storage
      )
  );
  Labels labels = make_labels(index);
  if (labels.names.empty()) {
    return fail(ErrorKind::Data, "package index: no package has a field Section");
  }
  GNN_ASSIGN_OR_RETURN(
      const SplitIdLists split,
      random_split(
          labels.of_node,
          {.train = options.train,
           .validation = options.validation,
           .test = 1.0 - options.train - options.validation},
          options.seed
      )
  );
  GNN_ASSIGN_OR_RETURN(Array label_array, store_ids(storage, kLabelsName, labels.of_node));
  DatasetArrays dataset =
      homogeneous("package-index", num_nodes, std::move(features), std::move(label_array), csc);
  dataset.num_classes = static_cast<int64_t>(labels.names.size());
  dataset.class_names = std::move(labels.names);
  GNN_ASSIGN_OR_RETURN(dataset.train, store_ids(storage, kTrainName, split.train));
  GNN_ASSIGN_OR_RETURN(dataset.validation, store_ids(storage, kValidationName, split.validation));
  GNN_ASSIGN_OR_RETURN(dataset.test, store_ids(storage, kTestName, split.test));
  dataset.origin.source = "PackageIndex";
  dataset.origin.options = "features=" + std::to_string(options.num_features) +
                           ", train=" + std::to_string(options.train) +
                           ", validation=" + std::to_string(options.validation) +
                           ", seed=" + std::to_string(options.seed) +
                           ", toUndirected=" + (options.to_undirected ? "true" : "false") +
                           ", featureDtype=" + std::string(dtype_name(options.feature_dtype));
  auto& facts = dataset.origin.facts;
  facts.emplace_back("indexDigest", index.digest);
  for (size_t i = 0; i < kPackageRelations.size(); ++i) {
    facts.emplace_back(
        "edges" + std::string(kPackageRelations.at(i)), std::to_string(edges.counts.at(i))
    );
  }
  facts.emplace_back("edgesMerged", std::to_string(csc.indices.num_elements()));
  facts.emplace_back("namesNobodyProvides", std::to_string(edges.unresolved));
  facts.emplace_back("duplicatePackages", std::to_string(index.num_duplicates));
  return dataset;
}

}  // namespace gnn::data
