#pragma once

#include "worker/data/array.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {

/// Arrays that are needed for a while: all are scratch memory of another storage.
class ScratchStorage final : public ArrayStorage {
 public:
  using ArrayStorage::commit;
  /// `storage` must outlive it.
  explicit ScratchStorage(ArrayStorage& storage) : storage_(storage) {}

  Result<Array> create(std::string, DType dtype, std::vector<int64_t> shape) override {
    return storage_.scratch(dtype, std::move(shape));
  }
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
    return storage_.scratch(dtype, std::move(shape));
  }
  Result<Array> commit(Array array, int64_t length) override { return first_of(array, length); }
  Result<Array> find(const std::string&) override { return Array(); }
  [[nodiscard]] int64_t memory_bytes() const override { return storage_.memory_bytes(); }
  Result<MemoryHold> hold(int64_t bytes, const std::string& what) override {
    return storage_.hold(bytes, what);
  }

 private:
  ArrayStorage& storage_;
};

}  // namespace gnn::data
