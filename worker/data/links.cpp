#include "worker/data/links.h"

#include "worker/data/csc_builder.h"
#include "worker/data/link_ids.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr int64_t kPairBytes = 2 * sizeof(int64_t);
constexpr int64_t kEntriesPerReport = int64_t{1} << 20;

bool is_between_types(const EdgeTable& table) {
  return table.source != table.destination;
}

// Whether the table is the reverse of another one, by its name.
bool is_reverse(const DatasetArrays& dataset, const EdgeTable& table) {
  return std::any_of(
      dataset.edge_tables.begin(),
      dataset.edge_tables.end(),
      [&table](const EdgeTable& other) { return reverse_of(name_of(other)) == name_of(table); }
  );
}

// Indices of the edge types that add_reverse() gives a reverse.
std::vector<size_t> types_to_reverse(const DatasetArrays& dataset) {
  std::vector<size_t> types;
  for (size_t i = 0; i < dataset.edge_tables.size(); ++i) {
    if (is_between_types(dataset.edge_tables[i]) && !is_reverse(dataset, dataset.edge_tables[i])) {
      types.push_back(i);
    }
  }
  return types;
}

Result<EdgeTable> reversed(
    const DatasetArrays& dataset,
    const EdgeTable& table,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const NodeTable* source = find_node_table(dataset, table.source);
  const NodeTable* destination = find_node_table(dataset, table.destination);
  if (source == nullptr || destination == nullptr) {
    return fail(
        ErrorKind::Data,
        "edge type " + text_of(name_of(table)) + " joins a node type that is not there"
    );
  }
  const EdgeTypeName name = reverse_of(name_of(table));
  const CscEdges edges(table.indptr, table.indices);
  const CscOptions options{
      .num_sources = destination->num_nodes,
      .num_destinations = source->num_nodes,
      .edge_ids = true,
      .input_ids = table.edge_ids
  };
  GNN_ASSIGN_OR_RETURN(
      const CscArrays built,
      build_csc(ReversedEdges(edges), options, storage, array_prefix(name), progress)
  );
  return EdgeTable{
      .source = name.source,
      .relation = name.relation,
      .destination = name.destination,
      .indptr = built.indptr,
      .indices = built.indices,
      .edge_ids = built.edge_ids,
      .features = table.features
  };
}

// Calls visit(list entry, source, destination) for all entries.
template <class Visit>
void for_each_entry(const EdgeTable& table, const Visit& visit) {
  size_t entry = 0;
  CscEdges(table.indptr, table.indices)
      .for_each_chunk([&](std::span<const int64_t> sources, std::span<const int64_t> destinations) {
        for (size_t i = 0; i < sources.size(); ++i) {
          visit(entry++, sources[i], destinations[i]);
        }
      });
}

std::span<const int64_t> edge_ids_of(const EdgeTable& table) {
  return table.edge_ids.defined() ? table.edge_ids.view<int64_t>() : std::span<const int64_t>();
}

// Gives the table's edges the ids of links; an id that is its place needs no array.
Status number_edges(EdgeTable& table, ArrayStorage& storage, ProgressBar& progress) {
  const auto entries = static_cast<size_t>(table.indices.num_elements());
  GNN_ASSIGN_OR_RETURN(Array ids, storage.scratch(DType::Int64, {static_cast<int64_t>(entries)}));
  const std::span<int64_t> numbers = ids.mutable_view<int64_t>();
  const std::span<const int64_t> given = edge_ids_of(table);
  if (given.empty()) {
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
  } else {
    std::copy(given.begin(), given.end(), numbers.begin());
  }
  // Rows of features belong to ids, which must not change then.
  const LinkIds kind = is_between_types(table) || table.features.defined() ? LinkIds::BetweenTypes
                                                                           : LinkIds::WithinType;
  const Status status = number_links(
      {.indptr = table.indptr, .indices = table.indices}, ids, kind, storage, progress
  );
  if (!status) {
    return tl::make_unexpected(with_context(status.error(), "edge type " + text_of(name_of(table)))
    );
  }
  bool same = true;
  for (size_t entry = 0; entry < entries && same; ++entry) {
    same = numbers[entry] == (given.empty() ? static_cast<int64_t>(entry) : given[entry]);
  }
  if (same) {
    return {};
  }
  GNN_ASSIGN_OR_RETURN(table.edge_ids, store_ids(storage, "links.edge_ids", numbers));
  return {};
}

