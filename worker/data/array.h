#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::data {

/// Element types of stored arrays. Little-endian, like every machine we run on.
enum class DType {
  Bool,
  UInt8,
  Int8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64
};

[[nodiscard]] int64_t dtype_size(DType dtype);
/// "float32"
[[nodiscard]] std::string_view dtype_name(DType dtype);
/// Errors: Data for a name that dtype_name() never gives.
Result<DType> parse_dtype_name(std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::UInt8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::Int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::Int64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::Float64;
};

/// "[2708, 1433]"
std::string shape_text(const std::vector<int64_t>& shape);
/// Product of the sizes.
/// Errors: Data when a size is negative or the product times `element_bytes` overflows.
Result<int64_t> checked_elements(const std::vector<int64_t>& shape, int64_t element_bytes);

/// A dense row-major array of known type and shape, on the heap or in a mapped file. Written once
/// by its creator, read-only from then on. Cheap to copy: copies share the memory.
class Array {
 public:
  Array() = default;
  Array(
      std::string name,
      DType dtype,
      std::vector<int64_t> shape,
      std::shared_ptr<void> owner,
      void* data
  );

  [[nodiscard]] bool defined() const { return owner_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] int64_t size(size_t dim) const { return shape_.at(dim); }
  [[nodiscard]] int64_t num_elements() const { return elements_; }
  [[nodiscard]] int64_t num_bytes() const { return elements_ * dtype_size(dtype_); }
  [[nodiscard]] const std::byte* bytes() const { return static_cast<const std::byte*>(data_); }
  [[nodiscard]] std::byte* mutable_bytes() { return static_cast<std::byte*>(data_); }
  [[nodiscard]] const std::shared_ptr<void>& owner() const { return owner_; }

  /// The elements as T, which must be the type of the array (GNN_ASSERT).
  template <class T>
  [[nodiscard]] std::span<const T> view() const {
    require(DTypeOf<T>::kValue);
    return {static_cast<const T*>(data_), static_cast<size_t>(elements_)};
  }
  template <class T>
  [[nodiscard]] std::span<T> mutable_view() {
    require(DTypeOf<T>::kValue);
    return {static_cast<T*>(data_), static_cast<size_t>(elements_)};
  }

 private:
  void require(DType dtype) const;

  std::string name_;
  DType dtype_ = DType::Float32;
  std::vector<int64_t> shape_;
  int64_t elements_ = 0;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
};

/// The first `length` of the array's rows, in the same memory.
Array first_of(const Array& array, int64_t length);

/// Memory that was set aside, until the last copy goes.
using MemoryHold = std::shared_ptr<void>;

/// Where the arrays of a data set under construction live: in memory or in a directory of .npy
/// files. Readers and generators write to either.
class ArrayStorage {
 public:
  virtual ~ArrayStorage() = default;
  /// A zeroed array, to be filled and then given to commit().
  virtual Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) = 0;
  /// Zeroed temporary memory, never part of the data set.
  virtual Result<Array> scratch(DType dtype, std::vector<int64_t> shape) = 0;
  /// Declares the array complete. `length` cuts its first dimension if it became shorter than
  /// planned.
  virtual Result<Array> commit(Array array, int64_t length) = 0;
  /// The array of that name if an earlier, interrupted run completed it; otherwise an undefined
  /// Array.
  virtual Result<Array> find(const std::string& name) = 0;
  /// Memory that one step of making an array may take beside it, max() if there is no limit.
  [[nodiscard]] virtual int64_t memory_bytes() const = 0;
  /// Sets memory aside for what lives longer than a step: memory_bytes() becomes less by it.
  /// Errors: Configuration naming `what` if that takes more than half of memory_bytes().
  virtual Result<MemoryHold> hold(int64_t bytes, const std::string& what);

  Result<Array> commit(Array array);
};

/// Anonymous memory, freed with the last copy of an array.
class MemoryStorage final : public ArrayStorage {
 public:
  using ArrayStorage::commit;
  Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override;
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override;
  Result<Array> commit(Array array, int64_t length) override;
  Result<Array> find(const std::string& name) override;
  /// No limit: the arrays are in memory themselves.
  [[nodiscard]] int64_t memory_bytes() const override;
};

}  // namespace gnn::data
