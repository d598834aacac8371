#include "worker/partition/rewrite.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

namespace gnn::partition {
namespace {

constexpr int64_t kListsPerPiece = int64_t{1} << 14;
constexpr int64_t kBytesPerPiece = int64_t{1} << 23;

// Places the lists of one edge table, some of them in each pass.
template <class Index>
class ListPlacer {
 public:
  ListPlacer(
      const data::EdgeTable& table,
      const std::vector<int64_t>& new_sources,
      const std::vector<int64_t>& new_destinations,
      bool with_ids
  )
      : indptr_(table.indptr.view<int64_t>()),
        indices_(table.indices.view<Index>()),
        ids_(
            table.edge_ids.defined() ? table.edge_ids.view<int64_t>() : std::span<const int64_t>()
        ),
        new_sources_(new_sources),
        new_destinations_(new_destinations),
        with_ids_(with_ids) {}

  // [destinations + 1] in their new order.
  [[nodiscard]] std::vector<int64_t> new_indptr() const {
    std::vector<int64_t> ends(new_destinations_.size() + 1);
    for (size_t node = 0; node < new_destinations_.size(); ++node) {
      ends[static_cast<size_t>(new_destinations_[node]) + 1] = indptr_[node + 1] - indptr_[node];
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    return ends;
  }

  // Places the lists of the new ids in [first, last), which begin at ends[first].
  void place(const std::vector<int64_t>& ends, int64_t first, int64_t last, ThreadPool& others) {
    const int64_t begin = ends[static_cast<size_t>(first)];
    const int64_t end = ends[static_cast<size_t>(last)];
    placed_indices_.resize(static_cast<size_t>(end - begin));
    placed_ids_.resize(with_ids_ ? placed_indices_.size() : 0);
    const auto nodes = static_cast<int64_t>(new_destinations_.size());
    others.parallel_for(nodes, kListsPerPiece, [&](int64_t from, int64_t to) {
      std::vector<std::pair<Index, int64_t>> entries;
      for (int64_t node = from; node < to; ++node) {
        const int64_t id = new_destinations_[static_cast<size_t>(node)];
        if (id >= first && id < last) {
          place_list(static_cast<size_t>(node), ends[static_cast<size_t>(id)] - begin, entries);
        }
      }
    });
  }

  [[nodiscard]] const std::vector<Index>& indices() const { return placed_indices_; }
  [[nodiscard]] const std::vector<int64_t>& ids() const { return placed_ids_; }

 private:
  [[nodiscard]] Index new_source(size_t entry) const {
    return static_cast<Index>(new_sources_[static_cast<size_t>(indices_[entry])]);
  }

  void place_list(size_t node, int64_t place, std::vector<std::pair<Index, int64_t>>& entries) {
    const auto begin = static_cast<size_t>(indptr_[node]);
    const auto end = static_cast<size_t>(indptr_[node + 1]);
    Index* const indices = placed_indices_.data() + place;
    if (!with_ids_) {
      for (size_t entry = begin; entry < end; ++entry) indices[entry - begin] = new_source(entry);
      std::sort(indices, indices + (end - begin));
      return;
    }
    entries.clear();
    for (size_t entry = begin; entry < end; ++entry) {
      const int64_t id = ids_.empty() ? static_cast<int64_t>(entry) : ids_[entry];
      entries.emplace_back(new_source(entry), id);
    }
    std::sort(entries.begin(), entries.end());
    for (size_t i = 0; i < entries.size(); ++i) {
      indices[i] = entries[i].first;
      placed_ids_[static_cast<size_t>(place) + i] = entries[i].second;
    }
  }

  std::span<const int64_t> indptr_;
  std::span<const Index> indices_;
  std::span<const int64_t> ids_;  // empty: positions
  const std::vector<int64_t>& new_sources_;
  const std::vector<int64_t>& new_destinations_;
  bool with_ids_;
  std::vector<Index> placed_indices_;
  std::vector<int64_t> placed_ids_;
};

// The new ids from `first` on whose lists have at most `most` entries, at least one.
int64_t end_of_pass(const std::vector<int64_t>& ends, int64_t first, int64_t most) {
  const auto limit = ends[static_cast<size_t>(first)] + most;
  const auto after = std::upper_bound(ends.begin() + first + 1, ends.end(), limit);
  return std::max<int64_t>(after - ends.begin() - 1, first + 1);
}

// An array under construction, or one that an earlier run completed.
struct Output {
  data::Array array;
  bool is_complete = false;
};

Result<Output> open_output(
    data::ArrayStorage& storage,
    const std::string& name,
    data::DType dtype,
    std::vector<int64_t> shape
) {
  GNN_ASSIGN_OR_RETURN(data::Array found, storage.find(name));
  if (found.defined()) {
    return Output{.array = std::move(found), .is_complete = true};
  }
  GNN_ASSIGN_OR_RETURN(data::Array made, storage.create(name, dtype, std::move(shape)));
  return Output{.array = std::move(made), .is_complete = false};
}

Result<data::Array> close_output(Output output, data::ArrayStorage& storage) {
  return output.is_complete ? std::move(output.array) : storage.commit(std::move(output.array));
}

// The outputs for an edge table's arrays. `ids` is undefined if they are not wanted.
struct EdgeOutputs {
  Output indptr;
  Output indices;
  Output ids;

