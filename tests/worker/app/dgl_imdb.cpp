#include "tests/worker/app/dgl_imdb.h"

#include <fstream>

namespace gnn::app {

nlohmann::json dgl_imdb(const std::string& protocol) {
  std::ifstream file(GNN_DGL_IMDB);
  return nlohmann::json::parse(file).at(protocol);
}

}  // namespace gnn::app
