#include "worker/data/generate.h"

#include "worker/data/communities.h"
#include "worker/data/counter_random.h"
#include "worker/data/csc_builder.h"
#include "worker/data/generate_bipartite.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// Compiled with -ffp-contract=off (CMakeLists.txt): with fused multiply-adds, machines would give
// different bits.
namespace gnn::data {
namespace {

struct ShapeSpec {
  Shape shape;
  std::string_view name;
  int64_t num_nodes;
  int64_t num_pairs;  // undirected edges; 0: all that were drawn
  int64_t width;
  int64_t num_classes;
  int64_t num_train;
  int64_t num_validation;
  double hub;         // lower end A of the power law's cube root: the smaller, the larger the hubs
  double oversample;  // edges drawn per edge wanted, to make up for duplicates
  // Directed edges of a graph that is not made undirected, whose duplicates stay; 0: undirected.
  int64_t num_directed = 0;
  int64_t num_test = 0;  // 0: all that are left, and all nodes have a label
};
// Sizes: Open Graph Benchmark (Hu et al. 2020) after symmetrising; Reddit (Hamilton et al. 2017)
// after coalescing; PyG's FakeDataset; papers100M as it is, directed. `hub` gives products and Reddit
// their largest degree, arxiv half of it.
constexpr std::array<ShapeSpec, 6> kShapes{{
    {Shape::Arxiv, "ogbn-arxiv", 169'343, 1'157'799, 128, 40, 90'941, 29'799, 0.03, 1.12},
    {Shape::Products, "ogbn-products", 2'449'029, 61'859'140, 100, 47, 196'615, 39'323, 0.031, 1.12
    },
    {Shape::Reddit, "reddit", 232'965, 57'307'946, 602, 41, 153'431, 23'831, 0.09, 1.6},
    {Shape::FakeDataset, "fake-dataset", 100'000, 0, 64, 10, 60'000, 20'000, 0.0, 1.0},
    {Shape::Taobao, "taobao", 0, 0, 0, 0, 0, 0, 0.0, 1.0},  // see generate_bipartite.cpp
    {Shape::Papers100M,
     "ogbn-papers100M",
     111'059'956,
     0,
     128,
     172,
     1'207'179,
     125'265,
     0.01,
     1.0,
     1'615'685'872,
     214'338},
}};
constexpr int64_t kFakeDegree = 10;

// The streams of random bits, one per quantity drawn.
constexpr uint64_t kEdges = 1;
constexpr uint64_t kPermutation = 2;
constexpr uint64_t kFlip = 3;
constexpr uint64_t kFlippedTo = 4;
constexpr uint64_t kMeans = 5;
constexpr uint64_t kNoise = 6;
constexpr uint64_t kSplitOrder = 7;
constexpr uint64_t kNumNodes = 8;
constexpr uint64_t kFakeLabels = 9;
constexpr uint64_t kShuffle = 64;        // four streams
constexpr uint64_t kLabelledNodes = 68;  // four streams

const ShapeSpec& spec_of(Shape shape) {
  return kShapes.at(static_cast<size_t>(shape));
}

class CommunityEdges final : public EdgeSource {
 public:
  CommunityEdges(const Communities& communities, int64_t num_edges, double hub, uint64_t seed)
      : communities_(communities), num_edges_(num_edges), law_(hub), random_(seed, kEdges) {}

  [[nodiscard]] int64_t num_edges() const override { return num_edges_; }

  void for_each_chunk(const Chunk& chunk) const override {
    constexpr int64_t kChunk = 4096;
    std::array<int64_t, kChunk> sources{};
    std::array<int64_t, kChunk> destinations{};
    for (int64_t begin = 0; begin < num_edges_; begin += kChunk) {
      const auto size = static_cast<size_t>(std::min(kChunk, num_edges_ - begin));
      for (size_t i = 0; i < size; ++i) {
        const Ends ends = edge(static_cast<uint64_t>(begin) + i);
        sources[i] = communities_.node_at(ends.first);
        destinations[i] = communities_.node_at(ends.second);
      }
      chunk(std::span(sources).first(size), std::span(destinations).first(size));
    }
  }

 private:
  struct Ends {
    int64_t first;
    int64_t second;
  };
  static constexpr uint64_t kDraws = 4;   // numbers that a try takes
  static constexpr uint64_t kTries = 16;  // a self-loop is redrawn

  [[nodiscard]] Ends edge(uint64_t index) const {
    Ends ends{};
    for (uint64_t attempt = 0; attempt < kTries; ++attempt) {
      const uint64_t at = (index * kTries + attempt) * kDraws;
      const int64_t home = communities_.at(random_.bits(at));
      ends.first = communities_.place_in(home, law_, random_.uniform(at + 1));
      // The third number decides whether the edge stays in the community and, if not, where it goes.
      const uint64_t third = random_.bits(at + 2);
      const bool stays = static_cast<double>(third >> 11U) * 0x1p-53 < kHomophily;
      ends.second = communities_.place_in(
          stays ? home : communities_.at(random_.bits(at + 2 + num_edges_offset())),
          law_,
          random_.uniform(at + 3)
      );
      if (ends.first != ends.second) {
        break;
      }
    }
    return ends;
  }
  [[nodiscard]] uint64_t num_edges_offset() const {
    return static_cast<uint64_t>(num_edges_) * kTries * kDraws;
  }

  const Communities& communities_;
  int64_t num_edges_;
  PowerLaw law_;
  CounterRandom random_;
};

// Draws both ends uniformly, without self-loops.
class UniformEdges final : public EdgeSource {
 public:
  UniformEdges(int64_t num_nodes, int64_t num_edges, uint64_t seed)
      : num_nodes_(num_nodes), num_edges_(num_edges), random_(seed, kEdges) {}

  [[nodiscard]] int64_t num_edges() const override { return num_edges_; }

  void for_each_chunk(const Chunk& chunk) const override {
    for (int64_t i = 0; i < num_edges_; ++i) {
      const auto at = static_cast<uint64_t>(2 * i);
      const int64_t source = random_.below(at, num_nodes_);
      const int64_t other = random_.below(at + 1, num_nodes_ - 1);
      const int64_t destination = other + (other >= source ? 1 : 0);
      chunk({&source, 1}, {&destination, 1});
    }
  }

 private:
  int64_t num_nodes_;
  int64_t num_edges_;
  CounterRandom random_;
};

// Four 16-bit uniforms summed, centred and scaled to unit variance: close to normal, and the same
// bits on every machine, unlike the log and cos of mathematical libraries.
float noise(uint64_t bits) {
  const uint64_t sum =
      (bits & 0xFFFFU) + ((bits >> 16U) & 0xFFFFU) + ((bits >> 32U) & 0xFFFFU) + (bits >> 48U);
  constexpr float kScale = 1.0F / 37837.227F;  // 65536 / sqrt(3)
  return (static_cast<float>(sum) - 131070.0F) * kScale;
}

// The plan of a data set.
struct Job {
  const ShapeSpec& spec;
  const GenerateOptions& options;
  int64_t num_nodes;
  ArrayStorage& storage;
  ProgressBar& progress;
};

// Which nodes are in which part of a split that leaves most nodes out: by a random rank, which takes no
// memory.
class SparseSplit {
 public:
  enum Part { Train, Validation, Test, None };

  explicit SparseSplit(const Job& job)
      : ranks_(job.num_nodes, job.options.seed, kLabelledNodes),
        ends_{
            share(job, job.spec.num_train),
            share(job, job.spec.num_train) + share(job, job.spec.num_validation),
            share(job, job.spec.num_train) + share(job, job.spec.num_validation) +
                share(job, job.spec.num_test)
        } {}

  // As many as the original has, by scale, but at least one.
  static int64_t share(const Job& job, int64_t part) {
    return std::max<int64_t>(job.num_nodes * part / job.spec.num_nodes, 1);
  }
  [[nodiscard]] Part of(int64_t node) const {
    const int64_t rank = ranks_.at(node);
    return static_cast<Part>(std::upper_bound(ends_.begin(), ends_.end(), rank) - ends_.begin());
  }
  [[nodiscard]] int64_t size(Part part) const {
    const auto place = static_cast<size_t>(part);
    return ends_.at(place) - (place == 0 ? 0 : ends_.at(place - 1));
  }

 private:
  Permutation ranks_;
  std::array<int64_t, 3> ends_;
};

// The class of each node that its features and most of its labels follow.
class PlantedClasses {
 public:
  // `communities`: null where classes are random; must outlive it where they have no order.
  PlantedClasses(const Job& job, const Communities* communities) {
    if (communities != nullptr && communities->shuffle) {
      communities_ = communities;
      return;
    }
    by_node_.resize(static_cast<size_t>(job.num_nodes));
    if (communities == nullptr) {
      const CounterRandom random(job.options.seed, kFakeLabels);
      for (size_t node = 0; node < by_node_.size(); ++node) {
        by_node_[node] = static_cast<int32_t>(random.below(node, job.spec.num_classes));
      }
      return;
    }
    for (int64_t c = 0; c < job.spec.num_classes; ++c) {
      const auto from = static_cast<size_t>(communities->starts[static_cast<size_t>(c)]);
      const auto to = static_cast<size_t>(communities->starts[static_cast<size_t>(c) + 1]);
      for (size_t place = from; place < to; ++place) {
        by_node_[static_cast<size_t>(communities->order[place])] = static_cast<int32_t>(c);
      }
    }
  }

  [[nodiscard]] int64_t of(int64_t node) const {
    return communities_ == nullptr ? by_node_[static_cast<size_t>(node)]
                                   : communities_->of(communities_->shuffle->place_of(node));
  }

 private:
  std::vector<int32_t> by_node_;
  const Communities* communities_ = nullptr;
};

Result<Array> make_labels(const Job& job, const PlantedClasses& planted) {
  GNN_ASSIGN_OR_RETURN(Array done, job.storage.find(kLabelsName));
  if (done.defined()) {
    return done;
  }
  GNN_ASSIGN_OR_RETURN(
      Array labels, job.storage.create(kLabelsName, DType::Int64, {job.num_nodes})
  );
  const std::span<int64_t> out = labels.mutable_view<int64_t>();
  const CounterRandom flip(job.options.seed, kFlip);
  const CounterRandom to(job.options.seed, kFlippedTo);
  std::optional<SparseSplit> split;
  if (job.spec.num_test > 0) {
    split.emplace(job);
  }
  for (size_t node = 0; node < out.size(); ++node) {
    const auto id = static_cast<int64_t>(node);
    if (split && split->of(id) == SparseSplit::None) {
      out[node] = -1;
      continue;
    }
    const bool flipped = flip.uniform(node) < job.options.flipped_labels;
    out[node] = flipped ? to.below(node, job.spec.num_classes) : planted.of(id);
  }
  return job.storage.commit(std::move(labels));
}

Result<Array> make_features(
    const Job& job, const PlantedClasses& planted, const Array& label_array
) {
  GNN_ASSIGN_OR_RETURN(Array done, job.storage.find(kFeaturesName));
  if (done.defined()) {
    return done;
  }
  const int64_t width = job.spec.width;
  const bool fake = job.spec.shape == Shape::FakeDataset;
  std::vector<float> means(static_cast<size_t>(job.spec.num_classes * width));
  const CounterRandom sign(job.options.seed, kMeans);
  const float size = kSignal / std::sqrt(static_cast<float>(width));
  for (size_t i = 0; i < means.size(); ++i) {
    // PyG's FakeDataset adds the label itself to every column.
    const size_t label = i / static_cast<size_t>(width);
    means[i] = fake ? static_cast<float>(label) : (sign.bits(i) >> 63U) != 0 ? size : -size;
  }
  ReadOptions storing;
  storing.feature_dtype = job.options.feature_dtype;
  GNN_ASSIGN_OR_RETURN(
      FeatureBuffer features,
      FeatureBuffer::create(job.storage, kFeaturesName, job.num_nodes, width, storing)
  );
  const CounterRandom random(job.options.seed, kNoise);
  job.progress.begin("features", job.num_nodes, "rows");
  // FakeDataset's features follow the label, the others' the planted community.
  const std::span<const int64_t> labels = label_array.view<int64_t>();
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t node = 0; node < job.num_nodes; ++node) {
    const int64_t of_class = fake ? labels[static_cast<size_t>(node)] : planted.of(node);
    const float* mean = means.data() + of_class * width;
    const auto first = static_cast<uint64_t>(node * width);
    for (size_t column = 0; column < row.size(); ++column) {
      row[column] = mean[column] + noise(random.bits(first + column));
    }
    GNN_RETURN_IF_ERROR(features.set_row(node, row));
    if ((node & 0xFFF) == 0) {
      job.progress.advance_to(node, {});
    }
  }
  job.progress.advance_to(job.num_nodes, {});
  job.progress.end();
  return features.commit(job.storage);
}

// The split of a shape whose nodes without a part have no label.
Status make_sparse_split(const Job& job, DatasetArrays& dataset) {
  const SparseSplit split(job);
  struct Ids {
    SparseSplit::Part part;
    const char* name;
    Array& array;
  };
  for (const Ids& ids :
       {Ids{SparseSplit::Train, kTrainName, dataset.train},
        Ids{SparseSplit::Validation, kValidationName, dataset.validation},
        Ids{SparseSplit::Test, kTestName, dataset.test}}) {
    GNN_ASSIGN_OR_RETURN(ids.array, job.storage.find(ids.name));
    if (ids.array.defined()) {
      continue;
    }
    GNN_ASSIGN_OR_RETURN(
        Array array, job.storage.create(ids.name, DType::Int64, {split.size(ids.part)})
    );
    auto next = array.mutable_view<int64_t>().begin();
    for (int64_t node = 0; node < job.num_nodes; ++node) {
      if (split.of(node) == ids.part) {
        *next++ = node;
      }
    }
    GNN_ASSIGN_OR_RETURN(ids.array, job.storage.commit(std::move(array)));
  }
  return {};
}

Status make_split(const Job& job, DatasetArrays& dataset) {
  if (job.spec.num_test > 0) {
    return make_sparse_split(job, dataset);
  }
  const int64_t num_train = SparseSplit::share(job, job.spec.num_train);
  const int64_t num_validation = SparseSplit::share(job, job.spec.num_validation);
  const std::vector<int32_t> order =
      shuffled_order(job.num_nodes, CounterRandom(job.options.seed, kSplitOrder));
  const auto part = [&](const char* name, int64_t begin, int64_t end) {
    std::vector<int64_t> ids(order.begin() + begin, order.begin() + end);
    std::sort(ids.begin(), ids.end());
    return store_ids(job.storage, name, ids);
  };
  GNN_ASSIGN_OR_RETURN(dataset.train, part(kTrainName, 0, num_train));
  GNN_ASSIGN_OR_RETURN(
      dataset.validation, part(kValidationName, num_train, num_train + num_validation)
  );
  GNN_ASSIGN_OR_RETURN(dataset.test, part(kTestName, num_train + num_validation, job.num_nodes));
  return {};
}

Result<CscArrays> make_edges(const Job& job, const Communities* communities) {
  CscOptions csc{
      .num_sources = job.num_nodes, .num_destinations = job.num_nodes, .to_undirected = true
  };
  if (job.spec.num_directed > 0) {
    csc.to_undirected = false;
    const auto drawn = std::llround(static_cast<double>(job.spec.num_directed) * job.options.scale);
    const CommunityEdges edges(*communities, drawn, job.spec.hub, job.options.seed);
    return build_csc(edges, csc, job.storage, kEdgesName, job.progress);
  }
  if (communities == nullptr) {
    const UniformEdges edges(job.num_nodes, job.num_nodes * kFakeDegree, job.options.seed);
    return build_csc(edges, csc, job.storage, kEdgesName, job.progress);
  }
  csc.max_pairs =
      static_cast<int64_t>(std::llround(static_cast<double>(job.spec.num_pairs) * job.options.scale)
      );
  // In smaller communities more edges are duplicates.
  const double smaller = std::max(1.0 / std::sqrt(job.options.scale) - 1.0, 0.0);
  const double oversample = std::min(job.spec.oversample + 0.25 * smaller, 3.0);
  const auto drawn =
      static_cast<int64_t>(std::llround(static_cast<double>(csc.max_pairs) * oversample));
  const CommunityEdges edges(*communities, drawn, job.spec.hub, job.options.seed);
  return build_csc(edges, csc, job.storage, kEdgesName, job.progress);
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + "0" : text;
}

Result<DatasetArrays> generate_homogeneous(
    const GenerateOptions& options, ArrayStorage& storage, ProgressBar& progress
) {
  const ShapeSpec& spec = spec_of(options.shape);
  const bool fake = options.shape == Shape::FakeDataset;
  auto num_nodes =
      static_cast<int64_t>(std::llround(static_cast<double>(spec.num_nodes) * options.scale));
  if (fake) {  // uniform in [3/4, 5/4] of the average, as FakeDataset draws it
    num_nodes =
        num_nodes * 3 / 4 + CounterRandom(options.seed, kNumNodes).below(0, num_nodes / 2 + 1);
  }
  // In smaller communities every edge would be a self-loop.
  if (num_nodes < 4 * spec.num_classes) {
    return fail(
        ErrorKind::Configuration,
        "scale " + number_text(options.scale) + " leaves " + std::to_string(num_nodes) +
            " nodes of " + std::string(spec.name) + ", expected at least " +
            std::to_string(4 * spec.num_classes)
    );
  }
  const Job job{
      .spec = spec,
      .options = options,
      .num_nodes = num_nodes,
      .storage = storage,
      .progress = progress
  };
  const bool in_memory = spec.num_directed == 0;
  // Of classes, and the order of the split with the ids of a part.
  constexpr int64_t kBytesPerNode = 16;
  GNN_ASSIGN_OR_RETURN(
      const MemoryHold hold,
      storage.hold(
          in_memory ? kBytesPerNode * num_nodes : 0, std::to_string(num_nodes) + " generated nodes"
      )
  );
  std::optional<Communities> communities;
  if (!fake && in_memory) {
    communities.emplace(num_nodes, spec.num_classes, CounterRandom(options.seed, kPermutation));
  } else if (!fake) {
    communities.emplace(
        num_nodes, spec.num_classes, Permutation(num_nodes, options.seed, kShuffle)
    );
  }
  const Communities* const planted = communities ? &*communities : nullptr;
  GNN_ASSIGN_OR_RETURN(const CscArrays edges, make_edges(job, planted));
  const PlantedClasses classes(job, planted);
  if (in_memory) {
    communities.reset();
  }
  GNN_ASSIGN_OR_RETURN(Array labels, make_labels(job, classes));
  GNN_ASSIGN_OR_RETURN(Array features, make_features(job, classes, labels));
  DatasetArrays dataset = homogeneous(
      std::string(spec.name) + "-synthetic",
      num_nodes,
      std::move(features),
      std::move(labels),
      edges
  );
  dataset.num_classes = spec.num_classes;
  GNN_RETURN_IF_ERROR(make_split(job, dataset));
  dataset.origin.facts.emplace_back("edges", std::to_string(edges.indices.num_elements()));
  dataset.origin.facts.emplace_back(
      "accuracyCeiling", number_text(accuracy_ceiling(options.flipped_labels, spec.num_classes))
  );
  return dataset;
}

}  // namespace

std::string_view shape_name(Shape shape) {
  return spec_of(shape).name;
}

Result<Shape> parse_shape(std::string_view name) {
  std::string names;
  for (const ShapeSpec& spec : kShapes) {
    if (spec.name == name) {
      return spec.shape;
    }
    names += (names.empty() ? "" : ", ") + std::string(spec.name);
  }
  return fail(
      ErrorKind::Configuration,
      "unknown shape '" + std::string(name) + "', expected one of " + names
  );
}

double accuracy_ceiling(double flipped_labels, int64_t num_classes) {
  const auto classes = static_cast<double>(num_classes);
  return 1.0 - flipped_labels * (classes - 1.0) / classes;
}

Result<DatasetArrays> generate(
    const GenerateOptions& options, ArrayStorage& storage, ProgressBar& progress
) {
  if (!(options.scale > 0.0 && options.scale <= 100.0)) {
    return fail(
        ErrorKind::Configuration,
        "scale: expected a number in (0, 100], found " + std::to_string(options.scale)
    );
  }
  if (!(options.flipped_labels >= 0.0 && options.flipped_labels <= 1.0)) {
    return fail(
        ErrorKind::Configuration,
        "flipped labels: expected a fraction in [0, 1], found " +
            std::to_string(options.flipped_labels)
    );
  }
  GNN_ASSIGN_OR_RETURN(
      DatasetArrays dataset,
      options.shape == Shape::Taobao ? generate_bipartite(options, storage, progress)
                                     : generate_homogeneous(options, storage, progress)
  );
  dataset.origin.source = "Synthetic";
  dataset.origin.options =
      "shape=" + std::string(spec_of(options.shape).name) +
      ", scale=" + number_text(options.scale) + ", seed=" + std::to_string(options.seed) +
      ", flippedLabels=" + number_text(options.flipped_labels) +
      (options.feature_dtype == DType::Float32
           ? ""
           : ", featureDtype=" + std::string(dtype_name(options.feature_dtype)));
  return dataset;
}

}  // namespace gnn::data