  [[nodiscard]] bool are_complete(bool with_ids) const {
    return indptr.is_complete && indices.is_complete && (!with_ids || ids.is_complete);
  }
};

Result<EdgeOutputs> open_outputs(
    const data::EdgeTable& table, bool with_ids, data::ArrayStorage& storage
) {
  const std::string prefix = array_prefix(name_of(table));
  const std::vector<int64_t> edges{table.indices.num_elements()};
  EdgeOutputs outputs;
  GNN_ASSIGN_OR_RETURN(
      outputs.indptr,
      open_output(storage, prefix + ".indptr", data::DType::Int64, {table.indptr.num_elements()})
  );
  GNN_ASSIGN_OR_RETURN(
      outputs.indices, open_output(storage, prefix + ".indices", table.indices.dtype(), edges)
  );
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(
        outputs.ids, open_output(storage, prefix + ".edge_ids", data::DType::Int64, edges)
    );
  }
  return outputs;
}

template <class Index>
void write_lists(
    ListPlacer<Index>& placer, EdgeOutputs& outputs, bool with_ids, const RewriteTools& tools
) {
  const std::vector<int64_t> ends = placer.new_indptr();
  const auto nodes = static_cast<int64_t>(ends.size()) - 1;
  const auto entry_bytes = static_cast<int64_t>(sizeof(Index) + (with_ids ? sizeof(int64_t) : 0));
  const int64_t most = std::max<int64_t>(tools.pass_bytes / entry_bytes, 1);
  if (!outputs.indptr.is_complete) {
    std::copy(ends.begin(), ends.end(), outputs.indptr.array.mutable_view<int64_t>().begin());
  }
  for (int64_t first = 0; first < nodes;) {
    const int64_t last = end_of_pass(ends, first, most);
    placer.place(ends, first, last, tools.others);
    const auto copy = [&](const auto& placed, Output& output) {
      if (output.is_complete) return;
      const auto size = static_cast<int64_t>(sizeof(placed[0]));
      copy_in_pieces(
          reinterpret_cast<const std::byte*>(placed.data()),
          output.array.mutable_bytes() + ends[static_cast<size_t>(first)] * size,
          static_cast<int64_t>(placed.size()) * size,
          tools.others
      );
    };
    copy(placer.indices(), outputs.indices);
    if (with_ids) copy(placer.ids(), outputs.ids);
    tools.progress.advance_to(ends[static_cast<size_t>(last)]);
    first = last;
  }
}

}  // namespace

void copy_in_pieces(const std::byte* from, std::byte* to, int64_t bytes, ThreadPool& others) {
  others.parallel_for(bytes, kBytesPerPiece, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

Result<data::Array> rewrite_rows(
    const data::Array& rows,
    const std::vector<int64_t>& new_ids,
    const std::string& name,
    const RewriteTools& tools
) {
  GNN_ASSIGN_OR_RETURN(data::Array made, tools.storage.find(name));
  if (made.defined()) {
    return made;
  }
  GNN_ASSIGN_OR_RETURN(made, tools.storage.create(name, rows.dtype(), rows.shape()));
  const auto count = static_cast<int64_t>(new_ids.size());
  const int64_t row_bytes = rows.num_bytes() / count;
  const int64_t most = std::max<int64_t>(tools.pass_bytes / std::max<int64_t>(row_bytes, 1), 1);
  std::vector<std::byte> placed(static_cast<size_t>(std::min(most, count) * row_bytes));
  tools.progress.begin("renumbering " + name, count, "rows");
  for (int64_t first = 0; first < count; first += most) {
    const int64_t last = std::min(first + most, count);
    tools.others.parallel_for(count, kListsPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t id = new_ids[static_cast<size_t>(row)];
        if (id < first || id >= last) continue;
        std::memcpy(
            placed.data() + (id - first) * row_bytes,
            rows.bytes() + row * row_bytes,
            static_cast<size_t>(row_bytes)
        );
      }
    });
    copy_in_pieces(
        placed.data(),
        made.mutable_bytes() + first * row_bytes,
        (last - first) * row_bytes,
        tools.others
    );
    tools.progress.advance_to(last);
  }
  tools.progress.end();
  return tools.storage.commit(std::move(made));
}

Result<data::EdgeTable> rewrite_edges(
    const data::EdgeTable& table,
    const std::vector<int64_t>& new_sources,
    const std::vector<int64_t>& new_destinations,
    bool keep_ids,
    const RewriteTools& tools
) {
  const bool with_ids = keep_ids || table.edge_ids.defined();
  GNN_ASSIGN_OR_RETURN(EdgeOutputs outputs, open_outputs(table, with_ids, tools.storage));
  if (!outputs.are_complete(with_ids)) {
    tools.progress.begin(
        "renumbering " + text_of(name_of(table)), table.indices.num_elements(), "edges"
    );
    const auto write = [&](auto placer) { write_lists(placer, outputs, with_ids, tools); };
    if (table.indices.dtype() == data::DType::Int32) {
      write(ListPlacer<int32_t>(table, new_sources, new_destinations, with_ids));
    } else {
      write(ListPlacer<int64_t>(table, new_sources, new_destinations, with_ids));
    }
    tools.progress.end();
  }
  data::EdgeTable made = table;
  GNN_ASSIGN_OR_RETURN(made.indices, close_output(std::move(outputs.indices), tools.storage));
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(made.edge_ids, close_output(std::move(outputs.ids), tools.storage));
  }
  GNN_ASSIGN_OR_RETURN(made.indptr, close_output(std::move(outputs.indptr), tools.storage));
  return made;
}

int64_t rewrite_edges_bytes(const data::EdgeTable& table) {
  return table.indptr.num_bytes();
}

}  // namespace gnn::partition
