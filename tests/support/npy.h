#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnn::testing {

/// Reads a .npy file that our own scripts wrote: version 1, little-endian float32 or int64, C
/// order.
inline at::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < 10 || bytes.compare(0, 8, std::string("\x93NUMPY\x01\0", 8)) != 0) {
    throw std::runtime_error(path + ": expected a .npy file of version 1");
  }
  uint16_t length = 0;
  std::memcpy(&length, bytes.data() + 8, sizeof(length));
  const std::string header = bytes.substr(10, length);
  std::smatch found;
  static const std::regex pattern(
      R"re(\{'descr': '(<f4|<i8)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \}\s*)re"
  );
  if (!std::regex_match(header, found, pattern)) {
    throw std::runtime_error(path + ": unexpected header " + header);
  }
  std::vector<int64_t> shape;
  const std::string dimensions = found[2];
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator at(dimensions.begin(), dimensions.end(), number), end; at != end;
       ++at) {
    shape.push_back(std::stoll(at->str()));
  }
  at::Tensor tensor = torch::empty(shape, found[1] == "<f4" ? torch::kFloat32 : torch::kInt64);
  if (bytes.size() != 10U + length + tensor.nbytes()) {
    throw std::runtime_error(path + ": expected as much data as its shape says");
  }
  std::memcpy(tensor.mutable_data_ptr(), bytes.data() + 10 + length, tensor.nbytes());
  return tensor;
}

}  // namespace gnn::testing
