#include "worker/data/partitions.h"

#include "worker/data/dataset_arrays.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace gnn::data {
namespace {

tl::unexpected<Error> wrong_partitions(std::string_view where, const std::string& what) {
  return fail(ErrorKind::Data, std::string(where) + ": partitions: " + what);
}

std::string owner_text(const NodeTable& table) {
  return "node type " + table.name + ": ";
}

Status check_book(const DatasetArrays& dataset, std::string_view where) {
  const PartitionBook& book = dataset.partitions->book;
  if (book.parts < 1 || book.parts > kMostParts) {
    return wrong_partitions(
        where,
        "expected 1 to " + std::to_string(kMostParts) + " parts, found " +
            std::to_string(book.parts)
    );
  }
  // Shown to people, also in pictures.
  if (book.method.empty() || !std::all_of(book.method.begin(), book.method.end(), [](char letter) {
        return letter >= 'a' && letter <= 'z';
      })) {
    return wrong_partitions(where, "expected a method of lower-case letters");
  }
  if (book.offsets.size() != dataset.node_tables.size()) {
    return wrong_partitions(
        where,
        "expected offsets of " + std::to_string(dataset.node_tables.size()) +
            " node types, found those of " + std::to_string(book.offsets.size())
    );
  }
  for (size_t table = 0; table < book.offsets.size(); ++table) {
    const std::vector<int64_t>& offsets = book.offsets[table];
    const NodeTable& nodes = dataset.node_tables[table];
    if (offsets.size() != static_cast<size_t>(book.parts) + 1 || offsets.front() != 0 ||
        offsets.back() != nodes.num_nodes || !std::is_sorted(offsets.begin(), offsets.end())) {
      return wrong_partitions(
          where,
          owner_text(nodes) + "expected " + std::to_string(book.parts + 1) +
              " offsets ascending from 0 to " + std::to_string(nodes.num_nodes)
      );
    }
  }
  return {};
}

Status check_draws(const DatasetArrays& dataset, std::string_view where) {
  const BatchDraws& draws = dataset.partitions->book.draws;
  if (draws.fanouts.size() != dataset.edge_tables.size()) {
    return wrong_partitions(
        where,
        "expected fan-outs of " + std::to_string(dataset.edge_tables.size()) +
            " edge types, found those of " + std::to_string(draws.fanouts.size())
    );
  }
  for (const std::vector<int64_t>& fanout : draws.fanouts) {
    if (fanout.size() != draws.fanouts.front().size() ||
        std::any_of(fanout.begin(), fanout.end(), [](int64_t value) { return value < -1; })) {
      return wrong_partitions(
          where, "expected equally many fan-outs of all edge types, each -1 or more"
      );
    }
  }
  if (draws.batch_size < 1 || !(draws.negatives >= 0) || !std::isfinite(draws.negatives)) {
    return wrong_partitions(
        where, "expected a batch size of at least 1, and negatives that are not negative"
    );
  }
  return {};
}

Status check_length(
    const Array& array, int64_t length, const std::string& owner, std::string_view where
) {
  if (array.defined() && array.shape() != std::vector<int64_t>{length}) {
    return wrong_partitions(
        where,
        owner + "expected " + std::to_string(length) + " elements of " + array.name() + ", found " +
            shape_text(array.shape())
    );
  }
  return {};
}

Status check_hot_form(const DatasetArrays& dataset, size_t table, std::string_view where) {
  const Partitions& partitions = *dataset.partitions;
  const std::string owner = owner_text(dataset.node_tables[table]);
  const std::vector<HotRows>& hot = partitions.hot[table];
  if (hot.size() != static_cast<size_t>(partitions.book.parts)) {
    return wrong_partitions(
        where,
        owner + "expected hot rows of " + std::to_string(partitions.book.parts) +
            " parts, found those of " + std::to_string(hot.size())
    );
  }
  for (size_t part = 0; part < hot.size(); ++part) {
    const bool kept = hot[part].ids.defined();
    if (kept && partitions.only && *partitions.only != static_cast<int64_t>(part)) {
      return wrong_partitions(
          where, owner + "hot ids of part " + std::to_string(part) + ", which isn't here"
      );
    }
    if (kept != hot[part].hotness.defined()) {
      return wrong_partitions(where, owner + "expected hot ids and their hotness together");
    }
    if (kept) {
      GNN_RETURN_IF_ERROR(
          check_length(hot[part].hotness, hot[part].ids.num_elements(), owner, where)
      );
    }
    if (!(hot[part].local_reads >= 0) || !(hot[part].remote_reads >= 0) ||
        !std::isfinite(hot[part].local_reads + hot[part].remote_reads)) {
      return wrong_partitions(where, owner + "expected numbers of reads that are not negative");
    }
  }
  return {};
}

Status check_hot(const DatasetArrays& dataset, size_t table, int64_t part, std::string_view where) {
  const HotRows& hot = dataset.partitions->hot[table][static_cast<size_t>(part)];
  if (!hot.ids.defined()) {
    return {};
  }
  const IdRange own = dataset.partitions->book.range_of(table, part);
  const IdRange all{0, dataset.node_tables[table].num_nodes};
  const auto ids = hot.ids.view<int64_t>();
  const auto hotness = hot.hotness.view<double>();
  std::vector<bool> taken(static_cast<size_t>(all.end));
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!all.contains(ids[i]) || own.contains(ids[i])) {
      return wrong_partitions(
          where,
          hot.ids.name() + "[" + std::to_string(i) + "]: expected a node in [0, " +
              std::to_string(all.end) + ") of another part than " + std::to_string(part) +
              ", found " + std::to_string(ids[i])
      );
    }
    if (!std::isfinite(hotness[i]) || hotness[i] <= 0 || (i > 0 && hotness[i] > hotness[i - 1])) {
      return wrong_partitions(
          where,
          hot.hotness.name() + "[" + std::to_string(i) +
              "]: expected descending numbers above 0, found " + std::to_string(hotness[i])
      );
    }
    if (taken[static_cast<size_t>(ids[i])]) {
      return wrong_partitions(
          where,
          hot.ids.name() + "[" + std::to_string(i) + "]: node " + std::to_string(ids[i]) +
              " occurs twice"
      );
    }
    taken[static_cast<size_t>(ids[i])] = true;
    sum += hotness[i];
  }
  // Sums of many terms differ by their order.
  if (sum > hot.remote_reads * (1 + 1e-6)) {
    return wrong_partitions(
        where,
        hot.hotness.name() + ": expected a sum of at most " + std::to_string(hot.remote_reads) +
            " remote reads, found " + std::to_string(sum)
    );
  }
  return {};
}

