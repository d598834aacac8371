#include "worker/loader/tensor_memory.h"

#include "common/guarded.h"
#include "common/page_buffer.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>

namespace gnn::loader {
namespace {

// Rounds up to an eighth of the power of two below: batches differ by a few percent, and their
// tensors should fit each other's blocks.
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

  // For any address that allocate() of any TensorMemory returned. One that is no block came from
  // torch's own allocator.
  static void give_back(void* data) {
    Block block = blocks_in_use().take(data);
    if (block.owner == nullptr) {
      c10::GetDefaultCPUAllocator()->raw_deleter()(data);
      return;
    }
    block.owner->keep(std::move(block.pages));
  }

  [[nodiscard]] Bytes bytes() const { return kept_.lock()->bytes; }

 private:
  struct Block {
    PageBuffer pages;
    std::shared_ptr<Blocks> owner;
  };

  // Blocks by their address. One for the process, since a deleter gets nothing but an address.
  class InUse {
   public:
    void add(void* data, Block block) { blocks_.lock()->emplace(data, std::move(block)); }

    // An empty block if there is none at that address.
    Block take(void* data) {
      auto node = blocks_.lock()->extract(data);
      return node.empty() ? Block{} : std::move(node.mapped());
    }

   private:
    Guarded<std::unordered_map<void*, Block>> blocks_;
  };

  struct Kept {
    // Gives the largest blocks back to the system until the bound holds.
    void trim() {
      while (!blocks.empty() && bytes.in_use + bytes.kept > most_in_use + most_in_use / 4) {
        const auto largest = std::prev(blocks.end());
        bytes.kept -= largest->first;
        blocks.erase(largest);
      }
    }

    std::multimap<size_t, PageBuffer> blocks;  // by size
    Bytes bytes;
    size_t most_in_use = 0;
  };

  static InUse& blocks_in_use() {
    // Never destroyed: tensors in static storage are freed after main.
    static auto* const kBlocks = new InUse;
    return *kBlocks;
  }

  // A kept block of at least `size` bytes and not much more, or an empty one.
  PageBuffer find(size_t size) {
    const auto kept = kept_.lock();
    const auto found = kept->blocks.lower_bound(size);
    if (found == kept->blocks.end() || found->first > size + size / 4) return {};
    kept->bytes.kept -= found->first;
    return std::move(kept->blocks.extract(found).mapped());
  }

  void add_used(size_t size) {
    const auto kept = kept_.lock();
    kept->bytes.in_use += size;
    kept->most_in_use = std::max(kept->most_in_use, kept->bytes.in_use);
    kept->trim();
  }

  void keep(PageBuffer pages) {
    const size_t size = pages.bytes();
    const auto kept = kept_.lock();
    kept->bytes.in_use -= size;
    kept->bytes.kept += size;
    kept->blocks.emplace(size, std::move(pages));
    kept->trim();
  }

  void drop_kept() {
    const auto kept = kept_.lock();
    kept->blocks.clear();
    kept->bytes.kept = 0;
  }

  mutable Guarded<Kept> kept_;
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
#ifndef GNN_SANITIZED
  static TensorMemory memory;
  // Above torch's own, which registers itself with priority 0.
  c10::SetCPUAllocator(&memory, /*priority=*/1);
#endif
}

}  // namespace gnn::loader
