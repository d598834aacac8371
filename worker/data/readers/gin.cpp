#include "worker/data/readers/gin.h"

#include "worker/data/readers/edge_spool.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTags = 4096;

Result<std::string> find_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return path;
  }
  std::string found;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".txt") {
      if (!found.empty()) {
        return fail(
            ErrorKind::Configuration, path + ": more than one .txt file, name the one to read"
        );
      }
      found = entry.path().string();
    }
  }
  if (found.empty()) {
    return fail(ErrorKind::NotFound, path + ": expected a .txt file in it");
  }
  return found;
}

// Numbers values in order of first appearance.
class Numbering {
 public:
  int64_t of(int64_t value) {
    return numbers_.try_emplace(value, static_cast<int64_t>(numbers_.size())).first->second;
  }
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(numbers_.size()); }

 private:
  std::map<int64_t, int64_t> numbers_;
};

struct Graphs {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> labels;
  size_t width = 0;  // attributes of a node
  int64_t num_classes = 0;
  int64_t num_tags = 0;
};

// What is made of the lines of a file while it is parsed. Nodes are numbered over all graphs.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual Status edge(int64_t source, int64_t destination) = 0;
  // `tag`: numbered by first appearance.
  virtual Status node(int64_t node, int64_t tag, std::span<const double> attributes) = 0;
};

class Parser {
 public:
  Parser(NumberReader reader, Visitor& visitor) : reader_(std::move(reader)), visitor_(visitor) {}

  Result<Graphs> parse(ProgressBar& progress) {
    std::array<int64_t, 1> count{};
    GNN_RETURN_IF_ERROR(need_line(count, "the number of graphs"));
    if (count[0] < 1) {
      return bad("expected at least one graph, found " + std::to_string(count[0]));
    }
    progress.begin("reading graphs", reader_.source().file_bytes_total(), "bytes");
    for (int64_t graph = 0; graph < count[0]; ++graph) {
      GNN_RETURN_IF_ERROR(parse_graph());
      progress.advance_to(reader_.source().file_bytes_read(), {});
    }
    progress.end();
    std::vector<double> rest;
    GNN_ASSIGN_OR_RETURN(const bool more, reader_.next_doubles(rest));
    if (more) {
      return bad("text after the last of " + std::to_string(count[0]) + " graphs");
    }
    graphs_.num_classes = labels_.count();
    graphs_.num_tags = tags_.count();
    return std::move(graphs_);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> bad(const std::string& what) const {
    return fail(ErrorKind::Data, reader_.where() + ": " + what);
  }
  Status need_line(std::span<int64_t> out, const std::string& what) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader_.next_integers(out));
    if (!more) {
      return bad("the file ends, expected " + what);
    }
    return {};
  }
  Status parse_graph() {
    std::array<int64_t, 2> head{};
    GNN_RETURN_IF_ERROR(
        need_line(head, "\"nodes label\" of graph " + std::to_string(graphs_.labels.size()))
    );
    if (head[0] < 1) {
      return bad(
          "graph " + std::to_string(graphs_.labels.size()) +
          ": expected at least one node, found " + std::to_string(head[0])
      );
    }
    graphs_.labels.push_back(labels_.of(head[1]));
    const int64_t first = graphs_.offsets.back();
    for (int64_t node = 0; node < head[0]; ++node) {
      GNN_RETURN_IF_ERROR(parse_node(first, node, head[0]));
    }
    graphs_.offsets.push_back(first + head[0]);
    return {};
  }
  Status parse_node(int64_t first, int64_t node, int64_t num_nodes) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader_.next_doubles(values_));
    if (!more) {
      return bad(
          "the file ends, expected node " + std::to_string(node) + " of graph " +
          std::to_string(graphs_.labels.size() - 1)
      );
    }
    const auto whole = [](double value) {
      return std::trunc(value) == value && std::abs(value) < 9.0e15;
    };
    if (values_.size() < 2 || !whole(values_[0]) || !whole(values_[1]) || values_[1] < 0 ||
        values_[1] > static_cast<double>(values_.size() - 2)) {
      return bad("expected \"tag degree neighbour…\" with as many neighbours as the degree says");
    }
    const int64_t tag = tags_.of(static_cast<int64_t>(values_[0]));
    const auto degree = static_cast<size_t>(values_[1]);
    for (size_t i = 2; i < 2 + degree; ++i) {
      if (!whole(values_[i]) || values_[i] < 0 || values_[i] >= static_cast<double>(num_nodes)) {
        return bad(
            "neighbour " + std::to_string(i - 2) + ": expected a node in [0, " +
            std::to_string(num_nodes) + "), found " + std::to_string(values_[i])
        );
      }
      GNN_RETURN_IF_ERROR(visitor_.edge(first + node, first + static_cast<int64_t>(values_[i])));
    }
    const size_t width = values_.size() - 2 - degree;
    if (first + node > 0 && width != graphs_.width) {
      return bad(
          "expected " + std::to_string(graphs_.width) + " attributes as before, found " +
          std::to_string(width)
      );
    }
    graphs_.width = width;
    return visitor_.node(first + node, tag, std::span(values_).subspan(2 + degree));
  }

  NumberReader reader_;
  Visitor& visitor_;
  Graphs graphs_;
  Numbering labels_;
  Numbering tags_;
  std::vector<double> values_;
};