// The ends of each edge by its id, in parts that memory has room for.
Result<Array> make_pairs(const EdgeTable& table, ArrayStorage& storage, ProgressBar& progress) {
  GNN_ASSIGN_OR_RETURN(Array pairs, storage.find(kPairsName));
  if (pairs.defined()) {
    return pairs;
  }
  const std::span<const int64_t> ids = edge_ids_of(table);
  const int64_t entries = table.indices.num_elements();
  const int64_t count = ids.empty() ? entries : *std::max_element(ids.begin(), ids.end()) + 1;
  const bool undirected = count < entries;
  GNN_ASSIGN_OR_RETURN(pairs, storage.create(kPairsName, DType::Int64, {count, 2}));
  const std::span<int64_t> out = pairs.mutable_view<int64_t>();
  const int64_t most = std::max<int64_t>(1, storage.memory_bytes() / kPairBytes);
  std::vector<int64_t> part;
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t end = begin + std::min(most, count - begin);
    const bool whole = begin == 0 && end == count;
    if (!whole) {
      part.resize(2 * static_cast<size_t>(end - begin));
    }
    const std::span<int64_t> to = whole ? out : std::span(part);
    progress.begin("listing links", entries, "edges");
    for_each_entry(table, [&](size_t entry, int64_t source, int64_t destination) {
      const int64_t id = ids.empty() ? static_cast<int64_t>(entry) : ids[entry];
      if (id >= begin && id < end && !(undirected && source > destination)) {
        to[2 * static_cast<size_t>(id - begin)] = source;
        to[2 * static_cast<size_t>(id - begin) + 1] = destination;
      }
      if (static_cast<int64_t>(entry) % kEntriesPerReport == 0) {
        progress.advance_to(static_cast<int64_t>(entry));
      }
    });
    progress.advance_to(entries);
    progress.end();
    if (!whole) {
      std::copy_n(part.begin(), 2 * (end - begin), out.begin() + 2 * begin);
    }
  }
  return storage.commit(std::move(pairs));
}

// Whether the edges of `table` are `pairs` with their ends exchanged, by the same ids.
bool reverses(const EdgeTable& table, const Array& pairs) {
  const std::span<const int64_t> ids = edge_ids_of(table);
  const std::span<const int64_t> ends = pairs.view<int64_t>();
  if (table.indices.num_elements() != pairs.size(0) || ids.size() != ends.size() / 2) {
    return false;
  }
  bool same = true;
  for_each_entry(table, [&](size_t entry, int64_t source, int64_t destination) {
    const int64_t id = ids[entry];
    same = same && id >= 0 && id < pairs.size(0) &&
           ends[2 * static_cast<size_t>(id)] == destination &&
           ends[2 * static_cast<size_t>(id) + 1] == source;
  });
  return same;
}

// Whether the edges of `other` are those of `table` with their ends exchanged, whatever their ids.
bool has_reversed_edges(const EdgeTable& table, const EdgeTable& other) {
  if (other.source != table.destination || other.destination != table.source ||
      table.indices.num_elements() != other.indices.num_elements()) {
    return false;
  }
  // The lists of `table`, by ascending destination, name each list of `other` in its order.
  const std::span<const int64_t> ends = other.indptr.view<int64_t>().subspan(1);
  std::vector<int64_t> next(
      other.indptr.view<int64_t>().begin(), other.indptr.view<int64_t>().end() - 1
  );
  const auto compare = [&](auto sources_of_other) {
    bool same = true;
    for_each_entry(table, [&](size_t, int64_t source, int64_t destination) {
      const auto list = static_cast<size_t>(source);
      same = same && list < ends.size() && next[list] < ends[list] &&
             sources_of_other[static_cast<size_t>(next[list])] == destination;
      if (same) ++next[list];
    });
    return same;
  };
  return other.indices.dtype() == DType::Int32 ? compare(other.indices.view<int32_t>())
                                               : compare(other.indices.view<int64_t>());
}

