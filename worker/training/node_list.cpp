#include "worker/training/node_list.h"

#include "worker/data/io/byte_source.h"
#include "worker/data/io/npy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kIdsAtOnce = 65536;

Status check_header(const data::NpyReader& reader, int64_t num_nodes) {
  const data::NpyHeader& header = reader.header();
  const auto refuse = [&](const std::string& found) {
    return fail(
        ErrorKind::Data, reader.name() + ": expected ids of nodes, int64 [K], found " + found
    );
  };
  if (header.dtype != data::DType::Int64 || header.shape.size() != 1)
    return refuse(
        std::string(data::dtype_name(header.dtype)) + " " + data::shape_text(header.shape)
    );
  const int64_t count = header.shape[0];
  if (count == 0) return refuse("none");
  // Before as many are read.
  if (count > num_nodes)
    return refuse(
        std::to_string(count) + " ids of a graph of " + std::to_string(num_nodes) +
        " nodes: each may stand there once"
    );
  return {};
}

}  // namespace

Result<at::Tensor> read_node_list(const std::string& path, int64_t num_nodes) {
  GNN_ASSIGN_OR_RETURN(auto source, data::open_file(path));
  GNN_ASSIGN_OR_RETURN(data::NpyReader reader, data::NpyReader::open(std::move(source)));
  GNN_RETURN_IF_ERROR(check_header(reader, num_nodes));
  const int64_t count = reader.header().shape[0];
  const at::Tensor listed = at::zeros({num_nodes}, at::kBool);
  auto* const is_listed = listed.mutable_data_ptr<bool>();
  std::vector<int64_t> ids;
  for (int64_t first = 0; first < count; first += std::ssize(ids)) {
    ids.resize(static_cast<size_t>(std::min(kIdsAtOnce, count - first)));
    GNN_RETURN_IF_ERROR(reader.read_integers(ids));
    for (int64_t i = 0; i < std::ssize(ids); ++i) {
      const int64_t id = ids[static_cast<size_t>(i)];
      const char* wrong = nullptr;
      if (id < 0 || id >= num_nodes) {
        wrong = "is none of the graph's";
      } else if (std::exchange(is_listed[id], true)) {
        wrong = "stands there twice";
      }
      if (wrong == nullptr) continue;
      return fail(
          ErrorKind::Data,
          path + ": element " + std::to_string(first + i) + ": node " + std::to_string(id) + " " +
              wrong
      );
    }
  }
  GNN_RETURN_IF_ERROR(reader.finish());
  return listed.nonzero().squeeze(1).contiguous();
}

}  // namespace gnn::training
