#pragma once

#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/tasks/items.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::tasks {

struct DescribedNodes {
  std::string name;
  int64_t num_nodes = 0;
  int64_t width = -1;  ///< of feature rows; -1: none
  friend bool operator==(const DescribedNodes&, const DescribedNodes&) = default;
};

struct DescribedEdges {
  std::string source;
  std::string relation;
  std::string destination;
  int64_t source_index = 0;
  int64_t destination_index = 0;
  friend bool operator==(const DescribedEdges&, const DescribedEdges&) = default;
};

/// What a rank must know of a data set that it does not have, to train on batches of it. Servers that
/// have the whole set and those that have a part of it say the same.
struct DataDescription {
  std::string text{};  ///< a line for the log
  std::string name;
  std::string digest;         ///< graph::Dataset::digest
  std::string config_hash{};  ///< of the job that is served
  int64_t num_classes = 0;
  std::vector<DescribedNodes> nodes;
  std::vector<DescribedEdges> edges;
  std::optional<int64_t> link{};  ///< the edge type that is to be predicted
  /// Items by api::Part: of each partition if they are dealt by their owner, else one number.
  std::array<std::vector<int64_t>, 3> items{};

  friend bool operator==(const DataDescription&, const DataDescription&) = default;
};

/// All of it but text, config_hash and items.
[[nodiscard]] DataDescription describe_data(const graph::Dataset& dataset);

/// A data set with the described name, digest, classes and types, and no data.
[[nodiscard]] graph::Dataset types_of(const DataDescription& data);

[[nodiscard]] std::string encode(const DataDescription& data);
/// Errors: Data for any text that encode() has not written, or numbers that no data set has.
[[nodiscard]] Result<DataDescription> decode_description(std::string_view text);

/// What DataDescription::items has of items that are dealt so.
[[nodiscard]] std::vector<int64_t> counts_of(const sampling::core::ItemSamplerOptions& options);
/// How so many items are dealt, for whoever asks for numbers of batches alone.
/// Errors: Data unless there is a count for each of `partitions`, or one if they are not dealt by owner.
[[nodiscard]] Result<sampling::core::ItemSamplerOptions> with_counts(
    sampling::core::ItemSamplerOptions options,
    const std::vector<int64_t>& counts,
    api::Sharding sharding,
    int64_t partitions,
    const Ranks& ranks
);

}  // namespace gnn::tasks
