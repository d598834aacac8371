#include "tests/worker/app/dgl_imdb.h"

#include "tests/support/source_dir.h"

#include <fstream>

namespace gnn::app {

nlohmann::json dgl_imdb(const std::string& protocol) {
  std::ifstream file(gnn::testing::source_dir() + "/tests/worker/app/parity/dgl_imdb.json");
  return nlohmann::json::parse(file).at(protocol);
}

}  // namespace gnn::app
