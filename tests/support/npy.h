#pragma once

#include <ATen/ATen.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::testing {

/// Reads a .npy file that our own scripts wrote: version 1, little-endian float32, float64,
/// int32 or int64, C order.
inline at::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 10> start{};
  if (!file.read(start.data(), start.size()) ||
      std::string_view(start.data(), 8) != std::string_view("\x93NUMPY\x01\0", 8)) {
    throw std::runtime_error(path + ": expected a .npy file of version 1");
  }
  uint16_t length = 0;
  std::memcpy(&length, start.data() + 8, sizeof(length));
  std::string header(length, ' ');
  file.read(header.data(), length);
  std::smatch found;
  static const std::regex pattern(
      R"re(\{'descr': '(<f4|<f8|<i4|<i8)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \}\s*)re"
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
  const at::ScalarType type = found[1] == "<f4"   ? torch::kFloat32
                              : found[1] == "<f8" ? torch::kFloat64
                              : found[1] == "<i4" ? torch::kInt32
                                                  : torch::kInt64;
  at::Tensor tensor = torch::empty(shape, type);
  const auto bytes = static_cast<std::streamsize>(tensor.nbytes());
  if (!file.read(static_cast<char*>(tensor.mutable_data_ptr()), bytes) || file.get() != EOF) {
    throw std::runtime_error(path + ": expected as much data as its shape says");
  }
  return tensor;
}

}  // namespace gnn::testing
