#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

namespace gnn::training {

/// Memory of large CPU tensors, kept for the next tensor of about the same size.
///
/// A training step makes the same tensors again and again, of tens of megabytes. malloc maps each
/// of them anew, so that every page faults once a step and the kernel clears what is about to be
/// overwritten. Here freed blocks wait for the next step, in huge pages where the kernel has them.
/// What waits and what is in use together stay below 5/4 of the most that was ever in use. Tensors
/// below kSmallest come from torch's own allocator. Threads: safe.
class TensorMemory final : public c10::Allocator {
 public:
  static constexpr size_t kSmallest = size_t{1} << 20;

  struct Bytes {
    size_t in_use = 0;
    size_t kept = 0;
  };

  TensorMemory();
  ~TensorMemory() override;

  /// Throws std::bad_alloc when there is no memory even without what is kept.
  c10::DataPtr allocate(size_t bytes) override;
  /// Takes back what allocate() gave by its address alone, whichever size it has: LibTorch's oneDNN
  /// asks for its scratch memory so (raw_allocate, raw_deallocate).
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  [[nodiscard]] Bytes bytes() const;

 private:
  class Blocks;
  std::shared_ptr<Blocks> blocks_;  // shared with every tensor, which may live longer
};

/// Makes a TensorMemory torch's allocator for the rest of the process. Under the address sanitizer
/// nothing changes, so that use after free is seen.
void keep_tensor_memory();

}  // namespace gnn::training
