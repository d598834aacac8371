#include "tests/bench/sampling/bench_graph.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::bench {

namespace {

constexpr size_t kPreambleBytes = 10;  // magic, version 1.0, length of the header

// A .npy file mapped read-only; enough of the format for arrays that numpy.save wrote.
class MappedArray {
 public:
  explicit MappedArray(const std::string& path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) broken("cannot be opened");
    bytes_ = static_cast<size_t>(status.st_size);
    data_ = bytes_ < kPreambleBytes ? MAP_FAILED
                                    : mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (data_ == MAP_FAILED) broken("cannot be mapped");
    parse();
  }
  ~MappedArray() { munmap(data_, bytes_); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] const std::byte* values() const {
    return static_cast<const std::byte*>(data_) + values_at_;
  }
  template <class T>
  [[nodiscard]] const T* as() const {
    // reinterpret_cast: the header says what the bytes are, numpy aligns them to 64.
    return reinterpret_cast<const T*>(values());
  }
  [[noreturn]] void broken(const std::string& what) const {
    throw std::runtime_error(path_ + ": " + what);
  }

 private:
  void parse() {
    const auto* text = static_cast<const char*>(data_);
    if (std::memcmp(text, "\x93NUMPY\x01\x00", 8) != 0) broken("is not a .npy file of version 1.0");
    const size_t length =
        static_cast<unsigned char>(text[8]) + size_t{256} * static_cast<unsigned char>(text[9]);
    if (kPreambleBytes + length > bytes_) broken("ends within its header");
    values_at_ = kPreambleBytes + length;
    const std::string header(text + kPreambleBytes, length);
    static const std::regex kPattern(
        R"('descr': '([<|][a-z])(\d+)', 'fortran_order': False, 'shape': \((\d+),(?: (\d+))?\))"
    );
    std::smatch match;
    if (!std::regex_search(header, match, kPattern))
      broken("has a header of another form: " + header);
    type_ = match[1].str() + match[2].str();
    size_t expected = std::stoul(match[2]);
    for (const size_t group : {size_t{3}, size_t{4}}) {
      if (!match[group].matched) continue;
      shape_.push_back(std::stoll(match[group]));
      expected *= static_cast<size_t>(shape_.back());
    }
    if (bytes_ - values_at_ < expected) broken("is shorter than its header says");
  }

  std::string path_;
  size_t bytes_ = 0;
  void* data_ = MAP_FAILED;
  size_t values_at_ = 0;
  std::string type_;
  std::vector<int64_t> shape_;
};

struct MappedGraph {
  explicit MappedGraph(const std::filesystem::path& directory)
      : indptr(directory / "indptr.npy"), indices(directory / "indices.npy") {}

  MappedArray indptr;
  MappedArray indices;
  std::unique_ptr<MappedArray> features;
};

void write_npy(
    const std::filesystem::path& path,
    const std::string& type,
    const std::string& shape,
    const void* values,
    size_t bytes
) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(64 - (kPreambleBytes + header.size() + 1) % 64, ' ');
  header.push_back('\n');
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\x00' << static_cast<char>(header.size() % 256)
       << static_cast<char>(header.size() / 256) << header;
  file.write(static_cast<const char*>(values), static_cast<std::streamsize>(bytes));
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": cannot be written");
}

}  // namespace

BenchGraph map_npy_graph(const std::string& directory) {
  const std::filesystem::path path(directory);
  auto arrays = std::make_shared<MappedGraph>(path);
  BenchGraph graph;
  if (arrays->indptr.type() != "<i8" || arrays->indptr.shape().size() != 1) {
    arrays->indptr.broken("must be a vector of int64, found " + arrays->indptr.type());
  }
  graph.num_nodes = arrays->indptr.shape()[0] - 1;
  graph.num_edges = arrays->indices.shape()[0];
  graph.relation.indptr = arrays->indptr.as<int64_t>();
  if (graph.num_nodes < 1 || graph.relation.indptr[graph.num_nodes] != graph.num_edges) {
    arrays->indptr.broken("does not end at the number of indices");
  }
  if (arrays->indices.type() == "<i4") {
    graph.relation.indices32 = arrays->indices.as<int32_t>();
  } else if (arrays->indices.type() == "<i8") {
    graph.relation.indices64 = arrays->indices.as<int64_t>();
  } else {
    arrays->indices.broken("must be int32 or int64, found " + arrays->indices.type());
  }
  if (std::filesystem::exists(path / "features.npy")) {
    arrays->features = std::make_unique<MappedArray>(path / "features.npy");
    const auto& shape = arrays->features->shape();
    if (shape.size() != 2 || shape[0] != graph.num_nodes) {
      arrays->features->broken("must have one row per node");
    }
    graph.features = arrays->features->values();
    graph.row_bytes =
        static_cast<size_t>(shape[1]) * std::stoul(arrays->features->type().substr(2));
  }
  graph.owner = std::move(arrays);
  return graph;
}

void write_npy_graph(const BenchGraph& graph, const std::string& directory) {
  const std::filesystem::path path(directory);
  std::filesystem::create_directories(path);
  const auto nodes = static_cast<size_t>(graph.num_nodes);
  const auto edges = static_cast<size_t>(graph.num_edges);
  write_npy(
      path / "indptr.npy",
      "<i8",
      std::to_string(nodes + 1) + ",",
      graph.relation.indptr,
      (nodes + 1) * sizeof(int64_t)
  );
  write_npy(
      path / "indices.npy",
      "<i4",
      std::to_string(edges) + ",",
      graph.relation.indices32,
      edges * sizeof(int32_t)
  );
  write_npy(
      path / "features.npy",
      "<f4",
      std::to_string(nodes) + ", " + std::to_string(graph.row_bytes / sizeof(float)),
      graph.features,
      nodes * graph.row_bytes
  );
}

std::vector<int64_t> read_npy_ids(const std::string& path) {
  const MappedArray array(path);
  if (array.type() != "<i8" || array.shape().size() != 1) {
    array.broken("must be a vector of int64, found " + array.type());
  }
  return {array.as<int64_t>(), array.as<int64_t>() + array.shape()[0]};
}

}  // namespace gnn::bench
