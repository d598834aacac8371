#include "worker/data/readers/package_tags.h"

#include "worker/data/link_dataset.h"
#include "worker/data/readers/package_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using Tags = std::set<std::string>;

// The end of the tag that starts `text`: the first comma outside of braces.
size_t end_of_tag(std::string_view text) {
  bool in_braces = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') {
      in_braces = true;
    } else if (text[at] == '}') {
      in_braces = false;
    } else if (text[at] == ',' && !in_braces) {
      return at;
    }
  }
  return text.size();
}

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_of(" \t,{}") == std::string_view::npos;
}

// Adds "facet::name", or all of "facet::{name,name}"; false for another form.
bool add_tag(std::string_view tag, Tags& tags) {
  const size_t colons = tag.find("::");
  if (colons == std::string_view::npos || !is_name(tag.substr(0, colons))) {
    return false;
  }
  const std::string facet(tag.substr(0, colons + 2));
  std::string_view names = tag.substr(colons + 2);
  if (!names.starts_with('{')) {
    tags.insert(facet + std::string(names));
    return is_name(names);
  }
  if (!names.ends_with('}')) {
    return false;
  }
  names = names.substr(1, names.size() - 2);
  while (true) {
    const size_t end = std::min(names.find(','), names.size());
    const std::string_view name = trim_blanks(names.substr(0, end));
    if (!is_name(name)) {
      return false;
    }
    tags.insert(facet + std::string(name));
    if (end == names.size()) {
      return true;
    }
    names.remove_prefix(end + 1);
  }
}

Result<Tags> parse_tags(const std::string& source, const Package& package) {
  Tags tags;
  std::string_view left = package.tags;
  while (!left.empty()) {
    const size_t end = end_of_tag(left);
    const std::string_view tag = trim_blanks(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    if (!tag.empty() && !add_tag(tag, tags)) {
      return fail(
          ErrorKind::Data,
          source + ": package " + package.name +
              ": Tag: expected facet::name or facet::{name,name}, found '" +
              std::string(tag.substr(0, 40)) + "'"
      );
    }
  }
  return tags;
}

struct TaggedPackage {
  std::string_view description;
  Tags tags;
};

class TagEdges final : public EdgeSource {
 public:
  TagEdges(
      const std::vector<TaggedPackage>& packages, const std::map<std::string_view, int64_t>& tag_ids
  )
      : packages_(packages), tag_ids_(tag_ids) {}

  [[nodiscard]] int64_t num_edges() const override {
    int64_t edges = 0;
    for (const TaggedPackage& package : packages_) {
      edges += static_cast<int64_t>(package.tags.size());
    }
    return edges;
  }
  void for_each_chunk(const Chunk& chunk) const override {
    int64_t source = 0;
    for (const TaggedPackage& package : packages_) {
      for (const std::string& tag : package.tags) {
        const int64_t destination = tag_ids_.at(tag);
        chunk({&source, 1}, {&destination, 1});
      }
      ++source;
    }
  }

 private:
  const std::vector<TaggedPackage>& packages_;
  const std::map<std::string_view, int64_t>& tag_ids_;
};

}  // namespace

Result<DatasetArrays> read_package_tags(
    std::unique_ptr<ByteSource> source,
    const PackageTagsOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const std::string name = source->name();
  GNN_ASSIGN_OR_RETURN(const PackageList list, read_packages(std::move(source), progress));
  std::vector<TaggedPackage> packages;
  for (const auto& [package_name, package] : list.packages) {
    GNN_ASSIGN_OR_RETURN(Tags tags, parse_tags(name, package));
    if (!tags.empty()) {
      packages.push_back({.description = package.description, .tags = std::move(tags)});
    }
  }
  if (packages.empty()) {
    return fail(ErrorKind::Data, name + ": expected packages with a field Tag, found none");
  }
  std::map<std::string_view, int64_t> tag_ids;
  std::vector<std::string_view> descriptions;
  for (const TaggedPackage& package : packages) {
    descriptions.push_back(package.description);
    for (const std::string& tag : package.tags) {
      tag_ids.try_emplace(tag, 0);
    }
  }
  int64_t next_id = 0;
  for (auto& [tag, id] : tag_ids) {
    id = next_id++;
  }
  GNN_ASSIGN_OR_RETURN(
      DatasetArrays dataset,
      link_dataset(
          TagEdges(packages, tag_ids),
          {.name = {.source = "package", .relation = "has", .destination = "tag"},
           .num_sources = static_cast<int64_t>(packages.size()),
           .num_destinations = next_id},
          storage,
          progress
      )
  );
  GNN_ASSIGN_OR_RETURN(
      dataset.node_tables.front().features,
      store_word_features(
          descriptions,
          {.name = "nodes.package.features",
           .num_features = options.num_features,
           .dtype = options.feature_dtype},
          storage
      )
  );
  dataset.name = "package-tags";
  dataset.origin.source = "PackageTags";
  dataset.origin.options = "features=" + std::to_string(options.num_features) +
                           ", featureDtype=" + std::string(dtype_name(options.feature_dtype));
  auto& facts = dataset.origin.facts;
  facts.emplace_back("indexDigest", list.digest);
  facts.emplace_back("packages", std::to_string(list.packages.size()));
  facts.emplace_back("duplicatePackages", std::to_string(list.num_duplicates));
  return dataset;
}

}  // namespace gnn::data
