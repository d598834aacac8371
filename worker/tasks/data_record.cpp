#include "worker/tasks/data_record.h"

#include <algorithm>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

// Long enough for a run to be read from whole pages of a mapped file.
constexpr int64_t kRunOfNodes = 4096;

// Which of `rows` are looked at: all, or evenly spaced runs that are `most` together.
std::vector<data::IdRange> runs_of(const data::IdRange& rows, int64_t most) {
  if (rows.size() <= most) return {rows};
  const int64_t length = std::min(kRunOfNodes, most);
  const int64_t count = most / length;
  std::vector<data::IdRange> runs;
  for (int64_t run = 0; run < count; ++run) {
    const int64_t begin = rows.begin + (rows.size() - length) / count * run;
    runs.push_back({.begin = begin, .end = begin + length});
  }
  return runs;
}

report::DegreeRecord degrees_of(
    const graph::Dataset& dataset,
    const graph::EdgeTypeData& type,
    std::optional<int64_t> part,
    int64_t most
) {
  const auto& destination = dataset.node_types[static_cast<size_t>(type.destination_index)];
  report::DegreeRecord record{.edge_type = text_of(type), .nodes = destination.num_nodes};
  const auto* const indptr = type.graph.indptr().const_data_ptr<int64_t>();
  for (const data::IdRange& run : runs_of(dataset.rows_of(type.destination_index, part), most)) {
    record.looked += run.size();
    for (int64_t node = run.begin; node < run.end; ++node) {
      const int64_t degree = indptr[node + 1] - indptr[node];
      record.most = std::max(record.most, degree);
      record.histogram.add(degree);
    }
  }
  return record;
}

// What has the labels of a data set.
struct Labels {
  at::Tensor values;  // int64 [N], below 0: none
  data::IdRange rows;
  std::string of;
  int64_t items = 0;  // of the whole data set
};

std::optional<report::LabelRecord> labels_of(
    const Labels& labels, int64_t num_classes, int64_t most
) {
  if (!labels.values.defined() || num_classes == 0) return std::nullopt;
  std::vector<int64_t> counts(static_cast<size_t>(num_classes));
  int64_t looked = 0;
  int64_t unlabelled = 0;
  const auto* const values = labels.values.const_data_ptr<int64_t>();
  for (const data::IdRange& run : runs_of(labels.rows, most)) {
    looked += run.size();
    for (int64_t item = run.begin; item < run.end; ++item) {
      if (values[item] < 0)
        ++unlabelled;
      else
        ++counts[static_cast<size_t>(values[item])];
    }
  }
  report::LabelRecord record = report::label_record_of(counts);
  record.of = labels.of;
  record.items = labels.items;
  record.looked = looked;
  record.unlabelled = unlabelled;
  return record;
}

}  // namespace

report::DataRecord data_record_of(
    const graph::Dataset& dataset, std::optional<int64_t> part, int64_t most
) {
  report::DataRecord record;
  for (const graph::EdgeTypeData& type : dataset.edge_types) {
    if (record.degrees.size() == report::kMaxEdgeTypes) break;
    record.degrees.push_back(degrees_of(dataset, type, part, most));
  }
  if (dataset.graphs) {
    const int64_t graphs = dataset.graphs->num_graphs();
    record.labels = labels_of(
        {.values = dataset.graphs->labels,
         .rows = {.begin = 0, .end = graphs},
         .of = "graphs",
         .items = graphs},
        dataset.num_classes,
        most
    );
    return record;
  }
  const graph::NodeTypeData& target = dataset.target();
  record.labels = labels_of(
      {.values = target.labels,
       .rows = dataset.rows_of(dataset.target_node_type, part),
       .of = target.name,
       .items = target.num_nodes},
      dataset.num_classes,
      most
  );
  return record;
}

}  // namespace gnn::tasks
