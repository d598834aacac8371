#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

namespace gnn::loader {

/// Memory of large CPU tensors, kept for the next tensor of about the same size.
///
/// Every training step makes the same tensors of tens of megabytes. malloc would map each of them
/// anew: every page faults once a step, and the kernel clears what is about to be overwritten. Here
/// freed blocks wait for the next step, in huge pages where the kernel has them. Waiting and used
/// blocks together stay below 5/4 of the most that was ever in use. Tensors below kSmallest come
/// from torch's own allocator.
/// Threads: safe.
class TensorMemory final : public c10::Allocator {
 public:
  static constexpr size_t kSmallest = size_t{1} << 20;

  struct Bytes {
    size_t in_use = 0;
    size_t kept = 0;
  };

  TensorMemory();
  ~TensorMemory() override;

  /// Throws std::bad_alloc if there is no memory even after freeing what is kept.
  c10::DataPtr allocate(size_t bytes) override;
  /// Takes back what allocate() gave, of any size, by its address alone: LibTorch's oneDNN manages
  /// its scratch memory that way (raw_allocate, raw_deallocate).
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  [[nodiscard]] Bytes bytes() const;

 private:
  class Blocks;
  std::shared_ptr<Blocks> blocks_;  // shared with every tensor, which may live longer
};

/// Makes a TensorMemory torch's CPU allocator for the rest of the process. Does nothing under the
/// address sanitizer, which then sees a use after free.
void keep_tensor_memory();

}  // namespace gnn::loader
