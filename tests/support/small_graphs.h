#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace gnn::testing {

/// Writes small graphs of two classes in GIN's text format: rings, and rings with a chord. About one
/// in eight has the other class's label.
inline void write_small_graphs(const std::filesystem::path& path, int graphs) {
  std::ofstream file(path);
  file << graphs << '\n';
  std::mt19937 random(3);
  for (int g = 0; g < graphs; ++g) {
    const int nodes = 4 + static_cast<int>(random() % 5);
    const bool chord = g % 2 == 1;
    const bool mislabelled = random() % 8 == 0;
    file << nodes << ' ' << (chord != mislabelled ? 1 : 0) << '\n';
    for (int node = 0; node < nodes; ++node) {
      std::vector<int> neighbours{(node + 1) % nodes, (node + nodes - 1) % nodes};
      if (chord && node == 0) neighbours.push_back(2);
      if (chord && node == 2) neighbours.push_back(0);
      file << "0 " << neighbours.size();
      for (const int neighbour : neighbours) file << ' ' << neighbour;
      file << '\n';
    }
  }
}

}  // namespace gnn::testing