// The reverse of links that are listed in `pairs`, by its name or, whatever its name, by its edges and
// their ids.
std::optional<size_t> find_reverse(
    const DatasetArrays& dataset, const EdgeTypeName& link, const Array& pairs
) {
  if (const auto named = find_edge_table(dataset, reverse_of(link))) {
    return named;
  }
  const auto found = std::find_if(
      dataset.edge_tables.begin(),
      dataset.edge_tables.end(),
      [&](const EdgeTable& table) {
        return table.source == link.destination && table.destination == link.source &&
               name_of(table) != link && reverses(table, pairs);
      }
  );
  return found == dataset.edge_tables.end()
             ? std::nullopt
             : std::optional<size_t>(found - dataset.edge_tables.begin());
}

// Adds the reverse of the edge types with these indices; see add_reverse().
Result<DatasetArrays> add_reverse_of(
    std::span<const size_t> types,
    DatasetArrays dataset,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  for (const size_t type : types) {
    const EdgeTable table = dataset.edge_tables[type];
    auto reverse = find_edge_table(dataset, reverse_of(name_of(table)));
    if (reverse && !has_reversed_edges(table, dataset.edge_tables[*reverse])) {
      return fail(
          ErrorKind::Configuration,
          "addReverse: edge type " + text_of(reverse_of(name_of(table))) +
              " exists with other edges than the reverse of " + text_of(name_of(table)) +
              "; rename its relation"
      );
    }
    if (!reverse) {
      GNN_ASSIGN_OR_RETURN(EdgeTable added, reversed(dataset, table, storage, progress));
      reverse = dataset.edge_tables.size();
      dataset.edge_tables.push_back(std::move(added));
    }
    if (dataset.links && dataset.links->edge_table == type) {
      dataset.links->reverse_edge_table = reverse;
    }
  }
  return dataset;
}

}  // namespace

std::string edge_types_text(const DatasetArrays& dataset) {
  std::string text;
  for (const EdgeTable& table : dataset.edge_tables) {
    text += (text.empty() ? "" : ", ") + text_of(name_of(table));
  }
  return text;
}

EdgeTypeName reverse_of(const EdgeTypeName& name) {
  return {
      .source = name.destination,
      .relation = kReversePrefix + name.relation,
      .destination = name.source
  };
}

bool has_reverse_types(const DatasetArrays& dataset) {
  const std::vector<size_t> types = types_to_reverse(dataset);
  // A part has the lists of its own nodes of either type: not the same edges.
  const bool is_part = dataset.partitions && dataset.partitions->only;
  return !types.empty() && std::all_of(types.begin(), types.end(), [&](size_t type) {
    const EdgeTable& table = dataset.edge_tables[type];
    const auto reverse = find_edge_table(dataset, reverse_of(name_of(table)));
    const bool named = dataset.links && dataset.links->edge_table == type &&
                       dataset.links->reverse_edge_table == reverse;
    return reverse &&
           (is_part || named || has_reversed_edges(table, dataset.edge_tables[*reverse]));
  });
}

Result<DatasetArrays> add_reverse(
    DatasetArrays dataset, ArrayStorage& storage, ProgressBar& progress
) {
  const std::vector<size_t> types = types_to_reverse(dataset);
  if (types.empty()) {
    return fail(
        ErrorKind::Configuration,
        "addReverse: no edge type joins two node types; toUndirected adds the reverse edges of one "
        "that joins nodes of the same type"
    );
  }
  return add_reverse_of(types, std::move(dataset), storage, progress);
}

