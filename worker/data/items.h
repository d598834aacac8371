#pragma once

#include "common/result.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::data {

/// The ids of a data set's own split, checked as they are added part by part: there are some to
/// train on, and each is in range and occurs once in all parts together.
class SplitIds {
 public:
  explicit SplitIds(int64_t num_items)
      : part_of_(static_cast<size_t>(num_items) / kItemsPerByte + 1), num_items_(num_items) {}

  /// Starts a part ("train", which is first, "validation" or "test") of ids from `file`.
  void begin(std::string part, std::string file);
  /// Adds an id to the part that was started last; returns what is wrong with it, or "".
  [[nodiscard]] std::string add(int64_t id);
  /// Adds a whole part.
  /// Errors: Data with file, part, position and id.
  Status add_part(std::string part, std::string file, std::span<const int64_t> ids);
  /// Errors: Data if the first part has no ids.
  [[nodiscard]] Status finish() const;

 private:
  struct Part {
    std::string name;
    std::string file;
    int64_t num_ids = 0;
  };
  // Two bits per item: index in parts_ + 1, or 0.
  static constexpr size_t kItemsPerByte = 4;
  std::vector<uint8_t> part_of_;
  int64_t num_items_;
  std::vector<Part> parts_;
};

/// Checks the items of a data set, whatever it was read from, and returns the first problem:
/// - labels are within [-1, num_classes), those of graphs within [0, num_classes);
/// - a split has ids to train on; its ids are in range, have a label, and occur once in all parts
///   together.
/// Its arrays must have the lengths that graph::check_form() expects. Labels that an extracted part
/// lacks are taken for right. Messages name an array's
/// file, or `where` if it has none.
/// Errors: Data.
Status check_items(const DatasetArrays& dataset, std::string_view where);

}  // namespace gnn::data
