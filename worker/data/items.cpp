#include "worker/data/items.h"

#include <algorithm>
#include <utility>

namespace gnn::data {
namespace {

tl::unexpected<Error> wrong_item(
    const std::string& file, std::string_view array, size_t position, const std::string& what
) {
  return fail(
      ErrorKind::Data,
      file + ": " + std::string(array) + "[" + std::to_string(position) + "]: " + what
  );
}

std::string file_of(const DatasetArrays& dataset, const Array& array, std::string_view where) {
  const auto found = dataset.read_from.find(array.name());
  return found == dataset.read_from.end() ? std::string(where) : found->second;
}

std::span<const int64_t> ids_of(const Array& array) {
  return array.defined() ? array.view<int64_t>() : std::span<const int64_t>();
}

struct LabelledItems {
  bool are_graphs;
  int64_t count;
  const Array& labels;  // undefined, or one per held item
  IdRange held;

  // An item that is not held counts as labelled: its part has the label.
  [[nodiscard]] bool has_label(int64_t id) const {
    return !labels.defined() || !held.contains(id) ||
           labels.view<int64_t>()[static_cast<size_t>(id - held.begin)] >= 0;
  }
};

LabelledItems items_of(const DatasetArrays& dataset) {
  if (dataset.graph_labels.defined()) {
    const int64_t count = dataset.graph_labels.num_elements();
    return {true, count, dataset.graph_labels, {0, count}};
  }
  const auto target = std::find_if(
      dataset.node_tables.begin(),
      dataset.node_tables.end(),
      [&dataset](const NodeTable& table) { return table.name == dataset.target_node_type; }
  );
  GNN_ASSERT(target != dataset.node_tables.end(), "check_form() has found the target type");
  const auto index = static_cast<size_t>(target - dataset.node_tables.begin());
  return {false, target->num_nodes, target->labels, held_nodes(dataset, index)};
}

Status check_labels(
    const DatasetArrays& dataset, const LabelledItems& items, std::string_view where
) {
  const std::span<const int64_t> labels = ids_of(items.labels);
  const int64_t lowest = items.are_graphs ? 0 : -1;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < lowest || labels[i] >= dataset.num_classes) {
      return wrong_item(
          file_of(dataset, items.labels, where),
          items.are_graphs ? "graph labels" : "labels",
          i,
          "expected a class in [0, " + std::to_string(dataset.num_classes) + ")" +
              (items.are_graphs ? "" : " or -1 for none") + ", found " + std::to_string(labels[i])
      );
    }
  }
  return {};
}

}  // namespace

void SplitIds::begin(std::string part, std::string file) {
  parts_.push_back({.name = std::move(part), .file = std::move(file), .num_ids = 0});
}

std::string SplitIds::add(int64_t id) {
  if (id < 0 || id >= num_items_) {
    return "expected an id in [0, " + std::to_string(num_items_) + "), found " + std::to_string(id);
  }
  uint8_t& byte = part_of_[static_cast<size_t>(id) / kItemsPerByte];
  const size_t shift = 2 * (static_cast<size_t>(id) % kItemsPerByte);
  const size_t taken = (byte >> shift) & 3U;
  if (taken == parts_.size()) {
    return "id " + std::to_string(id) + " occurs twice in " + parts_.back().name;
  }
  if (taken != 0) {
    const Part& other = parts_[taken - 1U];
    return "id " + std::to_string(id) + " is in " + parts_.back().name + " and in " + other.name +
           " (" + other.file + "); leave it in one part";
  }
  byte = static_cast<uint8_t>(byte | (parts_.size() << shift));
  ++parts_.back().num_ids;
  return "";
}

Status SplitIds::add_part(std::string part, std::string file, std::span<const int64_t> ids) {
  begin(std::move(part), std::move(file));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const std::string wrong = add(ids[i]); !wrong.empty()) {
      return wrong_item(parts_.back().file, parts_.back().name, i, wrong);
    }
  }
  return {};
}

Status SplitIds::finish() const {
  if (!parts_.empty() && parts_.front().num_ids == 0) {
    return fail(
        ErrorKind::Data,
        parts_.front().file + ": " + parts_.front().name + ": expected at least one id, found none"
    );
  }
  return {};
}

Status check_items(const DatasetArrays& dataset, std::string_view where) {
  const LabelledItems items = items_of(dataset);
  GNN_RETURN_IF_ERROR(check_labels(dataset, items, where));
  if (!dataset.train.defined()) {
    return {};
  }
  struct Part {
    const char* name;
    const Array& ids;
  };
  SplitIds split(items.count);
  for (const Part& part :
       {Part{"train", dataset.train},
        Part{"validation", dataset.validation},
        Part{"test", dataset.test}}) {
    const std::string file = file_of(dataset, part.ids, where);
    const std::span<const int64_t> ids = ids_of(part.ids);
    GNN_RETURN_IF_ERROR(split.add_part(part.name, file, ids));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!items.has_label(ids[i])) {
        return wrong_item(file, part.name, i, "id " + std::to_string(ids[i]) + " has no label");
      }
    }
  }
  return split.finish();
}

}  // namespace gnn::data