Result<DatasetArrays> add_reverse(
    std::span<const EdgeTypeName> types,
    DatasetArrays dataset,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  std::vector<size_t> indices;
  for (const EdgeTypeName& type : types) {
    const auto index = find_edge_table(dataset, type);
    GNN_ASSERT(index.has_value(), "callers name edge types of the data set");
    indices.push_back(*index);
  }
  return add_reverse_of(indices, std::move(dataset), storage, progress);
}

std::vector<EdgeTypeName> remove_reverse(DatasetArrays& dataset) {
  GNN_ASSERT(!dataset.links, "links name edge types by their place");
  const DatasetArrays before = dataset;
  std::vector<EdgeTypeName> reversed_types;
  for (const size_t type : types_to_reverse(before)) {
    const EdgeTable& table = before.edge_tables[type];
    const auto reverse = find_edge_table(dataset, reverse_of(name_of(table)));
    if (!reverse || dataset.edge_tables[*reverse].features.defined() ||
        !has_reversed_edges(table, dataset.edge_tables[*reverse])) {
      continue;
    }
    dataset.edge_tables.erase(dataset.edge_tables.begin() + static_cast<std::ptrdiff_t>(*reverse));
    reversed_types.push_back(name_of(table));
  }
  return reversed_types;
}

Status check_reverse(const DatasetArrays& dataset) {
  const LinkTable& links = *dataset.links;
  const EdgeTable& link = dataset.edge_tables[links.edge_table];
  for (size_t type = 0; type < dataset.edge_tables.size(); ++type) {
    const EdgeTable& table = dataset.edge_tables[type];
    if (type == links.edge_table || links.reverse_edge_table == type ||
        links.reverse_edge_table == links.edge_table || !has_reversed_edges(link, table)) {
      continue;
    }
    return fail(
        ErrorKind::Data,
        "edge type " + text_of(name_of(table)) + ": has the edges of the links " +
            text_of(name_of(link)) +
            " from destination to source, but they are not known as its reverse, so held-out links "
            "would pass messages along it; remove it, and let addReverse make the reverse"
    );
  }
  return {};
}

Result<DatasetArrays> set_links(
    DatasetArrays dataset, const EdgeTypeName& link, ArrayStorage& storage, ProgressBar& progress
) {
  if (has_links(dataset, link)) {
    return dataset;
  }
  const auto index = find_edge_table(dataset, link);
  if (!index) {
    return fail(
        ErrorKind::Configuration,
        "no edge type " + text_of(link) + "; the data set has " + edge_types_text(dataset)
    );
  }
  EdgeTable& table = dataset.edge_tables[*index];
  if (table.indices.num_elements() == 0) {
    return fail(
        ErrorKind::Data, "edge type " + text_of(link) + ": has no edges, so no links to predict"
    );
  }
  GNN_RETURN_IF_ERROR(number_edges(table, storage, progress));
  LinkTable links{.edge_table = *index};
  GNN_ASSIGN_OR_RETURN(links.pairs, make_pairs(table, storage, progress));
  const auto reverse = find_reverse(dataset, link, links.pairs);
  if (links.pairs.size(0) < table.indices.num_elements()) {
    links.reverse_edge_table = index;
  } else if (reverse && !reverses(dataset.edge_tables[*reverse], links.pairs)) {
    return fail(
        ErrorKind::Data,
        "edge type " + text_of(name_of(dataset.edge_tables[*reverse])) +
            ": its edges or ids are not those of " + text_of(link) +
            " reversed; leave it out, and let addReverse make it"
    );
  } else {
    links.reverse_edge_table = reverse;
  }
  dataset.links = std::move(links);
  if (dataset.partitions) dataset.partitions->link_split.reset();  // of other links
  GNN_RETURN_IF_ERROR(check_reverse(dataset));
  return dataset;
}

bool has_links(const DatasetArrays& dataset, const EdgeTypeName& link) {
  return dataset.links && name_of(dataset.edge_tables[dataset.links->edge_table]) == link;
}

}  // namespace gnn::data
