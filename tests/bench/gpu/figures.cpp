#include "tests/bench/gpu/figures.h"

#include <nlohmann/json.hpp>

#include <exception>
#include <fstream>
#include <iostream>
#include <string_view>

namespace gnn::bench {

std::string text_of(const std::vector<Figure>& figures) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Figure& figure : figures) {
    nlohmann::json row = {{"what", figure.what}, {"value", figure.value}, {"unit", figure.unit}};
    if (!figure.goal.empty()) row["goal"] = figure.goal;
    rows.push_back(std::move(row));
  }
  return nlohmann::json{{"rows", std::move(rows)}}.dump(2);
}

int write_figures(int argc, char** argv, std::vector<Figure> (*measure)()) {
  const bool to_file = argc == 3 && std::string_view(argv[1]) == "--json";
  if (argc != 1 && !to_file) {
    std::cerr << "usage: " << argv[0] << " [--json FILE]\n";
    return 2;
  }
  try {
    const std::string text = text_of(measure());
    if (to_file) {
      std::ofstream(argv[2]) << text << '\n';
    } else {
      std::cout << text << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace gnn::bench
