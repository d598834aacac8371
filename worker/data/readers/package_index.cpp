#include "worker/data/readers/package_index.h"

#include "worker/data/digest.h"
#include "worker/data/split.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>
#include <xxhash.h>

namespace gnn::data {
namespace {

constexpr size_t kMaxWordBytes = 64;

// The fields that make edges, in the order in which their counts are recorded.
constexpr std::array<std::string_view, 4> kRelations{
    "Pre-Depends", "Depends", "Recommends", "Suggests"
};

struct Package {
  std::string name;
  std::string section;
  std::string description;
  std::string provides;
  std::array<std::string, kRelations.size()> relations;
};

// Passes bytes through and digests them.
class DigestingSource final : public ByteSource {
 public:
  DigestingSource(std::unique_ptr<ByteSource> inner, Digester& digester)
      : inner_(std::move(inner)), digester_(digester) {}
  Result<size_t> read(std::span<std::byte> out) override {
    GNN_ASSIGN_OR_RETURN(const size_t got, inner_->read(out));
    digester_.add(out.first(got));
    return got;
  }
  const std::string& name() const override { return inner_->name(); }
  int64_t file_bytes_read() const override { return inner_->file_bytes_read(); }
  int64_t file_bytes_total() const override { return inner_->file_bytes_total(); }
  int64_t bytes_left() const override { return inner_->bytes_left(); }

 private:
  std::unique_ptr<ByteSource> inner_;
  Digester& digester_;
};

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Calls `visit` with the name in each clause of "a (>= 1) | b:any [amd64] <!nocheck>, c".
template <class Visit>
void for_each_name(std::string_view relation, const Visit& visit) {
  while (!relation.empty()) {
    const size_t end = std::min(relation.find_first_of(",|"), relation.size());
    std::string_view clause = trim(relation.substr(0, end));
    clause = clause.substr(0, clause.find_first_of(" \t(:[<"));
    if (!clause.empty()) {
      visit(clause);
    }
    relation.remove_prefix(std::min(end + 1, relation.size()));
  }
}

// Calls `visit` with the lower-cased words (letters and digits, two at least) of a text.
template <class Visit>
void for_each_word(std::string_view text, const Visit& visit) {
  std::array<char, kMaxWordBytes> word{};
  size_t length = 0;
  const auto finish = [&] {
    if (length >= 2) {
      visit(std::string_view(word.data(), length));
    }
    length = 0;
  };
  for (const char raw : text) {
    const auto byte = static_cast<unsigned char>(raw);
    const bool upper = byte >= 'A' && byte <= 'Z';
    // Bytes from 0x80 on are parts of letters in UTF-8.
    if (upper || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 0x80) {
      if (length < word.size()) {
        word.at(length++) = static_cast<char>(upper ? byte + ('a' - 'A') : byte);
      }
    } else {
      finish();
    }
  }
  finish();
}

// Where a field's value goes; nullptr for fields that are not used.
std::string* place_for(Package& package, std::string_view field) {
  if (field == "Package") {
    return &package.name;
  }
  if (field == "Section") {
    return &package.section;
  }
  // Translated indices have the language in the name of the field.
  if (field == "Description" || field.starts_with("Description-en")) {
    return &package.description;
  }
  if (field == "Provides") {
    return &package.provides;
  }
  for (size_t i = 0; i < kRelations.size(); ++i) {
    if (field == kRelations.at(i)) {
      return &package.relations.at(i);
    }
  }
  return nullptr;
}

struct Index {
  std::map<std::string, Package> packages;  // by name
  int64_t num_duplicates = 0;
  std::string digest;
};

Status keep(Package&& package, const std::string& where, Index& index) {
  if (package.name.empty()) {
    return fail(ErrorKind::Data, where + ": the paragraph ending here has no field Package");
  }
  std::string name = package.name;
  if (!index.packages.try_emplace(std::move(name), std::move(package)).second) {
    ++index.num_duplicates;
  }
  return {};
}

Result<Index> parse(std::unique_ptr<ByteSource> source, ProgressBar& progress) {
  Index index;
  Digester digester(DigestKind::Sha256);
  LineReader lines(std::make_unique<DigestingSource>(std::move(source), digester));
  progress.begin("reading packages", lines.source().file_bytes_total(), "bytes");
  Package package;
  bool in_paragraph = false;
  std::string* value = nullptr;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const LineReader::Line line, lines.next());
    if (line.at_end || line.text.empty()) {
      if (in_paragraph) {
        GNN_RETURN_IF_ERROR(keep(std::exchange(package, {}), lines.where(), index));
      }
      in_paragraph = false;
      if (line.at_end) {
        break;
      }
      progress.advance_to(lines.source().file_bytes_read(), {});
      continue;
    }
    if (line.text.front() == ' ' || line.text.front() == '\t') {  // the field goes on
      if (!in_paragraph) {
        return fail(
            ErrorKind::Data, lines.where() + ": a continuation line without a field before it"
        );
      }
      if (value != nullptr) {
        *value += " ";
        *value += trim(line.text);
      }
      continue;
    }
    const size_t colon = line.text.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return fail(
          ErrorKind::Data,
          lines.where() + ": expected \"Field: value\", found '" +
              std::string(line.text.substr(0, 40)) + "'"
      );
    }
    in_paragraph = true;
    value = place_for(package, line.text.substr(0, colon));
    if (value != nullptr) {
      if (!value->empty()) {
        *value += " ";
      }
      *value += trim(line.text.substr(colon + 1));
    }
  }
  progress.end();
  if (index.packages.empty()) {
    return fail(ErrorKind::Data, lines.source().name() + ": expected packages, found none");
  }
  index.digest = digester.finish();
  return index;
}

