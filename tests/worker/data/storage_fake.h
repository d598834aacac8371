#pragma once

#include "worker/data/array.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data::testing {

/// Arrays in memory; tests derive from it to change or to watch a part of a storage.
class StorageFake : public ArrayStorage {
 public:
  using ArrayStorage::commit;
  Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override {
    return memory_.create(std::move(name), dtype, std::move(shape));
  }
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
    return memory_.scratch(dtype, std::move(shape));
  }
  Result<Array> commit(Array array, int64_t length) override {
    return memory_.commit(std::move(array), length);
  }
  Result<Array> find(const std::string& name) override { return memory_.find(name); }
  [[nodiscard]] int64_t memory_bytes() const override { return memory_.memory_bytes(); }

 private:
  MemoryStorage memory_;
};

}  // namespace gnn::data::testing
