#include "worker/partition/extract.h"

#include "worker/partition/seeds.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

namespace gnn::partition {
namespace {

constexpr int64_t kBytesPerStep = int64_t{1} << 24;

class Extraction {
 public:
  Extraction(
      const data::DatasetArrays& from,
      int64_t part,
      data::ArrayStorage& storage,
      ProgressBar& progress
  )
      : from_(from), part_(part), storage_(storage), progress_(progress) {}

  Result<data::DatasetArrays> run() {
    data::DatasetArrays made = from_;
    made.read_from.clear();
    for (size_t table = 0; table < made.node_tables.size(); ++table) {
      GNN_RETURN_IF_ERROR(take_nodes(made.node_tables[table], range_of(table)));
    }
    for (data::EdgeTable& table : made.edge_tables) {
      GNN_RETURN_IF_ERROR(take_lists(table));
    }
    for (data::Array* array : {&made.train, &made.validation, &made.test}) {
      GNN_RETURN_IF_ERROR(take_all(*array));
    }
    if (made.links) GNN_RETURN_IF_ERROR(take_all(made.links->pairs));
    GNN_RETURN_IF_ERROR(take_partitions(*made.partitions));
    return made;
  }

 private:
  [[nodiscard]] data::IdRange range_of(size_t table) const {
    return from_.partitions->book.range_of(table, part_);
  }

  // The rows of `range`, changed by `change` if that is given.
  Status take(
      data::Array& array, data::IdRange range, const std::function<void(data::Array&)>& change = {}
  ) {
    if (!array.defined()) return {};
    const data::Array from = std::move(array);
    GNN_ASSIGN_OR_RETURN(array, storage_.find(from.name()));
    if (array.defined()) return {};
    std::vector<int64_t> shape = from.shape();
    const int64_t rows = shape[0];
    shape[0] = range.size();
    GNN_ASSIGN_OR_RETURN(array, storage_.create(from.name(), from.dtype(), std::move(shape)));
    if (rows > 0) {
      const int64_t row_bytes = from.num_bytes() / rows;
      copy(from.name(), from.bytes() + range.begin * row_bytes, array);
    }
    if (change) change(array);
    GNN_ASSIGN_OR_RETURN(array, storage_.commit(std::move(array)));
    return {};
  }
  Status take_all(data::Array& array) {
    return array.defined() ? take(array, {0, array.size(0)}) : Status();
  }

  void copy(const std::string& name, const std::byte* from, data::Array& to) {
    const int64_t bytes = to.num_bytes();
    progress_.begin("copying " + name, bytes, "bytes");
    for (int64_t at = 0; at < bytes; at += kBytesPerStep) {
      const int64_t step = std::min(kBytesPerStep, bytes - at);
      std::memcpy(to.mutable_bytes() + at, from + at, static_cast<size_t>(step));
      progress_.advance_to(at + step);
    }
    progress_.end();
  }

  Status take_nodes(data::NodeTable& table, data::IdRange range) {
    GNN_RETURN_IF_ERROR(take(table.features, range));
    for (data::NamedFeatures& more : table.more_features) {
      GNN_RETURN_IF_ERROR(take(more.rows, range));
    }
    return take(table.labels, range);
  }

  Status take_lists(data::EdgeTable& table) {
    const data::IdRange nodes = range_of(node_table_index(from_, table.destination));
    const auto indptr = table.indptr.view<int64_t>();
    const data::IdRange entries{
        indptr[static_cast<size_t>(nodes.begin)], indptr[static_cast<size_t>(nodes.end)]
    };
    GNN_RETURN_IF_ERROR(take(table.indices, entries));
    GNN_RETURN_IF_ERROR(take(table.edge_ids, entries));
    GNN_RETURN_IF_ERROR(take_all(table.features));
    return take(table.indptr, {nodes.begin, nodes.end + 1}, [&](data::Array& ends) {
      for (int64_t& end : ends.mutable_view<int64_t>()) end -= entries.begin;
    });
  }

  Status take_partitions(data::Partitions& partitions) {
    partitions.only = part_;
    for (size_t table = 0; table < partitions.hot.size(); ++table) {
      GNN_RETURN_IF_ERROR(take(partitions.original_ids[table], range_of(table)));
      for (size_t part = 0; part < partitions.hot[table].size(); ++part) {
        data::HotRows& hot = partitions.hot[table][part];
        if (static_cast<int64_t>(part) != part_) {
          hot.ids = {};
          hot.hotness = {};
          continue;
        }
        GNN_RETURN_IF_ERROR(take_all(hot.ids));
        GNN_RETURN_IF_ERROR(take_all(hot.hotness));
      }
    }
    if (auto& split = partitions.link_split) {
      for (data::Array* array :
           {&split->order, &split->validation_negatives, &split->test_negatives}) {
        GNN_RETURN_IF_ERROR(take_all(*array));
      }
    }
    return {};
  }

  const data::DatasetArrays& from_;
  int64_t part_;
  data::ArrayStorage& storage_;
  ProgressBar& progress_;
};

}  // namespace

Result<data::DatasetArrays> extract(
    const data::DatasetArrays& dataset,
    int64_t part,
    const std::string& whole_digest,
    data::ArrayStorage& storage,
    ProgressBar& progress
) {
  if (!dataset.partitions || dataset.partitions->only) {
    return fail(
        ErrorKind::Configuration,
        dataset.partitions ? "--input: is an extracted part itself"
                           : "--input: has no partitions; partition it first"
    );
  }
  if (part < 0 || part >= dataset.partitions->book.parts) {
    return fail(
        ErrorKind::Configuration,
        "--extract: expected a part in [0, " + std::to_string(dataset.partitions->book.parts) +
            "), found " + std::to_string(part)
    );
  }
  GNN_ASSIGN_OR_RETURN(
      data::DatasetArrays made, Extraction(dataset, part, storage, progress).run()
  );
  made.partitions->whole_digest = whole_digest;
  return made;
}

}  // namespace gnn::partition
