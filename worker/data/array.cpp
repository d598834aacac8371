#include "worker/data/array.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <sys/mman.h>

namespace gnn::data {
namespace {

struct DTypeInfo {
  DType dtype;
  int64_t size;
  std::string_view name;
};
constexpr std::array<DTypeInfo, 13> kDTypes{{
    {DType::Bool, 1, "bool"},
    {DType::UInt8, 1, "uint8"},
    {DType::Int8, 1, "int8"},
    {DType::Int16, 2, "int16"},
    {DType::UInt16, 2, "uint16"},
    {DType::Int32, 4, "int32"},
    {DType::UInt32, 4, "uint32"},
    {DType::Int64, 8, "int64"},
    {DType::UInt64, 8, "uint64"},
    {DType::Float16, 2, "float16"},
    {DType::BFloat16, 2, "bfloat16"},
    {DType::Float32, 4, "float32"},
    {DType::Float64, 8, "float64"},
}};

const DTypeInfo& info(DType dtype) {
  return kDTypes.at(static_cast<size_t>(dtype));
}

Result<Array> anonymous_array(std::string name, DType dtype, std::vector<int64_t> shape) {
  GNN_ASSIGN_OR_RETURN(const int64_t elements, checked_elements(shape, dtype_size(dtype)));
  const auto bytes = static_cast<size_t>(std::max<int64_t>(elements * dtype_size(dtype), 1));
  void* data = mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0
  );
  if (data == MAP_FAILED) {
    return fail(
        ErrorKind::OutOfMemory,
        "no memory for array " + name + " " + shape_text(shape) + " of " +
            std::string(dtype_name(dtype)) + ": " + std::strerror(errno)
    );
  }
  // A hint: arrays of a graph are read at random, where huge pages avoid most TLB misses.
  madvise(data, bytes, MADV_HUGEPAGE);
  std::shared_ptr<void> owner(data, [bytes](void* address) { munmap(address, bytes); });
  return Array(std::move(name), dtype, std::move(shape), std::move(owner), data);
}

}  // namespace

int64_t dtype_size(DType dtype) {
  return info(dtype).size;
}
std::string_view dtype_name(DType dtype) {
  return info(dtype).name;
}

Result<DType> parse_dtype_name(std::string_view name) {
  for (const DTypeInfo& entry : kDTypes) {
    if (entry.name == name) {
      return entry.dtype;
    }
  }
  return fail(ErrorKind::Data, "unknown element type '" + std::string(name) + "'");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<int64_t> checked_elements(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t elements = 1;
  int64_t bytes = 0;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      return fail(ErrorKind::Data, "shape " + shape_text(shape) + " is not possible");
    }
  }
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    return fail(ErrorKind::Data, "shape " + shape_text(shape) + " is not possible");
  }
  return elements;
}

Array::Array(
    std::string name,
    DType dtype,
    std::vector<int64_t> shape,
    std::shared_ptr<void> owner,
    void* data
)
    : name_(std::move(name)),
      dtype_(dtype),
      shape_(std::move(shape)),
      elements_(1),
      owner_(std::move(owner)),
      data_(data) {
  for (const int64_t size : shape_) {
    elements_ *= size;
  }
}

void Array::require(DType dtype) const {
  GNN_ASSERT(
      defined() && dtype_ == dtype, "views are taken only after the type of the array was checked"
  );
}

Array first_of(const Array& array, int64_t length) {
  std::vector<int64_t> shape = array.shape();
  if (!shape.empty()) {
    GNN_ASSERT(length <= shape[0], "an array can only be cut, not grown");
    shape[0] = length;
  }
  Array memory = array;  // a copy shares the memory
  return Array(
      array.name(), array.dtype(), std::move(shape), array.owner(), memory.mutable_bytes()
  );
}

Result<Array> ArrayStorage::commit(Array array) {
  const int64_t length = array.shape().empty() ? 1 : array.size(0);
  return commit(std::move(array), length);
}

Result<MemoryHold> ArrayStorage::hold(int64_t, const std::string&) {
  return MemoryHold();
}

Result<Array> MemoryStorage::create(std::string name, DType dtype, std::vector<int64_t> shape) {
  return anonymous_array(std::move(name), dtype, std::move(shape));
}

Result<Array> MemoryStorage::scratch(DType dtype, std::vector<int64_t> shape) {
  return anonymous_array("scratch", dtype, std::move(shape));
}

Result<Array> MemoryStorage::commit(Array array, int64_t length) {
  return first_of(array, length);
}

Result<Array> MemoryStorage::find(const std::string&) {
  return Array();
}

int64_t MemoryStorage::memory_bytes() const {
  return std::numeric_limits<int64_t>::max();
}

}  // namespace gnn::data
