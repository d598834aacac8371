#include "worker/training/model_file.h"

#include "worker/checkpoint/durable_file.h"
#include "worker/data/io/byte_source.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace gnn::training {
namespace {

using checkpoint::CheckpointTensor;
using interop::Dtype;

constexpr std::array kDtypes = {
    std::pair{at::kBool, Dtype::Bool},
    std::pair{at::kByte, Dtype::U8},
    std::pair{at::kChar, Dtype::I8},
    std::pair{at::kShort, Dtype::I16},
    std::pair{at::kInt, Dtype::I32},
    std::pair{at::kLong, Dtype::I64},
    std::pair{at::kHalf, Dtype::F16},
    std::pair{at::kBFloat16, Dtype::BF16},
    std::pair{at::kFloat, Dtype::F32},
    std::pair{at::kDouble, Dtype::F64},
};

std::optional<Dtype> dtype_of(at::ScalarType type) {
  for (const auto& [own, dtype] : kDtypes) {
    if (own == type) return dtype;
  }
  return std::nullopt;
}

std::span<std::byte> bytes_of(const at::Tensor& plain) {
  return {static_cast<std::byte*>(plain.mutable_data_ptr()), plain.nbytes()};
}

}  // namespace

Result<interop::TensorEntry> entry_of(const CheckpointTensor& tensor) {
  const std::optional<Dtype> dtype = dtype_of(tensor.tensor.scalar_type());
  if (!dtype) {
    return fail(
        ErrorKind::Internal,
        tensor.name + ": safetensors has no dtype " + c10::toString(tensor.tensor.scalar_type())
    );
  }
  return interop::TensorEntry{
      .name = tensor.name, .dtype = *dtype, .shape = tensor.tensor.sizes().vec()
  };
}

Result<std::vector<CheckpointTensor>> state_dict_of(
    std::vector<CheckpointTensor> tensors, const api::Model& model, interop::Library library
) {
  for (CheckpointTensor& tensor : tensors) {
    GNN_ASSIGN_OR_RETURN(tensor.name, interop::state_dict_key(model, library, tensor.name));
  }
  return tensors;
}

Status write_model_file(
    checkpoint::FileOps& files,
    const std::filesystem::path& path,
    const std::vector<CheckpointTensor>& tensors,
    const interop::Metadata& metadata
) {
  std::vector<at::Tensor> plain;  // what the pieces lie in
  std::vector<interop::TensorBytes> pieces;
  for (const CheckpointTensor& tensor : tensors) {
    GNN_ASSIGN_OR_RETURN(interop::TensorEntry entry, entry_of(tensor));
    plain.push_back(tensor.tensor.detach().cpu().contiguous());
    pieces.push_back({.entry = std::move(entry), .data = bytes_of(plain.back())});
  }
  GNN_ASSIGN_OR_RETURN(
      const interop::SafetensorsFile file, interop::encode_safetensors(std::move(pieces), metadata)
  );
  std::vector<std::string_view> content = {file.head};
  for (const std::span<const std::byte> data : file.data)
    content.emplace_back(reinterpret_cast<const char*>(data.data()), data.size());
  return checkpoint::replace_file(files, path, content);
}

Status read_model_file(const std::string& path, const std::vector<CheckpointTensor>& into) {
  std::vector<interop::TensorEntry> expected;
  for (const CheckpointTensor& tensor : into) {
    GNN_ASSIGN_OR_RETURN(interop::TensorEntry entry, entry_of(tensor));
    expected.push_back(std::move(entry));
  }
  GNN_ASSIGN_OR_RETURN(auto source, data::open_file(path));
  GNN_ASSIGN_OR_RETURN(
      interop::SafetensorsReader reader, interop::SafetensorsReader::open(std::move(source))
  );
  GNN_RETURN_IF_ERROR(reader.check_tensors(expected));

  std::map<std::string_view, at::Tensor> read;
  for (const CheckpointTensor& tensor : into)
    read.emplace(tensor.name, at::empty(tensor.tensor.sizes(), tensor.tensor.scalar_type()));
  GNN_RETURN_IF_ERROR(reader.read([&](const interop::TensorEntry& entry) {
    return bytes_of(read.at(entry.name));
  }));
  const at::NoGradGuard no_grad;
  for (const CheckpointTensor& tensor : into) tensor.tensor.copy_(read.at(tensor.name));
  return {};
}

}  // namespace gnn::training
