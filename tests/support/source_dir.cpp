#include "tests/support/source_dir.h"

namespace gnn::testing {

const std::string& source_dir() {
  static const std::string path = GNN_SOURCE_DIR;
  return path;
}

}  // namespace gnn::testing