Result<Graphs> parse(const std::string& file, Visitor& visitor, ProgressBar& progress) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(file, ' '));
  return Parser(std::move(reader), visitor).parse(progress);
}

// Keeps the edges.
class EdgeVisitor final : public Visitor {
 public:
  explicit EdgeVisitor(EdgeSpool spool) : spool_(std::move(spool)) {}

  Status edge(int64_t source, int64_t destination) override {
    return spool_.add(source, destination);
  }
  Status node(int64_t, int64_t, std::span<const double>) override { return {}; }
  [[nodiscard]] EdgeSpool& spool() { return spool_; }

 private:
  EdgeSpool spool_;
};

// Hands over attributes as rows of features, or tags as one-hot rows if there are no attributes.
class RowVisitor final : public Visitor {
 public:
  RowVisitor(size_t width, const FeatureRows::Visit& visit) : row_(width), visit_(visit) {}

  Status edge(int64_t, int64_t) override { return {}; }
  Status node(int64_t node, int64_t tag, std::span<const double> attributes) override {
    if (attributes.empty()) {
      std::fill(row_.begin(), row_.end(), 0.0F);
      row_[static_cast<size_t>(tag)] = 1.0F;
    } else {
      std::transform(attributes.begin(), attributes.end(), row_.begin(), [](double value) {
        return static_cast<float>(value);
      });
    }
    return visit_(node, row_);
  }

 private:
  std::vector<float> row_;
  const FeatureRows::Visit& visit_;
};

Result<Array> make_features(
    const Graphs& graphs,
    const std::string& file,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(Array done, storage.find(kFeaturesName));
  if (done.defined()) {
    return done;
  }
  if (graphs.width == 0 && graphs.num_tags > kMaxTags) {
    return fail(
        ErrorKind::Data,
        file + ": " + std::to_string(graphs.num_tags) +
            " kinds of tags are too many for a one-hot, at most " + std::to_string(kMaxTags) +
            " are supported"
    );
  }
  const size_t width = graphs.width > 0 ? graphs.width : static_cast<size_t>(graphs.num_tags);
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    RowVisitor rows(width, visit);
    GNN_RETURN_IF_ERROR(parse(file, rows, progress));
    return {};
  };
  return store_features(
      {.name = kFeaturesName,
       .num_rows = graphs.offsets.back(),
       .width = static_cast<int64_t>(width),
       .read = read},
      options,
      storage
  );
}

}  // namespace

Result<DatasetArrays> read_gin(
    const std::string& path,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const std::string file, find_file(path));
  EdgeVisitor edge_visitor(EdgeSpool(storage, file + ": edge "));
  GNN_ASSIGN_OR_RETURN(const Graphs graphs, parse(file, edge_visitor, progress));
  GNN_RETURN_IF_ERROR(edge_visitor.spool().finish());
  const int64_t num_nodes = graphs.offsets.back();
  GNN_ASSIGN_OR_RETURN(
      const CscArrays edges,
      build_csc(
          edge_visitor.spool(), csc_options(num_nodes, options), storage, kEdgesName, progress
      )
  );
  GNN_ASSIGN_OR_RETURN(Array features, make_features(graphs, file, options, storage, progress));
  DatasetArrays dataset =
      homogeneous(fs::path(file).stem().string(), num_nodes, std::move(features), Array(), edges);
  dataset.num_classes = graphs.num_classes;
  GNN_ASSIGN_OR_RETURN(dataset.graph_offsets, store_ids(storage, "graphs.offsets", graphs.offsets));
  GNN_ASSIGN_OR_RETURN(dataset.graph_labels, store_ids(storage, "graphs.labels", graphs.labels));
  dataset.origin.source = "GIN";
  dataset.origin.path = path;
  dataset.origin.options = describe(options);
  return dataset;
}

}  // namespace gnn::data
