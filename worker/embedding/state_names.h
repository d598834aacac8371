#pragma once

#include <string>

namespace gnn::embedding {

/// The name of a table's rows in Embeddings::state(): [rows, 3, width], of values and two moments.
[[nodiscard]] inline std::string state_name(const std::string& table) {
  return "embeddings/" + table + "/state";
}

}  // namespace gnn::embedding