Status check_original_ids(const Array& array, int64_t num_nodes, std::string_view where) {
  std::vector<bool> taken(static_cast<size_t>(num_nodes));
  const auto ids = array.view<int64_t>();
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool in_range = ids[i] >= 0 && ids[i] < num_nodes;
    if (!in_range || taken[static_cast<size_t>(ids[i])]) {
      return wrong_partitions(
          where,
          array.name() + "[" + std::to_string(i) + "]: expected ids in [0, " +
              std::to_string(num_nodes) + "), each once, found " + std::to_string(ids[i]) +
              (in_range ? " again" : "")
      );
    }
    taken[static_cast<size_t>(ids[i])] = true;
  }
  return {};
}

}  // namespace

int64_t PartitionBook::part_of(size_t node_table, int64_t id) const {
  const std::vector<int64_t>& table = offsets.at(node_table);
  GNN_ASSERT(id >= 0 && id < table.back(), "ids were checked where they came in");
  return std::upper_bound(table.begin(), table.end(), id) - table.begin() - 1;
}

double HotRows::hit_rate(int64_t rows) const {
  if (remote_reads <= 0) {
    return 1;
  }
  const auto kept = hotness.defined() ? hotness.view<double>() : std::span<const double>();
  double hits = 0;
  for (size_t i = 0; i < kept.size() && static_cast<int64_t>(i) < rows; ++i) {
    hits += kept[i];
  }
  return std::min(1.0, hits / remote_reads);
}

IdRange Partitions::held(size_t node_table) const {
  return only ? book.range_of(node_table, *only) : IdRange{0, book.offsets.at(node_table).back()};
}

IdRange held_nodes(const DatasetArrays& dataset, size_t node_table) {
  return dataset.partitions ? dataset.partitions->held(node_table)
                            : IdRange{0, dataset.node_tables.at(node_table).num_nodes};
}

std::string partitions_text(const DatasetArrays& dataset) {
  if (!dataset.partitions) {
    return "";
  }
  const Partitions& partitions = *dataset.partitions;
  std::string text = "partitions " + std::to_string(partitions.only.value_or(-1)) + "\n";
  for (const std::vector<int64_t>& offsets : partitions.book.offsets) {
    text += shape_text(offsets) + "\n";
  }
  if (partitions.link_split) text += "links by " + describe(partitions.link_split->options) + "\n";
  return text;
}

Status check_partitions_form(const DatasetArrays& dataset, std::string_view where) {
  const Partitions& partitions = *dataset.partitions;
  if (dataset.graph_labels.defined()) {
    return wrong_partitions(where, "a collection of graphs has none");
  }
  GNN_RETURN_IF_ERROR(check_book(dataset, where));
  GNN_RETURN_IF_ERROR(check_draws(dataset, where));
  if (partitions.only && *partitions.only >= partitions.book.parts) {
    return wrong_partitions(
        where,
        "expected a part below " + std::to_string(partitions.book.parts) + " in 'only', found " +
            std::to_string(*partitions.only)
    );
  }
  if (partitions.only.has_value() == partitions.whole_digest.empty()) {
    return wrong_partitions(where, "expected 'only' and 'whole' together");
  }
  if (partitions.original_ids.size() != dataset.node_tables.size() ||
      partitions.hot.size() != dataset.node_tables.size()) {
    return wrong_partitions(where, "expected original ids and hot rows of each node type");
  }
  for (size_t table = 0; table < dataset.node_tables.size(); ++table) {
    if (!partitions.original_ids[table].defined()) {
      return wrong_partitions(
          where, owner_text(dataset.node_tables[table]) + "expected original ids"
      );
    }
    GNN_RETURN_IF_ERROR(check_length(
        partitions.original_ids[table],
        partitions.held(table).size(),
        owner_text(dataset.node_tables[table]),
        where
    ));
    GNN_RETURN_IF_ERROR(check_hot_form(dataset, table, where));
  }
  return check_link_split_form(dataset, where);
}

Status check_partitions(const DatasetArrays& dataset, std::string_view where) {
  const Partitions& partitions = *dataset.partitions;
  for (size_t table = 0; table < dataset.node_tables.size(); ++table) {
    for (int64_t part = 0; part < partitions.book.parts; ++part) {
      GNN_RETURN_IF_ERROR(check_hot(dataset, table, part, where));
    }
    GNN_RETURN_IF_ERROR(check_original_ids(
        partitions.original_ids[table], dataset.node_tables[table].num_nodes, where
    ));
  }
  return check_link_split(dataset, where);
}

}  // namespace gnn::data