using NodeIds = std::unordered_map<std::string_view, int64_t>;

struct Edges {
  std::vector<EdgePair> pairs;
  std::array<int64_t, kRelations.size()> counts{};
  int64_t unresolved = 0;  // names that are neither packages nor provided
};

Edges make_edges(const Index& index, const NodeIds& ids) {
  std::unordered_map<std::string_view, std::vector<int64_t>> providers;
  for (const auto& [name, package] : index.packages) {
    for_each_name(package.provides, [&, id = ids.at(name)](std::string_view provided) {
      providers[provided].push_back(id);
    });
  }
  Edges edges;
  for (const auto& [name, package] : index.packages) {
    const int64_t from = ids.at(name);
    for (size_t kind = 0; kind < kRelations.size(); ++kind) {
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

Result<Array> make_features(
    const Index& index, const PackageIndexOptions& options, ArrayStorage& storage
) {
  ReadOptions reading;
  reading.feature_dtype = options.feature_dtype;
  reading.normalize_rows = true;
  GNN_ASSIGN_OR_RETURN(
      FeatureBuffer features,
      FeatureBuffer::create(
          storage,
          kFeaturesName,
          static_cast<int64_t>(index.packages.size()),
          options.num_features,
          reading
      )
  );
  int64_t row = 0;
  std::vector<float> counts(static_cast<size_t>(options.num_features));
  for (const auto& [name, package] : index.packages) {
    std::fill(counts.begin(), counts.end(), 0.0F);
    for_each_word(package.description, [&](std::string_view word) {
      counts[XXH64(word.data(), word.size(), 0) % counts.size()] += 1.0F;
    });
    GNN_RETURN_IF_ERROR(features.set_row(row++, counts));
  }
  return features.commit(storage);
}

struct Labels {
  std::vector<int64_t> of_node;
  std::vector<std::string> names;
};

Labels make_labels(const Index& index) {
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
  if (options.num_features < 1 || options.num_features > 65536) {
    return fail(
        ErrorKind::Configuration,
        "features: expected between 1 and 65536 columns, found " +
            std::to_string(options.num_features)
    );
  }
  GNN_ASSIGN_OR_RETURN(const Index index, parse(std::move(source), progress));
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
  GNN_ASSIGN_OR_RETURN(Array features, make_features(index, options, storage));
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
  for (size_t i = 0; i < kRelations.size(); ++i) {
    facts.emplace_back("edges" + std::string(kRelations.at(i)), std::to_string(edges.counts.at(i)));
  }
  facts.emplace_back("edgesMerged", std::to_string(csc.indices.num_elements()));
  facts.emplace_back("namesNobodyProvides", std::to_string(edges.unresolved));
  facts.emplace_back("duplicatePackages", std::to_string(index.num_duplicates));
  return dataset;
}

Result<std::string> run_dumpavail() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(
        ErrorKind::Io, std::string("apt-cache: can't make a pipe: ") + std::strerror(errno)
    );
  }
  const pid_t child = fork();
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    dup2(ends[1], STDOUT_FILENO);
    execlp("apt-cache", "apt-cache", "dumpavail", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return fail(ErrorKind::Io, std::string("apt-cache: can't start: ") + std::strerror(errno));
  }
  std::string output;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = read(ends[0], buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    output.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fail(
        ErrorKind::NotFound,
        "apt-cache: not found; on a machine without it, give a saved index as --input"
    );
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorKind::Io, "apt-cache dumpavail: failed with status " + std::to_string(status));
  }
  return output;
}

}  // namespace gnn::data
