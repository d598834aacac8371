#include "worker/training/tensor_memory.h"

#include "worker/sampling/cpu/buffer.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace gnn::training {
namespace {

using sampling::cpu::PageBuffer;

/// Sizes in steps of an eighth of the power of two below: batches differ by a few percent, and
/// their tensors are to fit each other's blocks.
size_t rounded(size_t bytes) {
  const size_t unit = std::bit_floor(bytes) / 8;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

class TensorMemory::Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  c10::DataPtr take(size_t bytes) {
    const size_t size = rounded(bytes);
    PageBuffer pages = find(size);
    try {
      pages.reserve(size);
    } catch (const std::bad_alloc&) {
      drop_kept();
      pages.reserve(size);
    }
    void* const data = pages.data();
    add_used(pages.bytes());
    blocks_in_use().add(data, {std::move(pages), shared_from_this()});
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }

  /// For any address that a TensorMemory's allocate() returned: torch's own allocator knows those
  /// that are no block.
  static void give_back(void* data) {
    Block block = blocks_in_use().take(data);
    if (block.owner == nullptr) {
      c10::GetDefaultCPUAllocator()->raw_deleter()(data);
      return;
    }
    block.owner->keep(std::move(block.pages));
  }

  [[nodiscard]] Bytes bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Block {
    PageBuffer pages;
    std::shared_ptr<Blocks> owner;
  };

  /// Blocks by their address. One for the process, since a deleter gets nothing but an address.
  class InUse {
   public:
    void add(void* data, Block block) {
      const std::lock_guard lock(mutex_);
      blocks_.emplace(data, std::move(block));
    }

    /// An empty block when there is none at that address.
    Block take(void* data) {
      const std::lock_guard lock(mutex_);
      auto node = blocks_.extract(data);
      return node.empty() ? Block{} : std::move(node.mapped());
    }

   private:
    std::mutex mutex_;
    std::unordered_map<void*, Block> blocks_;
  };

  static InUse& blocks_in_use() {
    // Never destroyed: tensors in static storage are freed after main.
    static auto* const kBlocks = new InUse;
    return *kBlocks;
  }

  /// A kept block of at least `size` bytes and not much more, or an empty one.
  PageBuffer find(size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.lower_bound(size);
    if (found == kept_.end() || found->first > size + size / 4) return {};
    bytes_.kept -= found->first;
    return std::move(kept_.extract(found).mapped());
  }

  void add_used(size_t size) {
    const std::lock_guard lock(mutex_);
    bytes_.in_use += size;
    most_in_use_ = std::max(most_in_use_, bytes_.in_use);
    trim();
  }

  void keep(PageBuffer pages) {
    const std::lock_guard lock(mutex_);
    const size_t size = pages.bytes();
    bytes_.in_use -= size;
    bytes_.kept += size;
    kept_.emplace(size, std::move(pages));
    trim();
  }

  /// Gives the largest kept blocks back to the system until the bound holds.
  void trim() {
    while (!kept_.empty() && bytes_.in_use + bytes_.kept > most_in_use_ + most_in_use_ / 4) {
      const auto largest = std::prev(kept_.end());
      bytes_.kept -= largest->first;
      kept_.erase(largest);
    }
  }

  void drop_kept() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
    bytes_.kept = 0;
  }

  mutable std::mutex mutex_;
  std::multimap<size_t, PageBuffer> kept_;  // by their size
  Bytes bytes_;
  size_t most_in_use_ = 0;
};

TensorMemory::TensorMemory() : blocks_(std::make_shared<Blocks>()) {}
TensorMemory::~TensorMemory() = default;

c10::DataPtr TensorMemory::allocate(size_t bytes) {
  if (bytes < kSmallest) return c10::GetDefaultCPUAllocator()->allocate(bytes);
  return blocks_->take(bytes);
}

c10::DeleterFnPtr TensorMemory::raw_deleter() const {
  return &Blocks::give_back;
}

void TensorMemory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

TensorMemory::Bytes TensorMemory::bytes() const {
  return blocks_->bytes();
}

void keep_tensor_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  static TensorMemory memory;
  // Above torch's own, which registers itself with priority 0.
  c10::SetCPUAllocator(&memory, /*priority=*/1);
#endif
}

}  // namespace gnn::training
